//! `dynashard decisions`: shows what was decided about shard counts, why, and from which figures.

mod entry;
mod since;

use std::collections::{HashMap, HashSet};
use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::time::Duration;

use dynashard_api::view::DecisionView;
use dynashard_core::ports::{List, Listed};
use dynashard_core::{DecisionHistory, Directory, Kind};
use dynashard_keys::PartitionKey;
use serde::Serialize;
use serde_json::json;

use super::connect::{ConnectArgs, deadline};
use super::output::{Form, Output};
use super::patience::ask_patiently;
use super::{Failure, INTERRUPTED, partition_key, until_interrupted};
use entry::Entry;
use since::Since;

/// How often --follow looks.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Histories could not be read.
const DAMAGED: u8 = 2;

#[derive(Debug, clap::Args)]
pub(crate) struct DecisionsArgs {
    /// Partition key of one collection, or `_ds_index_shards` for write-sharded indexes. Without it all decisions are shown.
    #[arg(long, value_name = "KEY", value_parser = decided_about)]
    pk: Option<PartitionKey>,
    /// Only decisions that were made since then: so long ago, as in 90s, 30m, 6h or 2d, or an epoch
    /// second.
    #[arg(long, value_name = "TIME")]
    since: Option<Since>,
    /// Show the newest N decisions at most.
    #[arg(long, value_name = "N", default_value = "100")]
    limit: NonZeroUsize,
    /// Show them oldest first, and go on: new decisions are printed as they are made, one line each.
    #[arg(long)]
    follow: bool,
    /// Print JSON on stdout: one object, or with --follow one object per line for each decision.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    form: Form,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// What follows the arguments in `--help`.
pub(crate) const EXAMPLES: &str = "\
A line of the table, newest first, reads:

  2026-11-22T19:08:51Z  EWR  1 > 16  grow  hot_key  8000/1000  clients ask for 8000 write units a second, and ...

  TIME             when the decision was made, or made last if it was made again
  SHARDS           the count then, and the count that it changes to
  DONE             grow, shrink, turn_round: it has begun. dry_run grow: it would have. overtaken: somebody else has
                   changed the collection meanwhile. running, cooldown, at_max_shards, not_allowed, clearing_up,
                   too_dear, too_long, too_large: why nothing was done. nothing: nothing was to be done
  DIAGNOSIS        what the load is: hot_key, hot_reads, ramp, hot_item, hot_queries, neighbour, table_capacity,
                   account_limit, max_on_demand, index, replica, unknown_limit, cooled_down, many_epochs (docs/SCALING.md says more)
  DEMAND/CAPACITY  units a second that clients asked for, 0 if that was not measured, and that its shards take
  WHY              the sentence of the log

What is decided again within a minute is noted once. With --follow a decision comes again, with a higher count, while
it is made again. Ctrl-C ends that.

Exit status: 0 if everything is shown; 1 if not, and a line on stderr says why, with the code of the API; 2 if
histories are damaged: the others are shown, and stderr names these; 130 after Ctrl-C.

Examples:
  dynashard decisions --stack-name dynashard
  dynashard decisions --stack-name dynashard --pk EWR --since 6h
  dynashard decisions --stack-name dynashard --json | jq '.decisions[] | select(.diagnosis == \"hot_item\") | .pk'
  dynashard decisions --endpoint-url http://127.0.0.1:8000 --main-table MainTable --follow";

pub(crate) async fn run(args: DecisionsArgs) -> ExitCode {
    let mut output = Output::of(args.form, args.json);
    let status = match until_interrupted(Box::pin(show(&args, &mut output))).await {
        Ok(shown) => shown.unwrap_or(ExitCode::from(INTERRUPTED)),
        Err(failure) => {
            output.failure(args.pk.as_ref().map(PartitionKey::as_str), &failure);
            ExitCode::FAILURE
        }
    };
    output.end(status)
}

/// Reads `--pk`.
fn decided_about(text: &str) -> Result<PartitionKey, String> {
    match text {
        PartitionKey::INDEX_SHARDS => Ok(PartitionKey::of_index_shards()),
        text => partition_key(text),
    }
}

async fn show(args: &DecisionsArgs, output: &mut Output) -> Result<ExitCode, Failure> {
    args.form.of_endless("--follow", args.follow)?;
    let connection = args.connect.connect().await?;
    let directory = connection.directory();
    let since_secs = args.since.map_or(0, |since| since.epoch_secs(directory.now().epoch_secs()));
    let mut listing = Listing { since_secs, limit: args.limit.get(), ..Listing::default() };
    let mut seen = HashMap::new();
    let mut is_known = false;
    let damaged = look(args, &directory, |history, of| {
        is_known |= history.rev > 0;
        for entry in Entry::of(&of, &history) {
            listing.add(entry);
        }
        if args.follow {
            seen.insert(of, history);
        }
    })
    .await?;
    listing.damaged = damaged;
    is_known |= !listing.damaged.is_empty();
    if let Some(pk) = args.pk.as_ref().filter(|_| !is_known) {
        // What is mistyped is to be noticed.
        connection.reader().collection(pk, deadline(&directory)).await?;
    }
    listing.end();
    if args.follow {
        return follow(args, &directory, (listing, seen), output).await;
    }
    listing.print(output);
    Ok(if listing.damaged.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(DAMAGED) })
}

