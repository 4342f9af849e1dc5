#!/usr/bin/env python3
"""Compares sessions of DynamoDB's client libraries, with the endpoint of `dynashard serve` and without it: each call must have the
same answer, to the letter.

    target/sdks/bin/python infra/sdk-sessions/run.py --command target/debug/dynashard [--only boto3_client hot_key ...]
    target/sdks/bin/python infra/sdk-sessions/run.py --plain URL --endpoint URL [--upstream URL]

With --command it starts two stacks: `dynashard local --engine-only` is the plain DynamoDB, and the endpoint is that of a `dynashard
local`. Otherwise both run already, and --upstream is the plain address of the engine behind the endpoint, if that is another. All
items of MainTable there, and all other tables, are deleted.

With --command it then runs the programs of "A hot key" in docs/ENDPOINT.md (`hot_key`), on a stack that is started as the page says,
and the commands of the pages that answer a question (`questions`).

Needs the packages of requirements.txt, and those of package-lock.json (`npm ci --prefix infra/sdk-sessions`) with Node 20 or later.
What the sessions wrote down lies in target/sdk-sessions. Exits with 1 if anything differs."""

import argparse
import contextlib
import difflib
import itertools
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

from faulty import faulty
from hot_key import hot_key
from questions import questions
from stacks import ENVIRONMENT, HERE, MAIN, WORK, local, make_tables

SESSIONS = ["boto3_client.py", "boto3_resource.py", "pynamodb_models.py", "sdk_v3.mjs", "electrodb_entities.mjs"]
OF_PAGES = {"hot_key": hot_key, "questions": questions}
SESSION_SECS = 120


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--command", type=Path, help="the dynashard command, with the functions beside it")
    parser.add_argument("--plain", help="the URL of a plain engine")
    parser.add_argument("--endpoint", help="the URL of the endpoint")
    parser.add_argument("--upstream", help="the URL of the engine behind the endpoint; the default is --plain")
    parser.add_argument("--only", nargs="+", default=[], choices=[*(Path(name).stem for name in SESSIONS), *OF_PAGES], metavar="SESSION")
    args = parser.parse_args()
    if bool(args.command) == bool(args.plain and args.endpoint):
        parser.error("give --command, or --plain and --endpoint")
    if not OF_PAGES.keys().isdisjoint(args.only) and not args.command:
        parser.error(f"{' and '.join(OF_PAGES)} start their own stacks: give --command")
    WORK.mkdir(parents=True, exist_ok=True)
    # What was started is stopped, too, if this is.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    sessions = [name for name in SESSIONS if not args.only or Path(name).stem in args.only]
    wrong = compare_all(args, sessions) if sessions else 0
    if args.command:
        wrong += sum(run(args.command) for name, run in OF_PAGES.items() if not args.only or name in args.only)
    sys.exit(1 if wrong else 0)


def compare_all(args: argparse.Namespace, sessions: list[str]) -> int:
    """Run these sessions, and return how many calls differ."""
    with contextlib.ExitStack() as stack:
        plain, endpoint, upstream = args.plain, args.endpoint, args.upstream or args.plain
        if args.command:
            plain = stack.enter_context(local(args.command, "engine", "--engine-only"))["dynamodb"]
            ready = stack.enter_context(local(args.command, "local", "--set", "ScalingMode=off"))
            endpoint, upstream = ready["endpoint"], ready["dynamodb"]
        proxy = stack.enter_context(faulty(plain))
        if compare("boto3_client.py", plain, plain, proxy, show=False) == 0:
            sys.exit("the comparison does not find a fault that was made on purpose")
        print(f"{'session':20} {'calls':>6} {'differ':>7} {'secs':>6}")
        return sum(compare(name, plain, upstream, endpoint) for name in sessions)


def compare(name: str, plain: str, upstream: str, endpoint: str, show: bool = True) -> int:
    """Run a session without and with the endpoint. Return how many calls differ."""
    began = time.monotonic()
    without = transcript(name, plain, plain, WORK / f"{Path(name).stem}.plain.jsonl")
    through = transcript(name, upstream, endpoint, WORK / f"{Path(name).stem}.endpoint.jsonl")
    differ = sum(one != other for one, other in itertools.zip_longest(without, through))
    if show:
        print(f"{Path(name).stem:20} {len(without):6} {differ:7} {time.monotonic() - began:6.1f}", flush=True)
        flat = [[each for line in lines for each in flattened(json.loads(line))] for lines in (without, through)]
        for line in difflib.unified_diff(*flat, f"{name} plain", f"{name} endpoint", n=0, lineterm=""):
            print(line)
    return differ


def flattened(call: dict) -> list[str]:
    """Return a line for each value of what was written down of a call, so that a difference shows little else."""

    def lines(path: str, value: object) -> Iterator[str]:
        members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for name, member in members:
            yield from lines(f"{path}.{name}", member)
        if not members:
            yield f"{path} = {json.dumps(value, ensure_ascii=False)}"

    what = call.pop("call")
    return [f"{what}: {line}" for name, value in call.items() for line in lines(name, value)]


def transcript(name: str, engine: str, address: str, file: Path) -> list[str]:
    """Run a session at an address, from tables that are empty, and return what it wrote down."""
    make_tables(engine)
    program = [sys.executable] if name.endswith(".py") else ["node", "--no-warnings"]
    env = os.environ | ENVIRONMENT | {"AWS_ENDPOINT_URL_DYNAMODB": address, "DYNASHARD_TABLE": MAIN, "DYNASHARD_TOKEN": str(uuid.uuid4())}
    with open(file, "w", encoding="utf-8") as output:
        ran = subprocess.run([*program, HERE / name], env=env, stdout=output, stderr=subprocess.PIPE, text=True, timeout=SESSION_SECS)
    lines = file.read_text(encoding="utf-8").splitlines()
    if ran.returncode:
        # A line of its own on each side, so that two that could not go on differ. What came before tells why.
        print(f"{ran.stderr}\n{name} ended with {ran.returncode} at {address}", file=sys.stderr)
        lines.append(json.dumps({"call": "the end", "of": str(file), "status": ran.returncode}))
    return lines


if __name__ == "__main__":
    main()
