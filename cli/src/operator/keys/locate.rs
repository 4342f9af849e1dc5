//! `dynashard keys locate`.

use clap::ValueEnum;
use dynashard_keys::{ItemKey, PartitionKey, ShardId, SortKey, SortKeyType};
use serde::Serialize;

use super::method::{Method, MethodArgs};
use crate::operator::output::{Form, Output};
use crate::operator::planning::Ended;
use crate::operator::{Failure, partition_key};

#[derive(Debug, clap::Args)]
pub(crate) struct LocateArgs {
    /// Partition key of the item.
    #[arg(long, value_name = "KEY", value_parser = partition_key)]
    pk: PartitionKey,
    /// Sort key of the item.
    #[arg(long, value_name = "KEY")]
    sk: String,
    /// Type of the sort key, S or N. A number is hashed in its one canonical form.
    #[arg(long, value_name = "TYPE", default_value = "S")]
    sk_type: SortKeyType,
    /// Only this rule.
    #[arg(long, value_enum, value_name = "NAME")]
    rule: Option<Method>,
    #[command(flatten)]
    method: MethodArgs,
    /// Print one line of JSON for each rule.
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) form: Form,
}

/// What follows the arguments in `--help`.
pub(super) const EXAMPLES: &str = "\
Rules:
  xxh64, jump, random          dynashard's placements. The first shard is the key itself
  md5, code-points, xxh64-suffix, random-suffix
                               of tables that were sharded by hand. Each shard has its number in the key

Nothing says by which rule an item was written. Whoever looks for it has to know the rule, the number of shards at
that time and the separator. `random` and `random-suffix` have no answer but all of their shards.

Examples:
  dynashard keys locate --pk EWR --sk 2013-01-01T10:00:00Z#UA1545 --shards 16
  dynashard keys locate --pk user.v1.User:abc --sk 123 --rule xxh64-suffix      # user.v1.User:abc:11
  dynashard keys locate --pk 2014-07-09 --sk A1001 --rule code-points --shards 200
  dynashard keys locate --pk sensor-7 --sk 1.50 --sk-type N --rule jump --shards 10 --json";

#[derive(Serialize)]
struct Line<'a> {
    rule: &'static str,
    shards: u32,
    /// Null where only the write knew it.
    shard: Option<u32>,
    physical: Option<String>,
    pk: &'a str,
    sk: &'a str,
}

pub(super) fn run(args: &LocateArgs, output: &mut Output) -> Result<Ended, Failure> {
    let key = ItemKey::new(args.pk.clone(), SortKey::parse(&args.sk, args.sk_type)?);
    output.text(format!("{:13} {:>6} {:>6}  physical partition key", "rule", "shards", "shard"));
    for rule in
        Method::value_variants().iter().filter(|rule| args.rule.is_none_or(|only| only == **rule))
    {
        let shards = rule.shards(args.method)?;
        let count = shards.count().get();
        let home = shards.home(&key);
        let physical = home.map(|shard| shards.at(&key, shard));
        let line = home.zip(physical.as_ref()).map_or_else(
            || {
                let first = shards.first().get();
                let ends = [first, first + count - 1].map(|n| shards.at(&key, ShardId::new(n)));
                format!("{rule:13} {count:>6} {:>6}  one of {} to {}", "drawn", ends[0], ends[1])
            },
            |(shard, physical)| format!("{rule:13} {count:>6} {shard:>6}  {physical}"),
        );
        output.text(line);
        let shard = home.map(ShardId::get);
        let (pk, sk) = (args.pk.as_str(), args.sk.as_str());
        output.json(&Line { rule: rule.as_str(), shards: count, shard, physical, pk, sk });
    }
    Ok(Ended::Done)
}
