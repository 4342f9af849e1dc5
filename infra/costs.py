#!/usr/bin/env python3
"""Print the tables of docs/COST.md.

    python infra/costs.py

Works every figure out from data/prices-us-east-1.json and from the units that
docs/PROTOCOL.md and docs/QUERIES.md name. Needs a Python that has aws-sam-cli.
"""

import json
import re
from decimal import ROUND_HALF_UP, Decimal
from math import ceil
from pathlib import Path

from samcli.yamlhelper import yaml_parse

ROOT = Path(__file__).resolve().parent.parent

MILLION = 1_000_000

# What nobody has measured on AWS. docs/COST.md names each of them.
MS_OF_ONE = 10
MS_OF_A_BATCH = 40
MS_OF_A_PAGE = 30
LOG_KB_OF_THE_API = 0.3
MS_OF_A_SCHEDULE = 50

BATCH_ITEMS = 25
PAGE_ITEMS = 100
PAGE_SHARDS = 16

# Of each source's partition the mover takes 800 write units a second, of which a move takes two there (docs/PROTOCOL.md).
MOVES_PER_SECOND = 400
MINUTES_OF_A_MONTH = 30 * 24 * 60


def read(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


PRICES = json.loads(read("data/prices-us-east-1.json"))
TEMPLATE = yaml_parse(read("template.yaml"))
OBSERVABILITY = yaml_parse(read("infra/observability.yaml"))


def price(name: str) -> float:
    """Return the dollars for one of something."""
    entry = PRICES["prices"][name]
    return entry["usd"] / entry["per"]


def units(operation: str, column: int) -> tuple[float, float]:
    """Return the read and write units that the first clause of a cell of docs/PROTOCOL.md, "Costs", names."""
    (row,) = re.findall(rf"^\| {re.escape(operation)} \|(.*)\|$", read("docs/PROTOCOL.md"), re.MULTILINE)
    clause = row.split("|")[column].split(";")[0]
    amount = {unit: float(number) for number, unit in re.findall(r"([\d.]+) (RCU|WCU)", clause)}
    if not amount:
        raise ValueError(f"docs/PROTOCOL.md names no units for {operation}")
    return amount.get("RCU", 0.0), amount.get("WCU", 0.0)


def read_for_each_returned() -> float:
    """Return the items that an ordered page of this size reads for each that it returns."""
    pattern = rf"([\d.]+) for L = {PAGE_ITEMS} and N = {PAGE_SHARDS}"
    (figure,) = re.findall(pattern, read("docs/QUERIES.md"))
    return float(figure)


def of_units(reads: float, writes: float) -> float:
    return reads * price("dynamodb_read_units") + writes * price("dynamodb_write_units")


def of_function(memory: str, ms: float) -> float:
    """Return what an invocation costs. One that succeeds logs nothing."""
    gb = TEMPLATE["Parameters"][memory]["Default"] / 1024
    duration = gb * ms / 1000 * price("lambda_arm64_gb_seconds")
    return price("lambda_requests") + duration


def of_gateway() -> float:
    return price("http_api_requests") + LOG_KB_OF_THE_API / MILLION * price("logs_ingested_gb")


def shortest_pause(lease: float) -> float:
    """The seconds between two reads of the directory by an environment that always has requests: `Lease::renewed_every`."""
    kept = max(lease / 4, 1 if lease >= 2 else 0)
    return min(lease / 2, (lease - kept) * 3 / 4)


def most_environments(lease: float) -> float:
    """How many environments may read the one item of the directory: its partition gives 3,000 read units a second."""
    return 3_000 * shortest_pause(lease)


def dollars(amount: float, digits: int = 2) -> str:
    # Halves are rounded up, as on paper.
    return f"${Decimal(repr(round(amount, 9))).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP):,}"


def row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def table(*rows: str) -> list[str]:
    header, *rest = rows
    return [header, "|---" * (header.count("|") - 1) + "|", *rest]


def list_of_prices() -> list[str]:
    lines = [row(f"{entry['per']:,} {entry['unit']}", f"${Decimal(repr(entry['usd'])):f}") for entry in PRICES["prices"].values()]
    return table(row("What", "Price"), *lines)


def of_operations() -> list[str]:
    """Return what a million operations cost."""
    one = of_function("MemorySize", MS_OF_ONE)
    batch = of_function("MemorySize", MS_OF_A_BATCH)
    page = of_function("MemorySize", MS_OF_A_PAGE)
    # Pages of items of 1 KB, read with eventual consistency: half a unit for 4 KB, in whole requests.
    plain_page = of_units(ceil(PAGE_ITEMS / 4) / 2, 0)
    of_shard = ceil(PAGE_ITEMS * read_for_each_returned() / PAGE_SHARDS / 4) / 2
    sharded_page = of_units(PAGE_SHARDS * of_shard, 0)

    def line(what: str, plain: float, dynamodb: float, function: float, gateway: float) -> str:
        amounts = [plain, dynamodb, dynamodb + function, dynamodb + function + gateway]
        return row(what, *(dollars(amount * MILLION, 3) for amount in amounts))

    put, strong, other = (of_units(*units(operation, 0)) for operation in ("put", "strong get", "other get"))
    return table(
        row("A million", "DynamoDB alone", "dynashard's units", "by Invoke", "by the API"),
        line("puts", put, put, one, of_gateway()),
        line(f"puts, in batches of {BATCH_ITEMS}", put, put, batch / BATCH_ITEMS, of_gateway() / BATCH_ITEMS),
        line("strongly consistent gets", strong, strong, one, of_gateway()),
        line("other gets", other, other, one, of_gateway()),
        line(f"ordered pages of {PAGE_ITEMS} items, one shard", plain_page, plain_page, page, of_gateway()),
        line(f"ordered pages of {PAGE_ITEMS} items, {PAGE_SHARDS} shards", plain_page, sharded_page, page, of_gateway()),
    )


def of_reshards() -> list[str]:
    """Return what reshards cost."""
    (_, move), (_, marker) = units("mover, each item", 2), units("afterwards, each marker", 0)

    def line(items: int, before: int, after: int) -> str:
        moved = items * (1 - before / after)
        writes = moved * (move + marker)
        # Each source is read twice, strongly: a unit for four items of 1 KB.
        reads = 2 * items / 4
        seconds = moved / MOVES_PER_SECOND
        function = seconds * TEMPLATE["Parameters"]["RebalanceMemorySize"]["Default"] / 1024 * price("lambda_arm64_gb_seconds")
        return row(
            f"{items:,}", f"{before} to {after}", f"{moved:,.0f}", f"{writes:,.0f}", f"{reads:,.0f}",
            dollars(of_units(reads, writes)), dollars(function), dollars(of_units(reads, writes) + function),
        )  # fmt: skip

    return table(
        row("Items of 1 KB", "Shards", "Moved", "Write units", "Read units", "Units", "Functions", "Together"),
        line(100_000, 1, 2),
        line(MILLION, 1, 4),
        line(10 * MILLION, 4, 16),
    )


def alarms_of(template: dict) -> tuple[int, int]:
    """Return how many alarms a template has in any case, and how many metrics they are paid for: each one of an expression."""
    of_alarms = [
        sum("MetricStat" in query for query in resource["Properties"].get("Metrics", [])) or 1
        for resource in template["Resources"].values()
        if resource["Type"] == "AWS::CloudWatch::Alarm" and "Condition" not in resource
    ]
    return len(of_alarms), sum(of_alarms)


def of_a_month() -> list[str]:
    """Return what is paid by the month."""

    def count(template: dict, kind: str) -> int:
        return sum(resource["Type"] == kind and "Condition" not in resource for resource in template["Resources"].values())

    schedules = 2 * MINUTES_OF_A_MONTH * price("lambda_requests") + sum(
        MINUTES_OF_A_MONTH * (of_function(memory, MS_OF_A_SCHEDULE) - price("lambda_requests"))
        for memory in ("MemorySize", "RebalanceMemorySize")
    )
    own_alarms, own_metrics = alarms_of(TEMPLATE)
    alarms, metrics = alarms_of(OBSERVABILITY)
    application = {
        "the schedules of ScaleFunction and RebalanceFunction": schedules,
        f"{own_alarms} alarms on throttles": own_metrics * price("alarm_months"),
        "2 rules of Contributor Insights": 2 * price("insights_rule_months"),
        "each metric of a function that has data in every hour": price("custom_metric_months"),
    }
    (reports,) = re.findall(r"costs\s+some\s+(\d+)\s+write units a minute", read("docs/SCALING.md"))
    default = TEMPLATE["Parameters"]["LeaseSecs"]["Default"]
    of_environment = {
        lease: MINUTES_OF_A_MONTH * of_units(60 / shortest_pause(lease), 0) for lease in (default, 5, 10)
    }
    directory = {
        f"{environments:,} read the directory, with `LeaseSecs` {lease}": environments * cost
        for environments in (10, 1_000, 10_000)
        for lease, cost in of_environment.items()
        if environments <= most_environments(lease)
    }
    collection = {
        "the reports of ten environments to its ledgers": MINUTES_OF_A_MONTH * of_units(0, float(reports)),
    }
    observability = {
        f"{alarms} alarms on {metrics} metrics": metrics * price("alarm_months"),
        "the alarm that stands for all": price("composite_alarm_months"),
        "the dashboard": price("dashboard_months"),
        "the key of the topic": price("kms_key_months"),
    }
    parts = {
        "`template.yaml`, without requests": application,
        "`infra/observability.yaml`": observability,
        "a collection with several shards, in use all the time": collection,
        "environments that always have requests": directory,
    }
    lines = [row(part, what, dollars(amount)) for part, amounts in parts.items() for what, amount in amounts.items()]
    return table(row("Of what", "What", "A month"), *lines)


def of_a_load() -> list[str]:
    """Return what a thousand puts a second cost in a month, which is all that one partition takes."""
    puts = 1_000 * 60 * MINUTES_OF_A_MONTH
    put = of_units(*units("put", 0))
    one, batch = of_function("MemorySize", MS_OF_ONE), of_function("MemorySize", MS_OF_A_BATCH)
    lines = [
        ("DynamoDB alone, if its keys were even", put),
        ("by Invoke", put + one),
        (f"by Invoke, in batches of {BATCH_ITEMS}", put + batch / BATCH_ITEMS),
        ("by the API", put + one + of_gateway()),
        (f"by the API, in batches of {BATCH_ITEMS}", put + (batch + of_gateway()) / BATCH_ITEMS),
    ]
    return table(row("1,000 puts a second", "A month"), *(row(what, dollars(amount * puts)) for what, amount in lines))


TABLES = [of_operations, of_a_load, of_reshards, of_a_month, list_of_prices]


if __name__ == "__main__":
    print("\n\n".join("\n".join(table()) for table in TABLES))
