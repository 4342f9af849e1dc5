"""The events of events/, the tables that each needs, and the answers that the Rust tests expect."""

import json
import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FUNCTIONS = {"write": "WriteFunction", "read": "ReadFunction", "scale": "ScaleFunction", "rebalance": "RebalanceFunction"}

# What differs from run to run, or from the tables in memory of the Rust tests. Its type is compared, not its value.
VOLATILE = {"etag", "dynashard-consumed-rcu", "dynashard-consumed-wcu", "consumed_rcu", "last_updated", "at", "request_id"}

# Why an answer may differ as a whole: then only that its status is one of these is compared.
OTHER_ANSWERS = {
    "read-collection-decided": ({200}, "nothing was decided about the collection here"),
    "scale-create": ({201, 202}, "the stack's own RebalanceFunction carries the change on meanwhile"),
    "scale-create-rounded": ({201, 202}, "the stack's own RebalanceFunction carries the change on meanwhile"),
}

# The tables of tests that add something which these events do not show, or that is a parameter.
SAME_TABLES = {"rested_flights": "flights", "of_flights": "flights", "of_tenants": "flights", "tenants": "flights", "of_numbers": "empty"}

# The states that `stack.py` makes, too.
KNOWN_TABLES = ("empty", "flights", "counting")

# The parameters of worlds in verification/eventkit that differ from the template's.
GRANTS = {"KeyGrants": "*={tenant},{tenant}/*;arn:aws:sts::*:assumed-role/orders/*=JFK"}
PARAMETERS = {"of_tenants": GRANTS, "tenants": GRANTS, "of_numbers": {"SortKeyType": "N"}}


@dataclass(frozen=True)
class Event:
    name: str
    function: str
    # One of `KNOWN_TABLES`, or a state that only the Rust tests can make.
    tables: str
    parameters: dict[str, str]
    expected: object

    @property
    def kind(self) -> str:
        """The route of a request, and what an event comes from that is no request."""
        event = json.loads(self.path.read_text())
        return event.get("routeKey") or event.get("source") or ("stream" if "Records" in event else "something else")

    @property
    def path(self) -> Path:
        return ROOT / "events" / f"{self.name}.json"

    @property
    def is_request(self) -> bool:
        return isinstance(self.expected, dict) and "statusCode" in self.expected

    def difference(self, answer: object) -> str | None:
        """What is wrong with an answer, if anything is."""
        if not isinstance(answer, dict) or "errorType" in answer:
            return f"the function failed: {json.dumps(answer)[:500]}"
        if not self.is_request:
            # What an alarm leads to depends on what CloudWatch says here; that each part answers does not.
            return None if answer else "the answer is empty"
        other, _ = OTHER_ANSWERS.get(self.name, (None, None))
        if answer.get("statusCode") not in (other or {self.expected["statusCode"]}):
            return f"status {answer.get('statusCode')} in place of {self.expected['statusCode']}: {answer.get('body', '')[:300]}"
        if other or self.tables not in KNOWN_TABLES:
            return None
        body = json.loads(answer["body"]) if answer.get("body") else None
        headers = {name: value for name, value in answer.get("headers", {}).items() if name != "content-length"}
        for what, expected, got in [
            ("headers", self.expected.get("headers", {}), headers),
            ("body", self.expected.get("body"), body),
        ]:
            if where := differs(expected, got):
                return f"{what}{where}"
        return None


def differs(expected: object, got: object, key: str = "") -> str | None:
    """Where two values differ, but for what is volatile."""
    if key in VOLATILE:
        return None if isinstance(got, type(expected)) or expected is None else f".{key}: {got!r} in place of {expected!r}"
    if isinstance(expected, dict) and isinstance(got, dict):
        for name in sorted({*expected, *got} - VOLATILE):
            if name not in got or name not in expected:
                return f".{name}: only {'expected' if name in expected else 'answered'}"
        parts = ((name, differs(value, got.get(name), name)) for name, value in expected.items() if name in got)
        return next((f".{name}{part}" if not part.startswith(f".{name}") else part for name, part in parts if part), None)
    if isinstance(expected, list) and isinstance(got, list) and len(expected) == len(got):
        parts = ((n, differs(one, other)) for n, (one, other) in enumerate(zip(expected, got, strict=True)))
        return next((f"[{n}]{part}" for n, part in parts if part), None)
    return None if expected == got else f": {json.dumps(got)[:200]} in place of {json.dumps(expected)[:200]}"


def all_events() -> list[Event]:
    """Every event file, each with its tables and its expected answer; an event without one is a fault."""
    tables = {}
    for crate in FUNCTIONS:
        for source in [*(ROOT / "functions" / crate / "src").rglob("tests*.rs"), *(ROOT / "functions" / crate / "src/tests").glob("*.rs")]:
            tables.update(re.findall(r'\(\s*"(' + crate + r'-[a-z0-9-]+)",\s*(?:World::)?(\w+)', source.read_text()))
    events = []
    for path in sorted((ROOT / "events").glob("*.json")):
        name = path.stem
        if name not in tables:
            raise SystemExit(f"{path}: no test of the functions says which tables the event needs")
        snapshot = (ROOT / "events" / "expected" / f"{name}.snap").read_text()
        expected = json.loads(snapshot.split("---\n", 2)[2])
        state = tables[name]
        function = FUNCTIONS[name.split("-")[0]]
        events.append(Event(name, function, SAME_TABLES.get(state, state), PARAMETERS.get(state, {}), expected))
    return events
