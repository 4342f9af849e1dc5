//! Where the items of one hot day go: under the rule that a table already has, under dynashard's placement, in an
//! index, and in tables by week.
//!
//! ```sh
//! cargo run -p dynashard-keys --example write_sharding
//! ```

use dynashard_keys::{
    Affix, HomeKeys, IndexForm, IndexSharding, KeyError, PartitionKey, Placement, Separator,
    ShardCount, ShardRule, Sharded, SortKey, TablePeriod, TimeTables, WriteSharding,
};
use time::macros::date;

/// An order, whose key the compiler checks.
#[derive(Sharded)]
#[sharded(partition(day), sort(order_id), shards = 16)]
struct Order {
    day: &'static str,
    order_id: String,
}

fn main() -> Result<(), KeyError> {
    let count = ShardCount::new(16)?;
    let orders = ["A1001", "A1002", "B2001"];

    println!("By the rule md5(pk + sk) % 16 + 1, for a table that has it:");
    let md5 = WriteSharding::new(ShardRule::Md5, count)?.with_separator(Separator::Dot);
    for order in orders {
        let shard = md5.home("2014-07-09", order).expect("md5 is calculated");
        println!("  {order} -> {}", md5.at("2014-07-09", shard));
    }
    println!("  all of the day: {} queries", md5.shards().len());

    println!("Under dynashard's placement xxh64, whose first shard is the day itself:");
    let day = PartitionKey::new("2014-07-09")?;
    let mut keys =
        HomeKeys::of(&day, Placement::Xxh64, count, Separator::Dot).expect("xxh64 is calculated");
    for order in orders {
        let (_, physical) = keys.home(&SortKey::string(order)?);
        println!("  {order} -> {physical}");
    }

    println!("The same from a type:");
    let order = Order { day: "2014-07-09", order_id: "A1001".to_owned() };
    let physical = order.physical_key(Separator::Dot)?.expect("xxh64 is calculated");
    println!("  {} -> {}", physical.sort, physical.partition.as_str());

    println!("In an index by status, whose shard comes from the item's own key:");
    let index = IndexSharding::new(md5.with_affix(Affix::Prefix), IndexForm::MultiAttribute);
    println!("  A1001 -> {:?}", index.key("OPEN", "2014-07-09", "A1001", 0));

    println!("In tables by week:");
    let weeks = TimeTables::new("orders", TablePeriod::Week)?;
    for table in weeks.between(date!(2014 - 06 - 30), date!(2014 - 07 - 14))? {
        println!("  {table}");
    }
    Ok(())
}
