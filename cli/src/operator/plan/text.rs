//! The plan for people.

use dynashard_planning::Plan;
use dynashard_planning::advice::Verdict;
use dynashard_planning::capacity::Throughput;
use dynashard_planning::figure::{count, dollars, number};
use dynashard_planning::series::{Keeping, TimeSeries};
use dynashard_planning::stage::Stage;
use dynashard_planning::table::{DEFAULT_QUOTA, NEW_TABLE};

use crate::operator::output::Output;

pub(super) fn print(plan: &Plan, output: &mut Output) {
    let advice = &plan.advice;
    output.text(format!("Advice: {}", advice.verdict.says()));
    for reason in &advice.reasons {
        output.text(format!("  {reason}"));
    }
    for setting in &advice.settings {
        output.text(format!("  Set {}={}.", setting.parameter, setting.value));
    }
    if advice.verdict == Verdict::Shard {
        output.text(format!(
            "  Before the load comes: dynashard scale --stack-name NAME --pk KEY --shards {} --create",
            advice.shards
        ));
    }
    let (now, later) = (&plan.now, &plan.later);
    let of_later = format!("month {}", later.month);
    output.text(format!("\n{:38} {:>22} {of_later:>22}", "", "now"));
    let mut row = |what: &str, of: &dyn Fn(&Stage) -> String| {
        output.text(format!("{what:38} {:>22} {:>22}", of(now), of(later)));
    };
    row("write / read units a second, average", &|stage| both(stage.average));
    row("  at the peak", &|stage| both(stage.peak));
    row("  of the hottest key, at the peak", &|stage| both(stage.hottest_key));
    row("items", &|stage| number(stage.items));
    row("GB", &|stage| number(stage.bytes / 1e9));
    row("partitions, provisioned for the peak", &|stage| count(stage.partitions.count()));
    row("  write / read units of each", &|stage| both(stage.of_a_partition));
    let is_split = |stage: &Stage| stage.of_the_smallest_partition != stage.of_a_partition;
    if is_split(now) || is_split(later) {
        let unsplit = || "-".to_owned();
        row("  of those split once more", &|stage| {
            if is_split(stage) { both(stage.of_the_smallest_partition) } else { unsplit() }
        });
    }
    row("shards by the simple formula", &|stage| count(stage.shards_by_simple_formula));
    row("  with 30% head room", &|stage| count(stage.shards_with_head_room));
    row(&format!("  as {} rounds them", plan.advice.placement), &|stage| {
        count(u64::from(stage.shards))
    });
    row("a month on demand", &|stage| dollars(stage.cost.on_demand_usd));
    row("  or provisioned for the peak", &|stage| dollars(stage.cost.provisioned_usd));
    row("  and storage", &|stage| dollars(stage.cost.storage_usd));
    output.text("");
    notes(plan, output);
    output.text(format!("Prices of {}, {}.", plan.prices.region, plan.prices.date));
}

fn notes(plan: &Plan, output: &mut Output) {
    if let Some(load) = plan.bulk_load {
        output.text(format!(
            "Bulk load: {} write units a second in {} partitions, or {} in {}, to two digits. Partitions stay when the capacity \
             is lowered: each then has {} write units a second, or {}, for its own.",
            count(load.write_units_per_second),
            count(load.partitions),
            count(load.rounded_write_units_per_second),
            count(load.rounded_partitions),
            number(load.then_of_a_partition),
            number(load.then_of_a_rounded_partition),
        ));
    }
    table(plan, output);
    replicas(plan, output);
    if let Some(seconds) = plan.burst_seconds {
        output.text(format!(
            "Burst: without shards, a partition that was idle carries the peak of the hottest key for {} seconds, if DynamoDB \
             leaves it its burst capacity.",
            number(seconds)
        ));
    }
    if plan.later.shards > 1 || plan.workload.hot_keys > 1 {
        output.text(format!(
            "Collisions: of all hot shards, {} share one of the {} partitions with another on average, until DynamoDB \
             separates them.",
            number(plan.collisions.expected),
            count(plan.later.partitions.count())
        ));
    }
    if plan.workload.queries_per_second > 0.0 {
        output.text(format!(
            "Queries: an ordered page of {} items takes {} read units, and {} of one shard.",
            plan.workload.items_per_query,
            number(plan.query.read_units),
            number(plan.query.read_units_of_one_shard)
        ));
    }
    time_series(plan, output);
    if let Some(reshard) = plan.reshard.filter(|reshard| reshard.items >= 1.0) {
        output.text(format!(
            "A reshard from {} to {} shards in month {} moves {} items, takes {} write units and {} hours, and costs {}.",
            plan.now.shards,
            plan.later.shards,
            plan.later.month,
            number(reshard.items),
            number(reshard.write_units),
            number(reshard.seconds / 3_600.0),
            dollars(reshard.usd)
        ));
    }
    if let Some(behind) = plan.reshard_behind {
        output.text(format!(
            "Its sort keys grow, so that reshard leaves the past where it is: it moves {} items, takes {} write units and costs {}.",
            number(behind.items),
            number(behind.write_units),
            dollars(behind.usd)
        ));
    }
}

/// One table with time to live beside tables by period.
fn time_series(plan: &Plan, output: &mut Output) {
    let Some(series) = &plan.time_series else { return };
    let TimeSeries { period, tables, one_table: one, by_period, pays_below_read_units } = series;
    let kept = |kept: &Keeping| {
        format!("{} for {} GB", dollars(kept.storage_usd), number(kept.billed_bytes / 1e9))
    };
    output.text(format!(
        "Time series: in month {} the storage of one table with time to live costs {}, and that of {tables} tables by {period}, of \
         which the old ones are of the infrequent-access class, {}. Provisioned for the peak the one takes {} in {} partitions; \
         the present table takes {} in {}, with the next one made a day ahead.",
        plan.later.month,
        kept(one),
        kept(by_period),
        dollars(one.provisioned_usd),
        count(one.partitions),
        dollars(by_period.provisioned_usd),
        count(by_period.partitions),
    ));
    output.text(if *pays_below_read_units > 0.0 {
        format!(
            "  Tables by {period} pay on demand while at most {} read units a second go to the old ones.",
            number(*pays_below_read_units)
        )
    } else {
        format!("  Tables by {period} do not pay: items are kept too short for that.")
    });
}

/// What read replicas add to the last month.
fn replicas(plan: &Plan, output: &mut Output) {
    let replicas = plan.workload.read_replicas;
    if replicas > 0 {
        output.text(format!(
            "Read replicas: {replicas} take {} of month {} on demand, with what they store.",
            dollars(plan.later.cost.replicas_usd),
            plan.later.month
        ));
    }
}

/// What the table as a whole has to take on demand.
fn table(plan: &Plan, output: &mut Output) {
    let needs = &plan.table;
    let warm = if needs.is_more_than_a_new_table_takes() {
        format!(" from the beginning. A new table takes {}, whatever its shards", both(NEW_TABLE))
    } else {
        ", which a new table takes".to_owned()
    };
    let quota = if needs.is_above_the_default_quota() {
        format!(". By default AWS allows {}", both(DEFAULT_QUOTA))
    } else {
        ", which AWS allows by default".to_owned()
    };
    for (name, units, says) in
        [("Warm throughput", needs.warm, warm), ("Table quota", needs.quota, quota)]
    {
        output.text(format!("{name}: {} write / read units a second{says}.", both(units)));
    }
}

fn both(units: Throughput) -> String {
    format!("{} / {}", number(units.write_units), number(units.read_units))
}
