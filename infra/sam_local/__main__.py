#!/usr/bin/env python3
"""Run every event of events/ through `sam local`, and requests through its servers, against a local DynamoDB.

    python infra/sam_local [--write-table]

Needs sam, cargo-lambda, aws and curl on PATH, built functions and command in target/debug, and root or a Docker engine.
Builds the functions with `sam build`. Where Docker cannot run it says so, and exits with 0 only if DYNASHARD_DOCKER is not
"required". Exits with 1 if an answer differs from what the tests of the functions expect.
"""

import argparse
import json
import os
import signal
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))

import containers
import tables
from containers import CannotRun, quietly
from events import FUNCTIONS, ROOT, Event, all_events
from sam import BUILT, CREDENTIALS, Sam, curl, settings
from stack import Stack

TABLE = ROOT / "docs" / "SAM.md"

Row = tuple[str, str, str]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write-table", action="store_true", help=f"write the table of {TABLE.relative_to(ROOT)}")
    parser.add_argument("--skip-build", action="store_true", help="take what `sam build` has built before")
    options = parser.parse_args()
    # What was started is stopped, too, if this is.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        engine = containers.Engine()
    except CannotRun as why:
        print(f"\n{'!' * 80}\n! SKIPPED: sam local was NOT tested: {why}\n{'!' * 80}\n", file=sys.stderr)
        return 1 if os.environ.get("DYNASHARD_DOCKER") == "required" else 0
    try:
        rows = run(skip_build=options.skip_build)
    except CannotRun as why:
        print(f"sam local was not tested: {why}", file=sys.stderr)
        return 1
    finally:
        engine.stop()
    rows.insert(0, ("Command", "Result", "Time"))
    print(tables.table(rows))
    if options.write_table:
        tables.write(TABLE, "infra/sam_local", rows)
    return 0


def run(*, skip_build: bool) -> list[Row]:
    rows: list[Row] = []
    if not skip_build:
        _, took = timed(Sam().build)
        sizes = [path.stat().st_size / 1e6 for path in BUILT.glob("*/bootstrap")]
        rows.append(("`sam build`", f"{len(sizes)} bootstraps of {min(sizes):.1f} to {max(sizes):.1f} MB", f"{took:.0f} s"))
    image = containers.Image()
    print(f"The image {containers.IMAGE} is {image.origin}.", flush=True)
    stack = Stack(ROOT / "target/debug/dynashard", ROOT / "target/debug")
    dynamodb, cloudwatch = stack.port(stack.dynamodb), stack.port(stack.cloudwatch)
    network = containers.Network([dynamodb, cloudwatch])
    try:
        stack.learn_flights()
        sam = Sam(network)
        sam.overrides["DynamoDbEndpoint"] = network.url_of(dynamodb)
        sam.declare("AWS_ENDPOINT_URL_CLOUDWATCH", network.url_of(cloudwatch))
        rows += [invoke_all(sam, stack), start_api(sam, stack), start_lambda(sam, stack)]
    finally:
        network.remove()
        stack.stop()
        image.remove()
    return rows


def invoke_all(sam: Sam, stack: Stack) -> Row:
    """`sam local invoke` for each event, on tables as the event needs them."""
    faults, times = [], []
    events = sorted(all_events(), key=lambda event: place_of(event, stack))
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        # What changes nothing may run beside what needs the same tables.
        for (tables, changes, _), group in groupby(events, key=lambda event: place_of(event, stack)):
            stack.put_back(tables)
            invoked = map if changes else pool.map
            for event, (answer, took) in invoked(lambda event: (event, timed(lambda: sam.invoke(event))), group):
                times.append(took)
                difference = event.difference(answer)
                print(f"  {took:4.1f} s  {event.function} {event.name}: {difference or 'as expected'}", flush=True)
                if difference:
                    faults.append(f"{event.name}: {difference}")
    if faults:
        raise SystemExit("sam local invoke differs from what the tests of the functions expect:\n  " + "\n  ".join(faults))
    result = f"{len(events)} events of {len(FUNCTIONS)} functions answered as their tests expect"
    return ("`sam local invoke FUNCTION --event FILE`", result, f"{sum(times):.0f} s, {statistics.median(times):.1f} s each")


def place_of(event: Event, stack: Stack) -> tuple[str, bool, str]:
    """The tables that an event runs on, and whether it may change them: then it runs on them alone."""
    tables = event.tables if event.tables in stack.states else "flights"
    refused = event.is_request and event.expected["statusCode"] >= 400
    changes = event.function != "ReadFunction" and not refused
    return tables, changes, event.name if changes else ""


def start_api(sam: Sam, stack: Stack) -> Row:
    """Requests by curl: a put, a conditional put that is refused, a get, a query over two shards' items, a delete."""
    stack.put_back("flights")
    server = sam.serve("start-api", free_port())
    try:
        item = f"{server.url}/item?pk=sam&sk=a%20b"
        json_body = ["--header", "content-type: application/json", "--data", '{"n": 1}']
        expected = [
            (["--request", "PUT", *json_body, item], 200, {"pk": "sam", "sk": "a b"}),
            (["--request", "PUT", "--header", "if-none-match: *", *json_body, item], 412, {"code": "precondition_failed"}),
            ([item], 200, {"pk": "sam", "sk": "a b", "n": 1}),
            ([f"{server.url}/query?pk=EWR&begins_with=2013-01-01T10"], 200, {"shards": 8, "cursor": None}),
            (["--request", "DELETE", item], 204, None),
            ([item], 404, {"code": "item_not_found"}),
            ([f"{server.url}/query?pk=EWR&limit=0"], 400, {"code": "bad_parameter"}),
        ]
        times = []
        for words, status, members in expected:
            (got, body), took = timed(lambda words=words: curl(*words))
            times.append(took)
            answer = json.loads(body) if body else None
            fits = members is None or {key: answer.get(key, KeyError) for key in members} == members
            if got != status or not fits:
                raise SystemExit(f"curl {' '.join(words)}: {got} {body}, in place of {status} {members}")
    finally:
        server.stop()
    result = f"{len(expected)} requests by curl"
    return ("`sam local start-api`", result, f"ready after {server.ready_after:.1f} s, {statistics.median(times):.1f} s a request")


def start_lambda(sam: Sam, stack: Stack) -> Row:
    """The aws command invokes each function."""
    stack.put_back("flights")
    chosen = {"write-put-replace", "read-query", "scale-create-duplicate", "rebalance-sweep"}
    server = sam.serve("start-lambda", free_port())
    try:
        times = []
        for event in (event for event in all_events() if event.name in chosen):
            with tempfile.NamedTemporaryFile() as out:
                words = ["lambda", "invoke", "--function-name", event.function, "--payload", f"fileb://{event.path}", out.name]
                done, took = timed(lambda words=words: aws(server.url, *words))
                times.append(took)
                answer = json.loads(Path(out.name).read_text() or "null")
            difference = event.difference(answer) if done.returncode == 0 else done.stderr
            if difference:
                raise SystemExit(f"aws {' '.join(words)}: {difference}")
    finally:
        server.stop()
    result = f"{len(times)} functions invoked by the aws command"
    return ("`sam local start-lambda`", result, f"ready after {server.ready_after:.1f} s, {statistics.median(times):.1f} s each")


def aws(url: str, *words: str):
    return quietly("aws", "--endpoint-url", url, *words, env=settings() | CREDENTIALS)


def timed(work: Callable[[], object]) -> tuple:
    began = time.monotonic()
    return work(), time.monotonic() - began


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


if __name__ == "__main__":
    sys.exit(main())
