"""What a session writes down: a line of JSON for each call, with its answer or its error."""

import base64
import datetime
import json
import os
import re
import sys
from collections.abc import Callable
from decimal import Decimal

from boto3.dynamodb.types import Binary
from botocore.exceptions import BotoCoreError, ClientError
from pynamodb.exceptions import PynamoDBException

# The table that dynashard manages, with the keys `pk` and `sk`.
TABLE = os.environ["DYNASHARD_TABLE"]
# A token of transactions that no other run has: DynamoDB remembers it for ten minutes.
TOKEN = os.environ["DYNASHARD_TOKEN"]
# What two runs on one engine cannot have in common.
CHANCE = {"TableId", "TableArn", "IndexArn", "LatestStreamArn", "LatestStreamLabel", "ResponseMetadata"}
# PynamoDB's messages name it.
REQUEST_ID = re.compile(r"on request \(\w+\)")
# DynamoDB repeats a batch or a transaction that has the wrong number of parts. The endpoint, which refuses it itself, does not.
ECHO = re.compile(r"Value '.*' at '(requestItems|transactItems)'", re.DOTALL)


def call(what: str, does: Callable, *args: object, **named: object) -> object:
    """Make one call of the library and write down what came of it. Return the answer, or None where there was an error."""
    try:
        answer = does(*args, **named)
    except Exception as error:
        write(what, "error", of_error(error))
        return None
    write(what, "answer", answer)
    return answer


def write(what: str, kind: str, value: object) -> None:
    # Of a resource only its kind is told.
    line = json.dumps({"call": what, kind: plain(value)}, sort_keys=True, ensure_ascii=False, default=lambda each: type(each).__name__)
    sys.stdout.write(line + "\n")


def of_error(error: BaseException) -> dict:
    """Return what a user reads of an error: of PynamoDB's, which wrap another, the answer as well."""
    # A mistake in a session is not an answer.
    if not isinstance(error, BotoCoreError | ClientError | PynamoDBException):
        raise error
    cause = getattr(error, "cause", None) or error
    said = {"type": type(error).__name__, "message": REQUEST_ID.sub("on request (id)", str(error))}
    return said | (cause.response if isinstance(cause, ClientError) else {})


def plain(value: object) -> object:
    """Return a value as JSON that tells all types apart, without ids and dates, and in order where DynamoDB promises none."""
    if isinstance(value, dict):
        members = {str(name): plain(member) for name, member in value.items() if name not in CHANCE}
        for name in members.keys() & {"SS", "NS", "BS", "ConsumedCapacity"}:
            if isinstance(members[name], list):
                members[name].sort(key=json.dumps)
        if isinstance(members.get("NextToken"), str):
            members["NextToken"] = json.loads(base64.b64decode(members["NextToken"]))
        metadata = value.get("ResponseMetadata", {})
        # An answer whose checksum is wrong is asked for again.
        return members | {f"({name})": metadata[name] for name in ("HTTPStatusCode", "RetryAttempts") if metadata.get(name)}
    if isinstance(value, list | tuple):
        return [plain(member) for member in value]
    if isinstance(value, set | frozenset):
        return {"(set)": sorted((plain(member) for member in value), key=json.dumps)}
    if isinstance(value, bytes | bytearray | Binary):
        return {"(bytes)": base64.b64encode(bytes(value)).decode()}
    if isinstance(value, Decimal):
        return {"(number)": str(value)}
    if isinstance(value, datetime.datetime):
        return "(date)"
    if isinstance(value, str):
        return ECHO.sub(r"Value at '\1'", value)
    return value