/// Prints what there is, and then looks again and again for more.
async fn follow(
    args: &DecisionsArgs,
    directory: &Directory,
    (listing, mut seen): (Listing, HashMap<PartitionKey, DecisionHistory>),
    output: &mut Output,
) -> Result<ExitCode, Failure> {
    let (since_secs, mut new) = (listing.since_secs, listing.entries);
    let (mut damaged, mut told) = (listing.damaged, HashSet::new());
    loop {
        new.sort_by(Entry::newest_first);
        for entry in new.drain(..).rev() {
            output.event("decision", &entry.view());
            output.text(entry.line());
        }
        for fault in damaged.drain(..) {
            if told.insert(fault.clone()) {
                report_damage(&fault);
                output.event("damaged", &json!({ "detail": fault }));
            }
        }
        if output.is_broken() {
            return Ok(ExitCode::SUCCESS);
        }
        tokio::time::sleep(LOOK_EVERY).await;
        damaged = look(args, directory, |history, of| {
            let before = seen.get(&of);
            // The index may show what was there before.
            if before.is_some_and(|before| history.rev <= before.rev) {
                return;
            }
            let old = before.map(|before| &before.records[..]).unwrap_or_default();
            let is_new = |entry: &Entry| {
                entry.record.last_secs >= since_secs && !old.contains(&entry.record)
            };
            new.extend(Entry::of(&of, &history).filter(is_new));
            seen.insert(of, history);
        })
        .await?;
    }
}

/// Looks at all histories that were asked for, a page at a time. Returns the faults of those that are
/// damaged.
async fn look(
    args: &DecisionsArgs,
    directory: &Directory,
    mut each: impl FnMut(DecisionHistory, PartitionKey),
) -> Result<Vec<String>, Failure> {
    let mut damaged = Vec::new();
    if let Some(pk) = &args.pk {
        let ask = async || Box::pin(directory.records().decisions(pk, deadline(directory))).await;
        match ask_patiently(ask).await {
            Ok(history) => each(history, pk.clone()),
            Err(error) if error.kind() == Kind::Data => damaged.push(error.message().to_owned()),
            Err(error) => return Err(error.into()),
        }
        return Ok(damaged);
    }
    let mut after = None::<String>;
    loop {
        let behind = after.as_deref();
        let page = async || {
            Box::pin(directory.records().list(List::Decisions, behind, deadline(directory))).await
        };
        let page = ask_patiently(page).await?;
        for Listed { partition, decisions } in page.entries {
            each(decisions.unwrap_or_default(), partition);
        }
        damaged.extend(page.damaged);
        after = page.next;
        if after.is_none() {
            return Ok(damaged);
        }
    }
}

/// The newest decisions, of however many.
#[derive(Debug, Default)]
struct Listing {
    since_secs: u64,
    limit: usize,
    entries: Vec<Entry>,
    /// How many more there are.
    left_out: usize,
    damaged: Vec<String>,
}

impl Listing {
    fn add(&mut self, entry: Entry) {
        if entry.record.last_secs < self.since_secs {
            return;
        }
        self.entries.push(entry);
        // However many there are in the table, few are kept.
        if self.entries.len() > self.limit.saturating_mul(2).max(1_000) {
            self.end();
        }
    }

    fn end(&mut self) {
        self.entries.sort_by(Entry::newest_first);
        self.left_out += self.entries.len().saturating_sub(self.limit);
        self.entries.truncate(self.limit);
    }

    fn print(&self, output: &mut Output) {
        let Self { entries, left_out, damaged, .. } = self;
        let decisions = entries.iter().map(Entry::view).collect();
        let document = Document { decisions, left_out: *left_out, damaged };
        output.listing("decisions", "decisions", &document);
        if entries.is_empty() {
            let since = if self.since_secs > 0 { " since then" } else { "" };
            output.text(format_args!("nothing was decided{since}"));
        } else {
            for line in entry::table(entries) {
                output.text(line);
            }
        }
        if *left_out > 0 {
            output.text(format_args!("and {left_out} older; --limit shows more"));
        }
        for fault in damaged {
            report_damage(fault);
        }
    }
}

fn report_damage(fault: &str) {
    note!("dynashard: {}: {fault}", dynashard_core::Code::CorruptData.as_str());
}

/// `{"event":"decisions", ...}`
#[derive(Serialize)]
struct Document<'a> {
    decisions: Vec<DecisionView<'a>>,
    left_out: usize,
    damaged: &'a [String],
}
