"""What schemathesis has to know of this API beside its document."""

import os
import re

import schemathesis
from schemathesis.openapi.checks import RejectedPositiveData

DYNAMODB_JSON = "application/x-amz-json-1.0"
SORT_KEY_TYPE = os.environ["SORT_KEY_TYPE"]

schemathesis.serializer.alias(DYNAMODB_JSON, "application/json")


@schemathesis.deserializer(DYNAMODB_JSON)
def dynamodb_json(_context, response):
    return response.json()


@schemathesis.hook
def before_load_schema(_context, document):
    """Says of the document what the stack was started with: the type of its table's sort keys, and its `MaxShards`."""
    schemas = document["components"]["schemas"]
    kind = {"S": "string", "N": "number"}[SORT_KEY_TYPE]
    schemas["SortKey"] = next(schema for schema in schemas["SortKey"]["oneOf"] if schema["type"] == kind)
    if SORT_KEY_TYPE == "N":
        schemas["SortKeyText"]["pattern"] = "^(0|-?[1-9][0-9]{0,30}([.][0-9]{1,7})?)$"
    schemas["ShardCount"]["maximum"] = int(os.environ["MAX_SHARDS"])


@schemathesis.hook
def map_headers(_context, headers):
    """Leaves one precondition where there are two, which is refused at once: OpenAPI cannot say that they exclude one another."""
    if headers and "If-Match" in headers and "If-None-Match" in headers:
        return {name: value for name, value in headers.items() if name != "If-None-Match"}
    return headers


def has(case, *names):
    """Whether the request has each of these: headers, query parameters or members of its body."""
    body = case.body if isinstance(case.body, dict) else {}
    given = {**(case.query or {}), **body, **(case.headers or {})}
    return all(given.get(name) is not None for name in names)


def texts(value):
    """Every string of a request, member names included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield name
            yield from texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from texts(inner)


def exceeds(case, limit):
    return any(len(text.encode()) > limit for text in texts([dict(case.query or {}), case.body]))


def breaks_a_pattern(case):
    schemas = {parameter.name: parameter.definition["schema"] for parameter in case.operation.headers}
    given = {name: schema.get("pattern", "") for name, schema in schemas.items() if name in case.headers}
    return any(not re.search(pattern, case.headers[name]) for name, pattern in given.items())


def carries_a_key(case):
    body = case.body if isinstance(case.body, dict) else {}
    documents = [body.get("item"), body.get("patch"), *(put["item"] for put in body.get("puts") or [])]
    items = [body] if case.path == "/item" else [item for item in documents if item is not None]
    return any("pk" in item or "sk" in item for item in items)


# The rules that JSON Schema cannot say. A request that follows the document may be refused with these codes only, where the detail
# and the request are such. Each line: status, code, what the detail says, whether the request may be refused so.
RULES = [
    # The state of the item or of the query decides.
    (412, "precondition_failed", "", lambda case: has(case, "If-Match") or has(case, "If-None-Match")),
    (410, "cursor_expired", "", lambda case: has(case, "cursor")),
    (400, "not_for_placement", "", lambda case: "patch" in case.operation.label.lower() or has(case, "If-Match") or has(case, "If-None-Match")),
    # A cursor is good if it came from a page of the same query.
    (400, "bad_cursor|cursor_mismatch|unsupported_cursor", "", lambda case: has(case, "cursor")),
    # OpenAPI has no parameters that exclude one another.
    (400, "bad_parameter", "begins_with does not go together", lambda case: has(case, "begins_with")),
    (400, "bad_parameter|bad_key", "begins_with", lambda case: SORT_KEY_TYPE == "N" and has(case, "begins_with")),
    (400, "bad_header", "do not go together", lambda case: has(case, "If-Match", "If-None-Match")),
    (400, "bad_parameter", "from lies above to", lambda case: has(case, "from", "to")),
    (400, "bad_body", '"min" is above "max"', lambda case: has(case, "min", "max")),
    (400, "bad_body", '"whole" is about all sort keys', lambda case: has(case, "from", "whole")),
    (400, "bad_body", "says which way keys are newer", lambda case: has(case, "descending")),
    # Which epochs there are no document says.
    (400, "bad_parameter", "lies in an older epoch", lambda case: has(case, "from")),
    # Coverage cases of schemathesis send 0 in a header whatever its pattern is, and count it as valid.
    (400, "bad_header", "takes", breaks_a_pattern),
    # JSON Schema counts characters, DynamoDB bytes.
    (400, "bad_key", "bytes", lambda case: exceeds(case, 1_024)),
    # The document leaves values inside of values open.
    (400, "bad_item", "an attribute name is empty|nests deeper", lambda case: case.body),
    # A list is unique by one part of each element, or by the value of its numbers.
    (400, "duplicate_key", "", lambda case: has(case, "puts") or has(case, "deletes") or has(case, "keys")),
    (400, "bad_fields", "twice", lambda case: has(case, "fields")),
    (400, "bad_body", "a set that repeats a member", lambda case: case.media_type == DYNAMODB_JSON),
    # The limits of two lists together.
    (400, "bad_parameter", "at most 1000 are allowed", lambda case: has(case, "puts", "deletes")),
    # DynamoDB keeps 38 digits and exponents to 125.
    (400, "bad_body", "is a number that cannot be kept", lambda case: True),
    # Number sort keys, too: a JSON number may be larger or longer.
    (400, "bad_key", "outside the magnitudes|digits", lambda case: SORT_KEY_TYPE == "N"),
    # An item that carries its key must carry the one that the request names.
    (400, "key_mismatch|bad_key", "", carries_a_key),
]


@schemathesis.check
def refused_by_a_known_rule(_context, response, case):
    """A request that follows the document is carried out, or refused by one of `RULES`."""
    if case.meta is None or not case.meta.generation.mode.is_positive or response.status_code in (401, 403, 404, 409, 429, 431):
        return
    if not 400 <= response.status_code < 500 or case.method.upper() != case.operation.method.upper():
        return
    if case.method.upper() == "HEAD":
        # It says no more, and GET is asked the same.
        return
    problem = response.json()
    code, detail = problem.get("code", ""), problem.get("detail", "")
    for status, codes, text, may_be in RULES:
        if response.status_code == status and re.fullmatch(codes, code) and re.search(text, detail) and may_be(case):
            return
    raise RejectedPositiveData(
        operation=case.operation.label,
        message=f"no rule of hooks.py lets this be refused: {code}: {detail}",
        status_code=response.status_code,
        allowed_statuses=["2xx"],
    )
