//! `dynashard keys decode`.

use dynashard_keys::{
    Affix, PhysicalPartitionKey, Separator, ShardCount, ShardRule, WriteSharding,
};
use serde::Serialize;

use crate::operator::Failure;
use crate::operator::output::{Form, Output};
use crate::operator::planning::Ended;

#[derive(Debug, clap::Args)]
pub(crate) struct DecodeArgs {
    /// The physical partition key, as DynamoDB and CloudWatch show it.
    #[arg(value_name = "KEY", allow_hyphen_values = true)]
    key: String,
    /// Only this separator: #~ # _ . - or :.
    #[arg(long, value_name = "TEXT")]
    separator: Option<Separator>,
    /// Print one line of JSON for each reading.
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) form: Form,
}

/// What follows the arguments in `--help`.
pub(super) const EXAMPLES: &str = "\
A key does not say by which separator it was made, so each reading that is possible has a line:
  dynashard   the main table of a stack with this separator; without a suffix the key is a first shard
  suffix      <pk><separator><shard>, of tables that were sharded by hand
  prefix      <shard><separator><pk>

Exit status: 2 if the key cannot be read in any way.

Examples:
  dynashard keys decode 'EWR#~11'
  dynashard keys decode 2014-07-09.157 --separator .
  dynashard keys decode user.v1.User:abc:11 --separator : --json";

#[derive(Serialize)]
struct Reading {
    form: &'static str,
    separator: &'static str,
    pk: String,
    /// Null for a first shard that has no number.
    shard: Option<u32>,
}

pub(super) fn run(args: &DecodeArgs, output: &mut Output) -> Result<Ended, Failure> {
    let mut readings = Vec::new();
    let mut refused = None;
    for separator in Separator::ALL {
        if args.separator.is_some_and(|only| only != separator) {
            continue;
        }
        match PhysicalPartitionKey::parse(&args.key, separator) {
            // Without a suffix the key reads the same by every separator: the default stands for all.
            Ok((pk, None))
                if args.separator.is_none()
                    && separator != Separator::default()
                    && pk.as_str() == args.key => {}
            Ok((pk, shard)) => readings.push(Reading {
                form: "dynashard",
                separator: separator.as_str(),
                pk: pk.to_string(),
                shard: shard.map(dynashard_keys::ShardId::get),
            }),
            Err(error) => refused = Some(error),
        }
        for (form, affix) in [("suffix", Affix::Suffix), ("prefix", Affix::Prefix)] {
            readings.extend(by_hand(&args.key, separator, affix).map(|(pk, shard)| Reading {
                form,
                separator: separator.as_str(),
                pk,
                shard: Some(shard),
            }));
        }
    }
    if let (true, Some(error)) = (readings.is_empty(), refused) {
        return Err(error.into());
    }
    output.text(format!("{:10} {:9} {:>11}  partition key", "form", "separator", "shard"));
    for reading in &readings {
        let shard = reading.shard.map_or_else(|| "the first".to_owned(), |shard| shard.to_string());
        let Reading { form, separator, pk, .. } = reading;
        output.text(format!("{form:10} {separator:9} {shard:>11}  {pk}"));
        output.json(reading);
    }
    Ok(Ended::Done)
}

/// The key and the shard of a table that was sharded by hand, with any number of shards.
fn by_hand(key: &str, separator: Separator, affix: Affix) -> Option<(String, u32)> {
    let most = ShardCount::new(ShardCount::MAX).ok()?;
    [ShardRule::Md5, ShardRule::Xxh64].into_iter().find_map(|rule| {
        let sharding = WriteSharding::new(rule, most).ok()?;
        let sharding = sharding.with_separator(separator).with_affix(affix);
        let (pk, shard) = sharding.parse(key).ok()?;
        (!pk.is_empty()).then(|| (pk.to_owned(), shard.get()))
    })
}
