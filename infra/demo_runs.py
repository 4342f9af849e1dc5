#!/usr/bin/env python3
"""Runs the demo a number of times, and holds what it measured against the goals of docs/SCALING.md.

Prints a row for each run: of each key the shards that it got, when that was decided after its first throttle, and when it was
in force; what was absorbed of all that was offered, beside the simulation; what was refused for each item that was written; and
how long the run took. Exits with 1 if a run fails or a goal is missed.
"""

import argparse
import json
import math
import multiprocessing
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

# The part of what its shards take that a collection is to be asked for.
TARGET = 0.7


def needed(offered: float, partition: int) -> int:
    """The shards that a key needs: a power of two, as the demo's placement wants."""
    return 2 ** math.ceil(math.log2(math.ceil(offered / (TARGET * partition))))


def occupy() -> None:
    """Takes one core until it is ended."""
    while True:
        pass


class Run:
    """What one run of the demo measured."""

    def __init__(self, summary: dict, secs: float, load: int) -> None:
        self.secs = secs
        self.partition = summary["partition_wcu"]
        self.carried = summary["carried_per_sec"]
        self.share = summary["absorbed_share"]
        self.refused = sum(summary["throttled"].values()) / summary["items"]
        self.keys = {}
        # The second key is offered half of what the first is, and so on.
        offered = self.partition * load
        for name, reshards in summary["reshards"].items():
            last = reshards[-1] if reshards else {"to": 1, "relief_secs": None}
            relief = last["relief_secs"]
            decided = reshards[0]["decided_after_throttle_secs"] or 0.0 if reshards else math.inf
            self.keys[name] = {
                "needed": needed(offered, self.partition),
                "shards": last["to"],
                "decided": decided,
                "in_force": decided + relief if relief is not None else math.inf,
            }
            offered /= 2

    def row(self, number: int) -> str:
        keys = self.keys.values()
        cells = [
            str(number),
            str(self.partition),
            " / ".join(f"{key['shards']} of {key['needed']}" for key in keys),
            " / ".join(f"{key['decided']:.1f}" for key in keys),
            " / ".join(f"{key['in_force']:.1f}" for key in keys),
            f"{100 * self.share['measured']:.1f} % ({100 * self.share['simulated']:.1f} %)" if self.share else "not settled",
            f"{self.refused:.2f}",
            f"{self.secs:.0f}",
        ]
        return "| " + " | ".join(cells) + " |"


HEAD = """\
| run | WCU | shards, of those needed | decided after, s | in force after, s | absorbed (simulated) | refused per item | took, s |
|---|---|---|---|---|---|---|---|"""


def goals(runs: list[Run]) -> list[tuple[str, str, bool]]:
    """Each goal, what was measured, and whether it holds."""
    keys = [key for run in runs for key in run.keys.values()]
    decided = [key["decided"] for key in keys]
    enough = sum(key["shards"] >= key["needed"] for key in keys)
    most = max(key["shards"] / key["needed"] for key in keys)
    shares = [run.share for run in runs]
    settled = all(shares)
    least = min((share["measured"] for share in shares if share), default=0.0)
    apart = max((abs(share["measured"] - share["simulated"]) for share in shares if share), default=1.0)
    refused = max(run.refused for run in runs)
    took = max(run.secs for run in runs)
    median = statistics.median(decided)
    return [
        ("decided after the first throttle, median: 2.5 s", f"{median:.2f} s", median <= 2.5),
        ("the same at worst: 4 s", f"{max(decided):.2f} s", max(decided) <= 4.0),
        ("enough shards: 19 of 20 keys", f"{enough} of {len(keys)}", enough * 20 >= len(keys) * 19),
        ("shards for each needed: 2 at most", f"{most:.1f}", most <= 2.0),
        ("absorbed of all that is offered: 90 %", f"{100 * least:.1f} %", settled and least >= 0.9),
        ("from the simulation: 3 points at most", f"{100 * apart:.1f}", settled and apart <= 0.03),
        ("refused for each item written: 0.5 at most", f"{refused:.2f}", refused <= 0.5),
        ("took: 75 s at most", f"{took:.0f} s", took <= 75.0),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5, help="how many (default: 5)")
    parser.add_argument("--beside", action="store_true", help="beside a process that takes one core")
    parser.add_argument("--command", default="target/release/dynashard", help="the command (default: %(default)s)")
    parser.add_argument("--load", type=int, default=8, help="the load of the busiest key (default: 8)")
    parser.add_argument("--logs", type=Path, metavar="DIR", help="keep what each run and its functions log there")
    parser.add_argument("rest", nargs="*", help="further arguments of the demo, behind --")
    args = parser.parse_args()
    if args.runs < 1:
        parser.error("--runs takes a number above 0")
    if not Path(args.command).is_file():
        parser.error(f"{args.command} is not there: cargo build --release makes it")
    if args.logs:
        args.logs.mkdir(parents=True, exist_ok=True)
        args.rest.append("--logs")
    other = multiprocessing.Process(target=occupy, daemon=True) if args.beside else None
    if other:
        other.start()
    print(HEAD, flush=True)
    runs = []
    for number in range(1, args.runs + 1):
        with tempfile.TemporaryDirectory() as charts:
            command = [args.command, "demo", "--json", "--load", str(args.load), "--chart-dir", charts, *args.rest]
            began = time.monotonic()
            ended = subprocess.run(command, capture_output=True, text=True, check=False)
            secs = time.monotonic() - began
        if args.logs:
            (args.logs / f"{number}.log").write_text(ended.stderr)
        if ended.returncode != 0:
            print(ended.stderr, file=sys.stderr)
            print(f"run {number} failed with status {ended.returncode}", file=sys.stderr)
            return 1
        runs.append(Run(json.loads(ended.stdout), secs, args.load))
        print(runs[-1].row(number), flush=True)
    print("\n| goal | measured | |\n|---|---|---|")
    held = goals(runs)
    for goal, measured, holds in held:
        print(f"| {goal} | {measured} | {'holds' if holds else 'MISSED'} |")
    return 0 if all(holds for _, _, holds in held) else 1


if __name__ == "__main__":
    sys.exit(main())
