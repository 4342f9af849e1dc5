//! What can be wrong with the protocol: each mutation takes one rule away, and the checker must find out.

/// A rule of the protocol that is broken. What it names last are the invariants of
/// `docs/INVARIANTS.md` that it is against.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mutation {
    /// Breaks the waiting for T': a phase is published while clients still act on leases from before the last one. A
    /// client of `move` puts past the old home, and one of `stable` still reads there.
    /// Invariant I8.
    PublishBeforeLeasesEnd,
    /// Breaks the waiting for T' between `stable` and the next `forward`: a client may still act on the `move` of the
    /// last reshard.
    /// Invariant I7.
    ForwardBeforeStableIsKnown,
    /// Breaks the waiting for T' behind the enlisting: `move` is published as soon as the directory lists the
    /// collection. A client that has read the directory before still reads and writes at the old home.
    /// Invariant I8.
    EnlistWithoutWait,
    /// Breaks "the wait counts from a read that saw both": it counts from one that saw the metadata, which the
    /// directory did not list yet. Who read the directory after that is not waited for.
    /// Invariant I32.
    CountEnlistingFromMetadata,
    /// Breaks "absence stands on a lease": a client that has once read that the collection is not listed believes it
    /// for ever, and reads at the old home what others have written at the new one since.
    /// Invariant I32.
    AbsenceWithoutLease,
    /// Breaks "all waits go by the longest": a controller waits for T' of its own term, which is shorter than that of an
    /// environment that acts on `stable`.
    /// Invariant I33.
    WaitByOwnTerm,
    /// Breaks "the decision stands on a lease of the directory": a controller goes by the longest that it has read
    /// before it saw `forward`, and before a longer term was accepted.
    /// Invariant I33.
    DecideByOldDirectory,
    /// Breaks "metadata is leased under a lease of the directory": whoever was accepted once reads metadata for ever. An
    /// environment with the old term goes on when the longest is shorter.
    /// Invariant I33.
    ReadWithoutDirectory,
    /// Breaks the same for what an environment has published: it keeps that for its own term, although its lease of the
    /// directory has ended before the sending.
    /// Invariant I33.
    KeepWithoutDirectory,
    /// Breaks step 1: the new term is accepted, and the longest stays as it was.
    /// Invariant I33.
    AcceptWithoutRaising,
    /// Breaks step 1 where an earlier change was left before its step 3: the longest becomes the longer of the old and
    /// the new term, although a third that is longer may still be in use.
    /// Invariant I33.
    ForgetLonger,
    /// Breaks the wait before step 3: the longest becomes shorter at once.
    /// Invariant I33.
    ShortenAtOnce,
    /// Breaks the same wait by half: it lasts as long as a lease of the directory. A lease of the metadata that was
    /// taken at its end is longer than the waits that follow.
    /// Invariant I33.
    ShortenAfterOneLease,
    /// Breaks "if anybody has changed what is pinned, the command waits anew": one goes on waiting while another accepts
    /// the longer term again, and turns back.
    /// Invariant I33.
    ShortenThoughChanged,
    /// Breaks "a main table has one owner": the environment of a second stack serves, although the table names the metadata
    /// table of another. To each stack what the other has written is invisible.
    /// Invariant I2.
    SecondOwner,
    /// Breaks "the root is in no transaction", as a first plan of a directory in segments had it: an environment sees the
    /// root's half, then reads a segment whose half does not show yet, and renews that by the root for ever.
    /// Invariant I32.
    RootInTransaction,
    /// Breaks "the change shows before the counters are raised": a segment that is read in between is renewed for ever.
    /// Invariant I32.
    BumpBeforeSegmentShows,
    /// Breaks "the wait counts from the answer of the last copy": who reads another copy is not waited for.
    /// Invariant I32.
    WaitForSomeCopies,
    /// Breaks "T' counts from the answer to the raised count": whoever saw the change before that goes by its own clock.
    /// Invariant I32.
    WaitFromSight,
    /// Breaks "another copy, another cache": a segment that was read under the counter of one copy is renewed by that of
    /// another, which may be equal by chance.
    /// Invariant I32.
    OneCacheForAllCopies,
    /// Breaks "T' counts from the answer to the raised count" where a collection has rested: it counts from the sight of
    /// `forward`, and who renews the layout of before until the count is raised is not waited for.
    /// Invariant I8.
    WaitFromSightOfLayout,
    /// Breaks "`forward` shows before the count is raised": metadata that is read in between is renewed for ever.
    /// Invariant I8.
    RaiseBeforeLayoutShows,
    /// Breaks "the root that was read before the metadata renews it": one that was read behind it may count the change already.
    /// Invariant I8.
    RenewByLaterRoot,
    /// Breaks "only metadata that rests is renewed": nothing is raised when `forward` is over.
    /// Invariant I8.
    RenewWhatMoves,
    /// Breaks the same where a listed collection has no metadata yet: its first change is not counted.
    /// Invariant I8.
    RenewWithoutMetadata,
    /// Breaks "the conversion waits for V before it scans": it has read a list that names a key whose metadata does not show
    /// yet, and puts a root in its place under which nobody finds the key.
    /// Invariant I32.
    ConvertWithoutV,
    /// Breaks "the conversion succeeds where `rev` is as read": what was enlisted behind its scan is in no segment.
    /// Invariant I32.
    ConvertWhateverChanged,
    /// Breaks "a root counts 1 for each group that has keys": a group with a counter of 0 is not read.
    /// Invariant I32.
    ConvertToZero,
    /// Breaks the wait before waits go by a shorter H: it is for leases alone, although what was signed under them lives
    /// longer. A put of before `move` executes behind the closing scan.
    /// Invariants I9, I33.
    ShortenHThoughRequestsLive,
    /// Breaks "a lease of metadata has the dates of the directory's lease": a write is dated by what is held of the
    /// directory when it is signed. That was dropped meanwhile, so the write is not dated, and executes behind the closing
    /// scan of a job that waits for dated ones.
    /// Invariants I9, I33.
    DateByWhatIsHeld,
    /// Breaks "readers are ahead": a growth of the shards of indexes raises the counts of readers and of writers at once. Who
    /// has read the root before does not ask for a shard that an item is written to.
    /// Invariant I39.
    GrowIndexShardsInOneStep,
    /// Breaks the waiting for T' between the two steps of such a growth.
    /// Invariant I39.
    SettleIndexShardsAtOnce,
    /// Breaks "the count stands on a lease of the root": whoever has read it goes by it for ever.
    /// Invariant I39.
    ReadIndexShardsOnce,
    /// Breaks the waiting for H: the closing scan begins at once. A write that was signed under `stable(N)` executes
    /// behind it, and lies at a home where nobody looks any more.
    /// Invariants I4, I9.
    CloseWithoutH,
    /// Breaks where H counts from: `forward` in place of `move`, so that what was signed in `forward` executes behind
    /// the closing scan.
    /// Invariant I9.
    CountHFromForward,
    /// Breaks "every settled item leaves a marker": the old home is emptied, or left empty. Who still
    /// reads or writes there is not told that the item is elsewhere.
    /// Invariant I13.
    LeaveNoMarkers,
    /// Breaks "reads settle what they show": a strong get returns what it finds at the old home alone, and leaves it there. A
    /// late put is read there, and a create that has looked before succeeds over it at the new one.
    /// Invariant I31.
    GetsDoNotSettle,
    /// Breaks "where the new home does not decide, the old one is looked at": a replacement in `move` that finds nothing
    /// fitting at the new home is refused, although the item has not moved.
    /// Invariant I14.
    ReplaceTrustsNewHome,
    /// Breaks "a conditional write looks at the old home": a create in `move` goes to the new home alone, and succeeds
    /// over an item that has not moved.
    /// Invariant I14.
    CreateSkipsOldHome,
    /// Breaks "a delete takes what it saw": in `move` a delete that finds nothing at the old home deletes whatever is at
    /// the new one. A late put lands at the old home behind the look and is read; a put at the new one hides it; and
    /// the delete shows it again.
    /// Invariant I28.
    DeleteSkipsMarker,
    /// Breaks "both homes in one transaction" for such a delete: it reads the new home after the old one, and so may
    /// see what has hidden the late put already.
    /// Invariant I28.
    DeleteReadsHomesApart,
    /// Breaks "only a put goes past the old home": a delete does, too, and what lies there comes back.
    /// Invariant I14.
    DeleteOnlyAtNewHome,
    /// Breaks "markers go after the close": each scan of the mover removes those that it finds. A late put lands where a
    /// delete has read a marker and is read, a put hides it, and the delete shows it again.
    /// Invariant I21.
    RemoveMarkersWhileMoving,
    /// Breaks "an update of a marker never leaves `_ds_fwd` behind": an upsert at a home that holds an old marker is
    /// acknowledged, and what it wrote counts as absent.
    /// Invariants I2, I16.
    UpsertKeepsMarker,
    /// Breaks "every write that leaves an item draws a new version": an update in place keeps the one that it finds, and a
    /// move that has read the item before puts back what it has read.
    /// Invariants I2, I35.
    UpdateKeepsVersion,
    /// Breaks "no two writes give an item the same version": a client's updates share one, and a move that has read what
    /// the first has left undoes the second.
    /// Invariants I2, I36.
    VersionRepeats,
    /// Breaks "an update counts at the new home only where an item is live": one in `move` goes there alone, and does not
    /// keep what lies at the old home.
    /// Invariant I14.
    UpsertTrustsNewHome,
    /// Breaks "a condition is judged of nothing where a marker lies": a create fails at a marker.
    /// Invariant I16.
    ConditionSeesMarker,
    /// Breaks "only a marker is taken away for a condition": what another client has put in its place goes with it.
    /// Invariants I2, I16.
    RemoveMarkerUnchecked,
    /// Breaks "that removal carries the guard": one that comes late takes the marker of a later reshard, and who still
    /// writes there is not told that the item is elsewhere.
    /// Invariants I12, I16.
    RemoveMarkerWithoutGuard,
    /// Breaks "checks run at the new home behind a marker at the old one": a check in `move` finds nothing, and a late put
    /// that was seen before shows behind it.
    /// Invariant I37.
    CheckWithoutMarker,
    /// Breaks the guard on every write: a late delete removes a marker of a newer generation, and who still reads there
    /// takes the item for deleted.
    /// Invariant I12.
    WriteWithoutGuard,
    /// Breaks "a move raises `_ds_g`": the item arrives with the generation that it had.
    /// Invariant I19.
    MoveKeepsGeneration,
    /// Breaks the check in the transaction that drops a late copy: that the new home still is live. If the item there
    /// has been deleted meanwhile, the copy was what a query could see, and it vanishes.
    /// Invariant I18.
    DropCopyUnchecked,
    /// Breaks "a move is one transaction" in the mover: it copies, and then erases. Whatever happens between is undone
    /// or doubled.
    /// Invariant I17.
    MoverCopiesThenErases,
    /// Breaks "only the last step shows": a delete gives up the item at the old home, and then deletes at the new one.
    /// It takes effect twice: a create that follows the first half succeeds, and the second half deletes what it made.
    /// Invariant I15.
    DeleteOldHomeFirst,
    /// Breaks "the operation runs at the new home": a delete of an item at the old home only turns it into a marker.
    /// What another client has put at the new home meanwhile survives.
    /// Invariants I3, I15.
    DeleteOnlyAtOldHome,
    /// Breaks "new and old are read in one transaction": a get reads one after the other, and misses an item that
    /// moves between.
    /// Invariant I23.
    PlainSecondGet,
    /// Breaks "the new home is read first": a get believes a late copy at the old home that is doomed.
    /// Invariant I23.
    GetOldHomeFirst,
    /// Breaks "a write answered after its lease is unknown if the metadata has changed": a put that executed late at the old home
    /// is acknowledged,
    /// read over because the new home wins, and shows once that is deleted.
    /// Invariants I3, I6.
    AcknowledgeAfterLease,
    /// Breaks "a write whose fate is unknown is not sent again", as an SDK that retries does: it becomes a 412 of its
    /// own making, or goes over a later write.
    /// Invariant I6.
    RetryUnknown,

    /// Breaks "a delete of what cannot be moved takes what it saw": it puts its marker whatever lies at the old home, and
    /// is acknowledged although the item has been moved meanwhile.
    /// Invariants I3, I28.
    DeleteUnmovableUnchecked,
    /// Breaks "the reshard closes when no item is left that could not be moved": an item that the scan has gone past
    /// counts as moved.
    /// Invariants I4, I10.
    CloseOverUnmovable,
    /// Breaks "the attributes by which items expire are pinned": a writer does not know the attribute, and its put in
    /// `move` goes past the old home. When the item expires, what it has replaced shows again.
    /// Invariants I3, I14.
    UnpinnedTtl,

    /// Breaks the waiting for T' in a growth of a `random` collection: puts go to new shards while others still look in the
    /// old ones only.
    /// Invariant I8.
    GrowAtOnce,
    /// Breaks the waiting for T' before a `random` collection is drained: who acts on `stable` still reads all shards at
    /// once, and misses what moves between.
    /// Invariant I8.
    DrainUnderLeases,
    /// Breaks "from `forward` on, writers draw from the shards that stay": a put lands behind the closing scan.
    /// Invariants I4, I9.
    PutIntoDrained,
    /// Breaks the waiting for H where shards are drained: a put that was signed before lands behind the closing scan.
    /// Invariants I4, I9.
    DrainClosesWithoutH,
    /// Breaks the waiting for V there: what has arrived does not show yet, and nobody looks where its marker lies.
    /// Invariant I10.
    DrainClosesWithoutV,
    /// Breaks "every move leaves a marker" there: while half the move shows, nothing says that there is an item.
    /// Invariant I20.
    DrainLeavesNoMarker,
    /// Breaks the check in the transaction by which one of two copies gives way: that the other still is there. A delete
    /// that came before the copy has removed it, and the copy that a client has seen since vanishes.
    /// Invariant I18.
    DrainGivesWayUnchecked,
    /// Breaks "markers go T' after the close" there: a get has read the drained shard, and the marker is gone before it
    /// reads the others.
    /// Invariant I21.
    DrainedMarkersUnderLeases,
    /// Breaks "the drained shards are read, too": a get looks in those that stay alone.
    /// Invariant I34.
    GetSkipsDrained,
    /// Breaks "the drained shards come first": a get looks in those that stay before an item has moved to them, and in the
    /// others after that.
    /// Invariant I34.
    GetKeptFirst,
    /// Breaks "a marker without its item is looked up" for gets and queries: half of the move shows, the item in neither
    /// shard.
    /// Invariants I26, I34.
    MarkersAreNotLookedUp,
    /// Breaks "a delete visits the drained shards, too": what lies there outlives it.
    /// Invariant I34.
    DeleteSkipsDrained,
    /// Breaks "the drained shards come first" for a delete: the item moves to where it has been.
    /// Invariant I34.
    DeleteKeptFirst,
    /// Breaks "where a marker points, a delete does not read": what has arrived does not show yet, and outlives it.
    /// Invariant I34.
    DeleteSkipsArrival,
    /// Breaks "a delete that was done in part is of unknown outcome": it is answered as one that did nothing.
    /// Invariant I6.
    DeleteInPartIsRefused,
    /// Breaks "duplicates are dropped" in a `random` collection: an item that moves between the reads of a query is
    /// returned from both shards.
    /// Invariants I5, I25.
    QueryKeepsCopies,

    /// Breaks "destinations before sources": a query reads an item at its source that a put has replaced at its
    /// destination before the query began, and a delete removes that before the destination is read.
    /// Invariants I24, I30.
    QuerySourcesFirst,
    /// Breaks the common watermark: a round ends where its farthest page does, and skips what the others did not
    /// cover.
    /// Invariants I5, I25.
    QueryTakesLargestWatermark,
    /// Breaks "`_ds_g` above the metadata's: refresh": a query under old metadata takes a marker of a newer generation
    /// for an absent item.
    /// Invariants I5, I27.
    QueryIgnoresGeneration,
    /// Breaks "duplicates are dropped": an item that moves between the waves is returned from both.
    /// Invariants I5, I25.
    QueryKeepsDuplicates,
    /// Breaks "a marker whose item is in no destination page is resolved": half a transaction shows, the item in
    /// neither.
    /// Invariants I5, I26.
    QuerySkipsMarkers,
    /// Breaks "the checkpoint comes after the answers": a mover that crashes between leaves an item behind.
    /// Invariants I4, I22.
    CheckpointBeforeMove,
    /// Breaks "every move leaves a marker" for queries: while half the transaction shows, nothing says that there is an
    /// item.
    /// Invariants I5, I20.
    MoveLeavesNoMarker,
    /// Breaks "what the pilot alone has is looked for again": the same with the source that is read first.
    /// Invariants I29, I30.
    QueryTrustsPilot,
    /// Breaks "markers go T' after the close": a query reads the destination, the item moves, its reshard closes, and
    /// nothing at the source says that there is an item.
    /// Invariants I5, I10, I21.
    RemoveMarkersUnderLeases,
    /// Breaks "markers go after the close" and V: the closing scan removes what it finds, also the marker of a
    /// transaction of which only half shows.
    /// Invariant I21.
    RemoveMarkersInClosingScan,
    /// Breaks the waiting for V before `stable(M)`: a query of the new layout misses an item whose arrival does not show
    /// yet.
    /// Invariants I5, I10.
    CloseWithoutV,

    /// Breaks "a window ends where its epoch ends": it goes on behind the boundary, and reads all of it as the newer epoch is
    /// read. What lies at home under the count of the older one is skipped.
    /// Invariants I5, I41.
    WindowAcrossBoundary,
    /// Breaks "each epoch is asked by its own count": a query asks all of them by that of the first.
    /// Invariants I5, I41.
    QueryOfFirstEpoch,
    /// Breaks "the boundary belongs to the lower epoch" in a query: it is looked for where the upper one has it.
    /// Invariants I5, I41.
    QueryBoundaryOffByOne,
    /// Breaks the same in writes: an item at the boundary is put where nobody looks for it.
    /// Invariants I2, I3, I40.
    BoundaryOffByOne,
    /// Breaks "a cursor is what was covered": a query that goes down and has come to the end of the upper epoch takes the boundary
    /// for its cursor, and goes on behind it. Nothing has read it.
    /// Invariants I5, I41.
    CursorSkipsBoundary,
    /// Breaks "a scan begins behind the boundary": it begins one item later.
    /// Invariants I4, I40.
    ScanFromLaterBoundary,
    /// Breaks "a count changes by a reshard": an epoch in which nothing is seen gets the count of its neighbour by an edit of the
    /// list. A put that was acknowledged under the list from before lies where nobody looks.
    /// Invariants I2, I8, I40.
    DropEpochByEdit,
    /// Breaks the same for what is to come: nothing is seen behind the boundary, and the edit that splits the epoch there gives that
    /// a new count at once.
    /// Invariants I2, I8, I40.
    GrowByEdit,
    /// Breaks "equal neighbours are merged": those of unequal counts are, when the reshard of one of them closes.
    /// Invariants I2, I4, I40.
    MergeUnequal,
    /// Breaks "a job accounts for what the last one has left": it clears up in its own interval, and what markers the last job
    /// has left in another stay for ever.
    /// Invariants I21, I42.
    ForgetMarkers,
}

