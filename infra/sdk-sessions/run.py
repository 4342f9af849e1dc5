#!/usr/bin/env python3
"""Compares sessions of DynamoDB's client libraries, with the endpoint of `dynashard serve` and without it: each call must have the
same answer, to the letter.

    target/sdks/bin/python infra/sdk-sessions/run.py --command target/debug/dynashard [--only boto3_client ...]
    target/sdks/bin/python infra/sdk-sessions/run.py --plain URL --endpoint URL [--upstream URL]

With --command it starts two stacks: `dynashard local --engine-only` is the plain DynamoDB, and the endpoint is that of a `dynashard
local`. Otherwise both run already, and --upstream is the plain address of the engine behind the endpoint, if that is another. All
items of MainTable there, and all other tables, are deleted.

Needs the packages of requirements.txt, and those of package-lock.json (`npm ci --prefix infra/sdk-sessions`) with Node 20 or later.
What the sessions wrote down lies in target/sdk-sessions. Exits with 1 if anything differs."""

import argparse
import contextlib
import difflib
import itertools
import json
import os
import select
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import boto3
from faulty import faulty

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
WORK = ROOT / "target/sdk-sessions"
SESSIONS = ["boto3_client.py", "boto3_resource.py", "pynamodb_models.py", "sdk_v3.mjs", "electrodb_entities.mjs"]
MAIN, METADATA = "MainTable", "MetadataTable"
KEYS = {MAIN: ["pk", "sk"], METADATA: ["pk"]}
# The SDKs take any credentials, and what else they need they read here, as in an application beside the endpoint.
ENVIRONMENT = {"AWS_ACCESS_KEY_ID": "local", "AWS_SECRET_ACCESS_KEY": "local", "AWS_REGION": "us-east-1", "AWS_DEFAULT_REGION": "us-east-1"}
# PynamoDB asks for a batch in the order of a set.
ENVIRONMENT |= {"PYTHONHASHSEED": "0"}
READY_SECS = 60
SESSION_SECS = 120
END_SECS = 30


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--command", type=Path, help="the dynashard command, with the functions beside it")
    parser.add_argument("--plain", help="the URL of a plain engine")
    parser.add_argument("--endpoint", help="the URL of the endpoint")
    parser.add_argument("--upstream", help="the URL of the engine behind the endpoint; the default is --plain")
    parser.add_argument("--only", nargs="+", default=[], choices=[Path(name).stem for name in SESSIONS], metavar="SESSION")
    args = parser.parse_args()
    if bool(args.command) == bool(args.plain and args.endpoint):
        parser.error("give --command, or --plain and --endpoint")
    WORK.mkdir(parents=True, exist_ok=True)
    # What was started is stopped, too, if this is.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    sessions = [name for name in SESSIONS if not args.only or Path(name).stem in args.only]
    with contextlib.ExitStack() as stack:
        plain, endpoint, upstream = args.plain, args.endpoint, args.upstream or args.plain
        if args.command:
            plain = stack.enter_context(local(args.command, "--engine-only"))["dynamodb"]
            ready = stack.enter_context(local(args.command, "--functions-dir", args.command.resolve().parent, "--set", "ScalingMode=off"))
            endpoint, upstream = ready["endpoint"], ready["dynamodb"]
        proxy = stack.enter_context(faulty(plain))
        if compare("boto3_client.py", plain, plain, proxy, show=False) == 0:
            sys.exit("the comparison does not find a fault that was made on purpose")
        different = 0
        print(f"{'session':20} {'calls':>6} {'differ':>7} {'secs':>6}")
        for name in sessions:
            different += compare(name, plain, upstream, endpoint)
    sys.exit(1 if different else 0)


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


def make_tables(engine: str) -> None:
    """Leave an engine with the two tables of a stack, and nothing in the main one that a client has put there."""
    options = {"aws_access_key_id": "local", "aws_secret_access_key": "local", "region_name": "us-east-1"}
    dynamodb = boto3.client("dynamodb", endpoint_url=engine, **options)
    there = dynamodb.list_tables()["TableNames"]
    for table in there:
        if table not in KEYS:
            dynamodb.delete_table(TableName=table)
    for table, names in KEYS.items():
        if table not in there:
            keys = [{"AttributeName": name, "KeyType": kind} for name, kind in zip(names, ["HASH", "RANGE"], strict=False)]
            types = [{"AttributeName": name, "AttributeType": "S"} for name in names]
            dynamodb.create_table(TableName=table, KeySchema=keys, AttributeDefinitions=types, BillingMode="PAY_PER_REQUEST")
    for page in dynamodb.get_paginator("scan").paginate(TableName=MAIN, ProjectionExpression="pk, sk", ConsistentRead=True):
        for key in page["Items"]:
            # With these the stack knows its tables.
            if not key["pk"]["S"].startswith("_ds_"):
                dynamodb.delete_item(TableName=MAIN, Key=key)


@contextlib.contextmanager
def local(command: Path, *arguments: object) -> Iterator[dict]:
    """Start `dynashard local` on free ports, and yield its ready line. Its log goes to a file. It is ended with SIGTERM."""
    engine_only = "--engine-only" in arguments
    ports = ["dynamodb"] if engine_only else ["", "dynamodb", "lambda", "cloudwatch", "console", "endpoint"]
    ports = [word for port in ports for word in (f"--{port}-port".replace("---", "--"), "0")]
    log = WORK / ("engine.log" if engine_only else "local.log")
    words = [str(word) for word in (command.resolve(), "local", *ports, *arguments)]
    with open(log, "wb") as stderr:
        stack = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=stderr)
    try:
        line = stack.stdout.readline() if select.select([stack.stdout], [], [], READY_SECS)[0] else b""
        if not line:
            raise SystemExit(f"dynashard local was not ready within {READY_SECS} seconds; see {log}")
        yield json.loads(line)
    finally:
        stack.terminate()
        try:
            status = stack.wait(END_SECS)
        except subprocess.TimeoutExpired:
            stack.kill()
            raise
    if status:
        raise SystemExit(f"dynashard local ended with {status} after SIGTERM; see {log}")


if __name__ == "__main__":
    main()
