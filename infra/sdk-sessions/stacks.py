"""Stacks on this machine, and what is in their tables."""

import contextlib
import json
import select
import subprocess
from collections.abc import Iterator
from pathlib import Path

import boto3

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
WORK = ROOT / "target/sdk-sessions"
MAIN, METADATA = "MainTable", "MetadataTable"
KEYS = {MAIN: ["pk", "sk"], METADATA: ["pk"]}
# The SDKs take any credentials, and what else they need they read here, as in an application beside the endpoint.
ENVIRONMENT = {"AWS_ACCESS_KEY_ID": "local", "AWS_SECRET_ACCESS_KEY": "local", "AWS_REGION": "us-east-1", "AWS_DEFAULT_REGION": "us-east-1"}
# PynamoDB asks for a batch in the order of a set.
ENVIRONMENT |= {"PYTHONHASHSEED": "0"}
READY_SECS = 60
END_SECS = 30


def make_tables(engine: str) -> None:
    """Leave an engine with the two tables of a stack, and nothing in the main one that a client has put there."""
    dynamodb = client(engine)
    there = dynamodb.list_tables()["TableNames"]
    for table in there:
        if table not in KEYS:
            dynamodb.delete_table(TableName=table)
    for table, names in KEYS.items():
        if table not in there:
            keys = [{"AttributeName": name, "KeyType": kind} for name, kind in zip(names, ["HASH", "RANGE"], strict=False)]
            types = [{"AttributeName": name, "AttributeType": "S"} for name in names]
            dynamodb.create_table(TableName=table, KeySchema=keys, AttributeDefinitions=types, BillingMode="PAY_PER_REQUEST")
    for key in stored_keys(engine):
        # With these the stack knows its tables.
        if not key["pk"]["S"].startswith("_ds_"):
            dynamodb.delete_item(TableName=MAIN, Key=key)


def stored_keys(engine: str) -> Iterator[dict]:
    """Yield the keys of the main table as they are stored."""
    pages = client(engine).get_paginator("scan").paginate(TableName=MAIN, ProjectionExpression="pk, sk", ConsistentRead=True)
    for page in pages:
        yield from page["Items"]


def client(engine: str) -> object:
    options = {"aws_access_key_id": "local", "aws_secret_access_key": "local", "region_name": "us-east-1"}
    return boto3.client("dynamodb", endpoint_url=engine, **options)


@contextlib.contextmanager
def local(command: Path, name: str, *arguments: str) -> Iterator[dict]:
    """Start `dynashard local` on free ports, and yield its ready line. Its log goes to a file of this name. It is ended with SIGTERM."""
    engine_only = "--engine-only" in arguments
    ports = ["dynamodb"] if engine_only else ["", "dynamodb", "lambda", "cloudwatch", "console", "endpoint"]
    ports = [word for port in ports for word in (f"--{port}-port".replace("---", "--"), "0")]
    functions = [] if engine_only else ["--functions-dir", str(command.resolve().parent)]
    log = WORK / f"{name}.log"
    words = [str(command.resolve()), "local", *ports, *functions, *arguments]
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
