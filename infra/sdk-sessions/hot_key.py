"""Runs the programs of "A hot key" in docs/ENDPOINT.md, as the page has them: through the endpoint, where their key grows, and
straight to DynamoDB, where the limit of a partition holds them up. Each has a key of its own in place of the page's, so that each
finds a cold one."""

import contextlib
import json
import os
import re
import shlex
import subprocess
import sys
import urllib.parse
import urllib.request
from pathlib import Path
from typing import NamedTuple

from stacks import ENVIRONMENT, HERE, MAIN, METADATA, ROOT, local, make_tables, stored_keys

PAGE, HEADING, KEY = "docs/ENDPOINT.md", "## A hot key", '"feed"'
# A program comes on the standard input, and finds its packages where it is run.
PROGRAMS = {"python": [sys.executable, "-"], "js": ["node", "--no-warnings", "--input-type=module", "-"]}
# Fewer than the page's, and far fewer where each hundred takes a second.
ITEMS, ITEMS_STRAIGHT = 3_000, 500
SECS = 120
WRITTEN = re.compile(r"(\d+) items under one key in \d+ s, (\d+) a second, (\d+) errors")
READ = re.compile(r"(\d+) read back, in order: (True|true|False|false)")


class Page(NamedTuple):
    """What the page shows: the flags of `dynashard local`, and a program in each language."""

    flags: list[str]
    programs: dict[str, str]

    def limits(self) -> list[str]:
        """Those of its flags that an engine by itself takes, too."""
        names = ("--partition-wcu", "--partition-rcu")
        return [word for name in names for word in (name, self.flags[self.flags.index(name) + 1])]


class Ran(NamedTuple):
    """What a program has printed, and how it has ended."""

    a_second: int
    errors: int
    read_back: int
    in_order: bool
    status: int


def hot_key(command: Path) -> int:
    """Run each program both ways, and return how many did not do what the page says."""
    page, wrong = read_page(), 0
    with contextlib.ExitStack() as stack:
        engine = stack.enter_context(local(command, "hot-key-engine", "--engine-only", *page.limits()))["dynamodb"]
        ready = stack.enter_context(local(command, "hot-key", *page.flags))
        make_tables(engine)
        print(f"{'a hot key':20} {'items':>6} {'a sec':>7} {'errors':>7} {'shards':>6}")
        for language, program in page.programs.items():
            key = f"feed-{language}"
            program = program.replace(KEY, json.dumps(key))
            # The one mostly waits, and takes nothing from the other.
            straight = begin(language, program, ITEMS_STRAIGHT, engine)
            through = begin(language, program, ITEMS, ready["endpoint"])
            ran, shards = end(through), shards_of(ready["api"], key)
            is_right = ran.status == 0 and ran.errors == 0 and ran.read_back == ITEMS and ran.in_order and shards > 1
            is_right = is_right and "endpoint" in deciders(command, ready["dynamodb"], key)
            wrong += not told(f"{language}, endpoint", ITEMS, ran, shards, is_right)
            ran, shards = end(straight), len({stored["pk"]["S"] for stored in stored_keys(engine) if stored["pk"]["S"].startswith(key)})
            # What DynamoDB has refused for good is missing, and nothing else.
            is_right = ran.read_back == ITEMS_STRAIGHT - ran.errors and shards == 1
            wrong += not told(f"{language}, straight", ITEMS_STRAIGHT, ran, shards, is_right)
    print("straight to DynamoDB a key gets what one partition takes, which the page sets to 100 a second")
    return wrong


def read_page() -> Page:
    """Read the flags and the programs that the page shows."""
    text = (ROOT / PAGE).read_text(encoding="utf-8")
    section = text.partition(f"\n{HEADING}\n")[2].partition("\n## ")[0]
    blocks = dict(re.findall(r"^```(\w+)\n(.*?)^```$", section, re.MULTILINE | re.DOTALL))
    words = shlex.split(blocks.pop("sh", "").replace("\\\n", " "))
    if words[:2] != ["dynashard", "local"] or blocks.keys() != PROGRAMS.keys() or not all(KEY in program for program in blocks.values()):
        raise SystemExit(f"{PAGE} shows no command, or not these programs with the key {KEY}, under {HEADING!r}: {', '.join(PROGRAMS)}")
    return Page(words[2:], blocks)


def begin(language: str, program: str, items: int, address: str) -> subprocess.Popen:
    """Start a program that puts so many items."""
    env = os.environ | ENVIRONMENT | {"AWS_ENDPOINT_URL_DYNAMODB": address}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    process = subprocess.Popen([*PROGRAMS[language], str(items)], cwd=HERE, env=env, **pipes)
    process.stdin.write(program)
    process.stdin.close()
    # What comes in is closed, and whoever waits for the end is not to write to it.
    process.stdin = None
    return process


def end(process: subprocess.Popen) -> Ran:
    """Wait for a program, and return what it has printed."""
    try:
        output, _ = process.communicate(timeout=SECS)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    written, read = WRITTEN.search(output), READ.search(output)
    if not written or not read:
        raise SystemExit(f"a program of {PAGE} ended with {process.returncode} and printed {output!r}")
    return Ran(int(written[2]), int(written[3]), int(read[1]), read[2].lower() == "true", process.returncode)


def shards_of(api: str, key: str) -> int:
    """Return how many shards the HTTP API says that a key has."""
    with urllib.request.urlopen(f"{api}/collection?pk={urllib.parse.quote(key)}", timeout=SECS) as answer:
        return json.load(answer)["number_of_shards"]


def deciders(command: Path, engine: str, key: str) -> set[str]:
    """Return who has begun a change of a key's shard count, as `dynashard decisions` says."""
    words = [command.resolve(), "decisions", "--json", "--pk", key, "--endpoint-url", engine, "--main-table", MAIN, "--metadata-table", METADATA]
    output = subprocess.run(words, stdout=subprocess.PIPE, check=True, timeout=SECS).stdout
    decisions = [each for line in output.splitlines() for each in json.loads(line).get("decisions", [])]
    return {each["by"] for each in decisions if each["outcome"] == "begun"}


def told(name: str, items: int, ran: Ran, shards: int, is_right: bool) -> bool:
    """Print what a program came to, and return whether that is right."""
    print(f"{name:20} {items:6} {ran.a_second:7} {ran.errors:7} {shards:6}{'' if is_right else f'  not as {PAGE} says: {ran}'}", flush=True)
    return is_right
