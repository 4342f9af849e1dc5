//! The resharding protocol as a model, searched by a model checker.
//!
//! The protocol keeps single-item operations linearizable and queries complete while the shard count of a collection
//! changes under them. It does so without locks, against clients that act on old metadata, requests that execute long
//! after anybody waits for them, and a mover that crashes or comes back from the dead. Such a protocol is not shown to
//! be right by tests of what one happens to think of. Here every order of events is visited, within bounds, and so
//! that the search can be believed, [`mutation`] breaks the protocol's rules one by one: each must be caught.
//!
//! # What is modelled
//!
//! - [`item`]: one item with up to three homes, and every operation on it: put, delete, create and replace
//!   (`If-None-Match: *`, `If-Match: *`), a swap on the version that was read (`If-Match`), an upsert, a put on a condition that
//!   an absent item meets, a check in a transaction, a strong get.
//!   Moves may be rejected, and items may expire. An operation is a machine of the protocol's steps, one request each. Linearizability is tracked exactly, by all
//!   orders that are still possible (`item/history.rs`).
//! - [`query`]: a query of four items in two shards, page by page, while a reshard moves three of them and
//!   transactions show to plain reads one side at a time.
//! - [`random`]: one sort key of a `random` collection in up to three shards, which gets, queries and deletes go through
//!   part by part while the collection grows and shrinks.
//! - [`epochs`]: intervals of the sort keys with counts of their own, of which each comes to another count by itself.
//! - [`schedule`]: the phases `stable`, `forward` and `move`, for reshards one after the other. In the first two the
//!   collection may begin without metadata. Then clients hold leases of the directory that does not list it, and the
//!   first reshard enlists it by a transaction whose halves show one after the other.
//! - [`settings`]: a change of the lease term while a reshard goes on, with functions of the old and the new term and
//!   the operator's command. It is about one wait and those whom it waits for, and has neither items nor shards.
//! - [`ownership`]: two stacks on one main table, of which the second must serve nothing.
//! - [`lifetimes`]: requests that live for less than DynamoDB's window, while that time changes.
//! - [`index_shards`]: the shards of write-sharded indexes, which become more while items are written and read.
//! - [`layouts`]: metadata of a collection that rests, which is renewed by a counter of that root.
//! - [`segments`] and [`conversion`]: a directory in segments under a root, and how one of a single item becomes one.
//!
//! | Part of the protocol | Where |
//! |---|---|
//! | the steps of an operation, settle(item), puts and deletes in `move` | `item/client.rs` |
//! | conditions, transactions, the guard on every write | `item/store.rs` |
//! | the mover: scan, settle, crash, zombie | `item/mover.rs` |
//! | its pages and checkpoints | `query/mover.rs` |
//! | random growth and shrinking, and in which order shards are asked | `random/mover.rs`, `random/client.rs` |
//! | the directory, and the metadata of collections that it lists | `read_directory` in `item/state.rs` |
//! | the guards of the transitions, enlisting, removal of markers | `item/controller.rs`, `query/mod.rs` |
//! | the waves of a query, watermarks, markers to resolve | `query/reader.rs` |
//! | pinned settings, the longest term, the steps of their change | `settings/mod.rs` |
//! | the list of epochs, the interval of a reshard | `epochs/mod.rs`, `epochs/mover.rs` |
//! | windows that end where an epoch ends | `epochs/reader.rs` |
//! | what must hold | `properties.rs` in `item`, `query`, `random`, `epochs` and `settings` |
//!
//! # What is assumed
//!
//! In the models of items, queries, epochs and `random` nothing has a clock. What the protocol waits for is a guard on what is still
//! possible:
//!
//! - **A1**, metadata is not used past its lease: a phase follows when no operation runs under a lease from before the
//!   last one. Requests that were sent under such a lease may execute all the same.
//! - **A2**, nothing executes later than H after it was signed: when the closing scan begins, what was signed before
//!   `move` is gone. Until then every write that nobody waits for may execute at any time, or never.
//! - **A3**, a committed transaction shows within V: the reshard closes when no transaction shows in part. The item
//!   model has no halves of moves, since its reads that could see one are transactions themselves. The
//!   halves of the transaction that enlists a collection show apart, and `move` waits until both do.
//!
//! Metadata is read in the moment in which it is used, and the first plain read of an attempt executes at once. Whoever
//! acts later on the same answer is an attempt that began later, which is searched as well.
//!
//! In the model of settings time passes, and [`settings`] says how: there A1 is counted out. H may change, too, and is
//! left out: a wait depends on it, and leases do not.
//!
//! # Bounds
//!
//! Two to four clients with one or two operations each; one crash of the mover (two with queries) and one timeout of
//! each client; up to three reshards on routes over three homes; terms of one to three ticks, changed any number of
//! times. [`config`] lists the searches, what each must show, and which come to their end. The others are cut off at a
//! limit, and their verdict says so. States are told apart by a hash of 64 bits, so that two of some millions could be taken for one, with a
//! probability below one in a hundred thousand.
//!
//! A list of epochs has two at most: each of several has the same neighbours as these.
//!
//! Not modelled are a second transaction that would enlist the collection (it is refused as a whole), the controller's
//! memory (each of its guards is read off the state, as if it had restarted before every step), and progress: the
//! checker says that nothing bad happens, not that a reshard ends.
//!
//! # What is not caught, and why
//!
//! Six rules can be broken without any search finding it. They stay as defence in depth;
//! [`mutation::Mutation::expectation`] gives the reason for each, and a test holds the list to exactly these:
//!
//! - `ForwardBeforeStableIsKnown`: guard and markers refuse who acts on the last `move` like who acts on `stable`.
//! - `CountHFromForward`: what was signed in `forward` already keeps to markers, and may come at any time.
//! - `DropCopyUnchecked`: nobody has been told of a copy that came late and is dropped.
//! - `DrainUnderLeases`: markers of a later generation send back who acts on `stable`.
//! - `GetKeptFirst`: a marker of what moved between the reads is looked up.
//! - `MoveKeepsGeneration`: what is older than a move is refused by the marker or by H. Progress would suffer.

pub mod check;
pub mod config;
pub mod conversion;
pub mod epochs;
pub mod index_shards;
pub mod item;
pub mod layouts;
pub mod lifetimes;
pub mod mutation;
pub mod ownership;
pub mod query;
pub mod random;
pub mod schedule;
pub mod segments;
pub mod settings;