/// What is expected of a search under a mutation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expectation {
    /// It must be caught.
    Caught,
    /// It is not caught, for this reason, and the rule stays.
    DefenceInDepth(&'static str),
}

impl Mutation {
    /// All of them, in the order of the protocol's sections.
    pub const ALL: [Self; 101] = [
        Self::PublishBeforeLeasesEnd,
        Self::ForwardBeforeStableIsKnown,
        Self::EnlistWithoutWait,
        Self::CountEnlistingFromMetadata,
        Self::AbsenceWithoutLease,
        Self::WaitByOwnTerm,
        Self::DecideByOldDirectory,
        Self::ReadWithoutDirectory,
        Self::KeepWithoutDirectory,
        Self::AcceptWithoutRaising,
        Self::ForgetLonger,
        Self::ShortenAtOnce,
        Self::ShortenAfterOneLease,
        Self::ShortenThoughChanged,
        Self::SecondOwner,
        Self::RootInTransaction,
        Self::BumpBeforeSegmentShows,
        Self::WaitForSomeCopies,
        Self::WaitFromSight,
        Self::OneCacheForAllCopies,
        Self::WaitFromSightOfLayout,
        Self::RaiseBeforeLayoutShows,
        Self::RenewByLaterRoot,
        Self::RenewWhatMoves,
        Self::RenewWithoutMetadata,
        Self::ConvertWithoutV,
        Self::ConvertWhateverChanged,
        Self::ConvertToZero,
        Self::ShortenHThoughRequestsLive,
        Self::DateByWhatIsHeld,
        Self::GrowIndexShardsInOneStep,
        Self::SettleIndexShardsAtOnce,
        Self::ReadIndexShardsOnce,
        Self::CloseWithoutH,
        Self::CountHFromForward,
        Self::LeaveNoMarkers,
        Self::GetsDoNotSettle,
        Self::ReplaceTrustsNewHome,
        Self::CreateSkipsOldHome,
        Self::DeleteSkipsMarker,
        Self::DeleteReadsHomesApart,
        Self::DeleteOnlyAtNewHome,
        Self::RemoveMarkersWhileMoving,
        Self::UpsertKeepsMarker,
        Self::UpdateKeepsVersion,
        Self::VersionRepeats,
        Self::UpsertTrustsNewHome,
        Self::ConditionSeesMarker,
        Self::RemoveMarkerUnchecked,
        Self::RemoveMarkerWithoutGuard,
        Self::CheckWithoutMarker,
        Self::WriteWithoutGuard,
        Self::MoveKeepsGeneration,
        Self::DropCopyUnchecked,
        Self::MoverCopiesThenErases,
        Self::DeleteOldHomeFirst,
        Self::DeleteOnlyAtOldHome,
        Self::PlainSecondGet,
        Self::GetOldHomeFirst,
        Self::AcknowledgeAfterLease,
        Self::RetryUnknown,
        Self::DeleteUnmovableUnchecked,
        Self::CloseOverUnmovable,
        Self::UnpinnedTtl,
        Self::GrowAtOnce,
        Self::DrainUnderLeases,
        Self::PutIntoDrained,
        Self::DrainClosesWithoutH,
        Self::DrainClosesWithoutV,
        Self::DrainLeavesNoMarker,
        Self::DrainGivesWayUnchecked,
        Self::DrainedMarkersUnderLeases,
        Self::GetSkipsDrained,
        Self::GetKeptFirst,
        Self::MarkersAreNotLookedUp,
        Self::DeleteSkipsDrained,
        Self::DeleteKeptFirst,
        Self::DeleteSkipsArrival,
        Self::DeleteInPartIsRefused,
        Self::QueryKeepsCopies,
        Self::QuerySourcesFirst,
        Self::QueryTakesLargestWatermark,
        Self::QueryIgnoresGeneration,
        Self::QueryKeepsDuplicates,
        Self::QuerySkipsMarkers,
        Self::CheckpointBeforeMove,
        Self::MoveLeavesNoMarker,
        Self::QueryTrustsPilot,
        Self::RemoveMarkersUnderLeases,
        Self::RemoveMarkersInClosingScan,
        Self::CloseWithoutV,
        Self::WindowAcrossBoundary,
        Self::QueryOfFirstEpoch,
        Self::QueryBoundaryOffByOne,
        Self::BoundaryOffByOne,
        Self::CursorSkipsBoundary,
        Self::ScanFromLaterBoundary,
        Self::DropEpochByEdit,
        Self::GrowByEdit,
        Self::MergeUnequal,
        Self::ForgetMarkers,
    ];

