"""Runs the commands of the pages that answer a question, as the pages have them, each page on a stack of its own: with its addresses in
place of the name of a stack on AWS, and without what waits for Ctrl-C."""

import os
import re
import subprocess
import urllib.request
from pathlib import Path

from stacks import ENVIRONMENT, MAIN, METADATA, ROOT, client, local

# Each page, and what a command of it has to print.
PAGES = {
    "THROTTLED": {"dynashard top": "EVENT#1"},
    "SHARD_A_KEY": {"dynashard plan": "Advice: shard", "curl -X PUT": '"number_of_shards":8', "dynashard scale": "to 16 shards"},
    "READ_IN_ORDER": {"order=desc": r'"sk":"3".*"sk":"2".*"sk":"1"', "dynashard query": '"sk":"3"', "strategy=parallel": '"items_read":3'},
    "MOVE_A_KEY": {"dynashard reshards": "1 to 16 shards", "dynashard pause": "PAUSED", "dynashard verify": "no findings", "dynashard adopt": "Orders can be adopted"},
}
SECS = 60


def questions(command: Path) -> int:
    """Run the commands of each page, and return how many did not do what the page says."""
    wrong = 0
    for page, promised in PAGES.items():
        text = (ROOT / f"docs/{page}.md").read_text(encoding="utf-8")
        lines = [line.strip() for block in re.findall(r"^ *```sh\n(.*?)^ *```$", text, re.MULTILINE | re.DOTALL) for line in block.splitlines()]
        with local(command, f"questions-{page}", "--set", "RequestLifetimeSecs=20") as ready:
            prepare(ready)
            for line in lines:
                promise = [promise for beginning, promise in promised.items() if beginning in line]
                problem = run(line, ready, command, promise)
                wrong += bool(problem)
                print(f"{page:20} {line[:100]}{f': {problem}' if problem else ''}", flush=True)
        missing = [beginning for beginning in promised if not any(beginning in line for line in lines)]
        if missing:
            raise SystemExit(f"docs/{page}.md has no command with {missing}")
    return wrong


def prepare(ready: dict) -> None:
    """Store items under the key of the pages, and have a partition of a table of somebody else's refuse one."""
    for sk in (1, 2, 3):
        request = urllib.request.Request(f"{ready['api']}/item?pk=EWR&sk={sk}", data=b"{}", method="PUT")
        request.add_header("content-type", "application/json")
        urllib.request.urlopen(request, timeout=SECS).close()
    dynamodb = client(ready["dynamodb"])
    keys = [{"AttributeName": name, "KeyType": kind} for name, kind in (("customer", "HASH"), ("at", "RANGE"))]
    types = [{"AttributeName": key["AttributeName"], "AttributeType": "S"} for key in keys]
    dynamodb.create_table(TableName="Orders", KeySchema=keys, AttributeDefinitions=types, BillingMode="PAY_PER_REQUEST")
    dynamodb.update_contributor_insights(TableName="Orders", ContributorInsightsAction="ENABLE", ContributorInsightsMode="THROTTLED_KEYS")
    # More than a partition takes in a second, one item after the other: it refuses one of them, and takes it when that is sent again.
    note = {"S": "x" * (390 << 10)}
    for at in range(8):
        dynamodb.put_item(TableName="Orders", Item={"customer": {"S": "EVENT#1"}, "at": {"S": str(at)}, "note": note})


def run(line: str, ready: dict, command: Path, promised: list[str]) -> str:
    """Run a command, and return what is wrong with it."""
    flags = f"--endpoint-url {ready['dynamodb']}"
    line = line.replace("--stack-name dynashard", f"{flags} --main-table {MAIN} --metadata-table {METADATA}").replace(" --watch", "")
    line = line.replace("--table Orders", f"--table Orders {flags}").replace("dynashard top", f"dynashard top --cloudwatch-url {ready['cloudwatch']}")
    line = re.sub(r" > \S+$", "", line).replace("curl ", "curl --silent --show-error --fail-with-body ")
    env = os.environ | ENVIRONMENT | {"API": ready["api"], "PATH": f"{command.resolve().parent}:{os.environ['PATH']}"}
    ran = subprocess.run(["bash", "-c", line], env=env, capture_output=True, text=True, timeout=SECS, check=False)
    if ran.returncode:
        return f"exit status {ran.returncode}: {ran.stdout}{ran.stderr}"
    is_kept = all(re.search(promise, ran.stdout, re.DOTALL) for promise in promised)
    return "" if is_kept else f"it prints {ran.stdout!r}"
