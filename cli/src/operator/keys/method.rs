//! The rules by one name each: the placements of dynashard, and the rules that tables had before.

use std::fmt;

use dynashard_keys::{
    Affix, ItemKey, KeyError, Placement, Separator, ShardCount, ShardId, ShardRule, WriteSharding,
};

/// A way to find the shard of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Method {
    /// dynashard's placement xxh64: the first shard is the key itself
    Xxh64,
    /// dynashard's placement jump, which takes any number of shards
    Jump,
    /// dynashard's placement random: a number drawn for each write
    Random,
    /// md5(pk + sk) % N + 1, by "Choosing the right number of shards"
    Md5,
    /// the product of the sort key's code points % N + 1, by "Best Practices for Tables"
    CodePoints,
    /// XXH64(pk:sk) & (N - 1), by "Dynamo DB Sharding": the first shard has a number, too
    Xxh64Suffix,
    /// a number drawn from 1 to N for each write: the first shard has it in its key, too
    RandomSuffix,
}

/// What is chosen about the keys of shards.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(super) struct MethodArgs {
    /// How many shards. xxh64 and xxh64-suffix round up to a power of two.
    #[arg(long, value_name = "N", default_value = "16", value_parser = shard_count)]
    pub(super) shards: ShardCount,
    /// What stands between the key and the shard: #~ # _ . - or :. The default is the rule's own.
    #[arg(long, value_name = "TEXT")]
    pub(super) separator: Option<Separator>,
    /// Put the number of the shard before the key. The placements of dynashard have no prefix.
    #[arg(long)]
    pub(super) prefix: bool,
}

/// A rule with a number of shards.
#[derive(Debug, Clone, Copy)]
pub(super) enum Shards {
    Placed { placement: Placement, count: ShardCount, separator: Separator },
    Ruled { sharding: WriteSharding, count: ShardCount },
}

impl Method {
    /// The placement of dynashard that it is, or the rule of other tables.
    const fn rule(self) -> Result<Placement, ShardRule> {
        match self {
            Self::Xxh64 => Ok(Placement::Xxh64),
            Self::Jump => Ok(Placement::Jump),
            Self::Random => Ok(Placement::Random),
            Self::Md5 => Err(ShardRule::Md5),
            Self::CodePoints => Err(ShardRule::CodePoints),
            Self::Xxh64Suffix => Err(ShardRule::Xxh64),
            Self::RandomSuffix => Err(ShardRule::Random),
        }
    }

    pub(super) fn as_str(self) -> &'static str {
        self.rule().map_or_else(ShardRule::as_str, Placement::as_str)
    }

    /// The rule with these shards.
    pub(super) fn shards(self, args: MethodArgs) -> Result<Shards, KeyError> {
        let rule = match self.rule() {
            Ok(placement) => {
                let count = placement.round(args.shards);
                let separator = args.separator.unwrap_or_default();
                return Ok(Shards::Placed { placement, count, separator });
            }
            Err(rule) => rule,
        };
        let count = match rule {
            ShardRule::Xxh64 => Placement::Xxh64.round(args.shards),
            ShardRule::Md5 | ShardRule::CodePoints | ShardRule::Random => args.shards,
        };
        let affix = if args.prefix { Affix::Prefix } else { Affix::Suffix };
        let sharding = WriteSharding::new(rule, count)?.with_affix(affix);
        let sharding = sharding.with_separator(args.separator.unwrap_or(rule.separator()));
        Ok(Shards::Ruled { sharding, count })
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // With the width that a table asks for.
        f.pad(self.as_str())
    }
}

impl Shards {
    pub(super) const fn count(&self) -> ShardCount {
        match self {
            Self::Placed { count, .. } | Self::Ruled { count, .. } => *count,
        }
    }

    /// The shard of an item, if it can be calculated.
    pub(super) fn home(&self, key: &ItemKey) -> Option<ShardId> {
        match self {
            Self::Placed { placement, count, .. } => placement.home(key, *count),
            Self::Ruled { sharding, .. } => {
                sharding.home(key.partition.as_str(), &key.sort.to_string())
            }
        }
    }

    pub(super) fn at(&self, key: &ItemKey, shard: ShardId) -> String {
        match self {
            Self::Placed { placement, separator, .. } => {
                key.partition.at(shard, *placement, *separator).as_str().to_owned()
            }
            Self::Ruled { sharding, .. } => sharding.at(key.partition.as_str(), shard),
        }
    }

    pub(super) fn first(&self) -> ShardId {
        match self {
            Self::Placed { placement, .. } => placement.first(),
            Self::Ruled { sharding, .. } => sharding.rule().first(),
        }
    }
}

fn shard_count(text: &str) -> Result<ShardCount, String> {
    let count = text.parse::<u32>().map_err(|e| e.to_string())?;
    ShardCount::new(count).map_err(|e| e.to_string())
}