    /// What is expected of it.
    pub fn expectation(self) -> Expectation {
        match self {
            Self::ForwardBeforeStableIsKnown => Expectation::DefenceInDepth(
                "who acts on the last `move` is refused by the guard and by markers as who acts on \
                 the `stable` after it is. The wait keeps two layouts the most that clients believe \
                 in at once, on which the rest of the protocol is argued",
            ),
            Self::CountHFromForward => Expectation::DefenceInDepth(
                "what was signed in `forward` settles before it writes and keeps to markers, so it \
                 may execute at any time; dangerous is only what was signed in `stable(N)`. The \
                 controller writes one time down, that of `move`, and both waits count from it",
            ),
            Self::DropCopyUnchecked => Expectation::DefenceInDepth(
                "who deletes an item settles what it has seen at the old home first, so what such a \
                 delete uncovers came late, and nobody has been told that it took effect. The \
                 check keeps a query from seeing it come and go",
            ),
            Self::MoveKeepsGeneration => Expectation::DefenceInDepth(
                "a write that is older than the move is refused twice over: by the marker or by H. \
                 What suffers is progress, which is not searched: a late copy gives way only to \
                 an item of the reshard's own generation",
            ),
            Self::DrainUnderLeases => Expectation::DefenceInDepth(
                "who acts on `stable` and comes to the drained shards after a move finds a marker of a \
                 later generation, and begins again. The wait keeps two layouts the most that \
                 clients believe in at once",
            ),
            Self::GetKeptFirst => Expectation::DefenceInDepth(
                "an item that moves between the two waves leaves a marker, which is looked up in a \
                 transaction. The order spares most of these",
            ),
            _ => Expectation::Caught,
        }
    }
}
