#!/usr/bin/env python3
"""Run every event of events/ through `sam local`, and requests through its servers, against a local DynamoDB.

    python infra/sam_local [--skip-build] [--write-table]

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
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from queue import SimpleQueue

sys.path.append(str(Path(__file__).resolve().parents[1]))

import boto3
import containers
import layer
import tables
from botocore.config import Config
from containers import CannotRun, quietly
from events import FUNCTIONS, ROOT, Event, all_events
from sam import BUILT, CREDENTIALS, REGION, Sam, curl, settings
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
    _, took = timed(Sam().validate)
    rows = [("`sam validate --lint`", "valid", f"{took:.1f} s")]
    if not skip_build:
        _, took = timed(Sam().build)
        sizes = [path.stat().st_size / 1e6 for path in BUILT.glob("*/bootstrap")]
        rows.append(("`sam build`", f"{len(sizes)} bootstraps of {min(sizes):.1f} to {max(sizes):.1f} MB", f"{took:.0f} s"))
    image = containers.Image()
    print(f"The image {containers.IMAGE} is {image.origin}.", flush=True)
    # One for each event that runs beside others, which may change its tables.
    stacks = [Stack(ROOT / "target/debug/dynashard", ROOT / "target/debug") for _ in range(min(os.cpu_count() or 1, 4))]
    network = containers.Network([port for stack in stacks for port in stack.ports()])
    try:
        places = [Place(stack, sam_of(stack, network, f"sam-local-{number}.yaml")) for number, stack in enumerate(stacks)]
        stack, sam = places[0].stack, places[0].sam
        events = all_events()
        rows += [invoke_all(places, events), start_api(sam, stack), start_lambda(sam, stack, first_of_each_kind(events))]
        stack.put_back("flights")
        _, took = timed(lambda: layer.read_beside_the_layer(stack, network))
        rows.append(("`sam local invoke`, with the layer", "a function reads an item of eight shards by the endpoint beside it", f"{took:.1f} s"))
    finally:
        network.remove()
        for stack in stacks:
            stack.stop()
        image.remove()
    return rows


def sam_of(stack: Stack, network: containers.Network, template: str) -> Sam:
    """The commands whose functions find this stack, by a template of this name."""
    stack.learn_flights()
    dynamodb, cloudwatch = map(network.url_of, stack.ports())
    sam = Sam(network)
    sam.overrides["DynamoDbEndpoint"] = dynamodb
    sam.declare("AWS_ENDPOINT_URL_CLOUDWATCH", cloudwatch, template)
    return sam


@dataclass
class Place:
    """Where one event runs at a time: tables, and what invokes the functions on them."""

    stack: Stack
    sam: Sam
    # The state that the tables are known to have.
    state: str | None = None

    def invoke(self, event: Event) -> tuple[object, float]:
        """The answer to an event on tables as it needs them, and how many seconds it took."""
        tables, changes, _ = place_of(event, self.stack)
        if self.state != tables:
            self.stack.put_back(tables)
        self.state = None if changes else tables
        return timed(lambda: self.sam.invoke(event))


def invoke_all(places: list[Place], events: list[Event]) -> Row:
    """`sam local invoke` for each event, in a container of its own."""
    free = SimpleQueue()
    for place in places:
        free.put(place)

    def invoke(event: Event) -> tuple[object, float]:
        place = free.get()
        try:
            return place.invoke(event)
        finally:
            free.put(place)

    faults, times = [], []
    # Those that leave the same tables as they are come after each other.
    ordered = [event for _, group in by_place(events, places[0].stack) for event in group]
    with ThreadPoolExecutor(max_workers=len(places)) as pool:
        for event, (answer, took) in zip(ordered, pool.map(invoke, ordered), strict=True):
            times.append(took)
            faults += look_at(event, answer, took)
    raise_for(faults, "sam local invoke")
    result = f"{len(events)} events of {len(FUNCTIONS)} functions answered as their tests expect"
    return ("`sam local invoke FUNCTION --event FILE`", result, f"{sum(times):.0f} s, {statistics.median(times):.1f} s each")


def first_of_each_kind(events: list[Event]) -> list[Event]:
    """An event of each kind for each function, with the parameters that the template has."""
    alike = [event for event in events if not event.parameters]
    first = {(event.function, event.kind): event for event in reversed(alike)}
    return [event for event in alike if first[event.function, event.kind] is event]


def look_at(event: Event, answer: object, took: float) -> list[str]:
    """Print how an event was answered, and return what is wrong with that."""
    difference = event.difference(answer)
    print(f"  {took:4.1f} s  {event.function} {event.name}: {difference or 'as expected'}", flush=True)
    return [f"{event.name}: {difference}"] if difference else []


def raise_for(faults: list[str], what: str) -> None:
    if faults:
        raise SystemExit(f"{what} differs from what the tests of the functions expect:\n  " + "\n  ".join(faults))


def place_of(event: Event, stack: Stack) -> tuple[str, bool, str]:
    """The tables that an event runs on, and whether it may change them: then it runs on them alone."""
    tables = event.tables if event.tables in stack.states else "flights"
    refused = event.is_request and event.expected["statusCode"] >= 400
    changes = event.function != "ReadFunction" and not refused
    return tables, changes, event.name if changes else ""


def by_place(events: list[Event], stack: Stack) -> Iterator:
    """The events in groups, each with its place."""

    def place(event: Event) -> tuple[str, bool, str]:
        return place_of(event, stack)

    return groupby(sorted(events, key=place), key=place)


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
    return ("`sam local start-api`", result, f"ready after {server.ready_after:.1f} s, {statistics.median(times):.2f} s a request")


def start_lambda(sam: Sam, stack: Stack, events: list[Event]) -> Row:
    """An SDK invokes the functions with these events, and the aws command each function with one of them."""
    faults, times, ready = [], [], []
    by_command = {event.function: event for event in events}.values()
    for tables, some in groupby(by_place(events, stack), key=lambda group: group[0][0]):
        # A warm environment knows the collections for some seconds. So other tables get other environments.
        server = sam.serve("start-lambda", free_port())
        ready.append(server.ready_after)
        try:
            client = boto3.client(
                "lambda", endpoint_url=server.url, region_name=REGION, aws_access_key_id="local", aws_secret_access_key="local",
                config=Config(read_timeout=120, retries={"total_max_attempts": 1}),
            )
            for _, group in some:
                stack.put_back(tables)
                for event in group:
                    sent = {"FunctionName": event.function, "Payload": event.path.read_bytes()}
                    invocation, took = timed(lambda client=client, sent=sent: client.invoke(**sent))
                    times.append(took)
                    faults += look_at(event, json.loads(invocation["Payload"].read() or "null"), took)
                    if event in by_command:
                        stack.put_back(tables)
                        answer, took = timed(lambda server=server, event=event: aws_invoke(server.url, event))
                        faults += look_at(event, answer, took)
        finally:
            server.stop()
    raise_for(faults, "sam local start-lambda")
    result = f"{len(times)} events answered as their tests expect, and {len(by_command)} of them by the aws command, too"
    return ("`sam local start-lambda`", result, f"ready after {max(ready):.1f} s, {statistics.median(times):.2f} s each")


def aws_invoke(url: str, event: Event) -> object:
    """The answer of a function to the aws command."""
    with tempfile.NamedTemporaryFile() as out:
        command = ["aws", "--endpoint-url", url, "lambda", "invoke", "--function-name", event.function]
        done = quietly(*command, "--payload", f"fileb://{event.path}", out.name, env=settings() | CREDENTIALS)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(command)}: {done.stderr}")
        return json.loads(Path(out.name).read_text() or "null")


def timed(work: Callable[[], object]) -> tuple:
    began = time.monotonic()
    return work(), time.monotonic() - began


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


if __name__ == "__main__":
    sys.exit(main())
