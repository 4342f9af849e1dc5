"""What a program meets when one partition key is hot, and that it meets nothing once the key is spread.

Copy the fixtures into a `conftest.py`, and test your own program with `dynamodb`."""

import json
import os
import subprocess
from collections.abc import Iterator

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

# A partition takes 10 writes a second here, so that few requests make one hot. On AWS it takes 1,000.
ENGINE = ["local", "--engine-only", "--dynamodb-port", "0", "--partition-wcu", "10"]


@pytest.fixture(scope="session")
def engine() -> Iterator[str]:
    """The address of a DynamoDB that refuses by partition, on a free port of this machine."""
    process = subprocess.Popen([os.environ.get("DYNASHARD", "dynashard"), *ENGINE], stdout=subprocess.PIPE, text=True)
    try:
        # It says where it is when it answers. If it ends before, it has said why on stderr, and the line is empty.
        yield json.loads(process.stdout.readline())["dynamodb"]
    finally:
        process.terminate()
        assert process.wait(timeout=30) == 0


@pytest.fixture
def dynamodb(engine: str) -> Iterator[object]:
    """A client that sends each request once, and a table `Flights` that lives as long as a test."""
    # A client that sends again by itself, as boto3's does, hides what the test asks for.
    once = Config(retries={"total_max_attempts": 1})
    keys = {"aws_access_key_id": "local", "aws_secret_access_key": "local", "region_name": "us-east-1"}
    client = boto3.client("dynamodb", endpoint_url=engine, config=once, **keys)
    client.create_table(
        TableName="Flights",
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in ("pk", "sk")],
        BillingMode="PAY_PER_REQUEST",
    )
    yield client
    client.delete_table(TableName="Flights")


def flight(pk: str, sk: int) -> dict:
    return {"pk": {"S": pk}, "sk": {"S": f"{sk:02}"}}


def unprocessed(client: object, items: list[dict]) -> int:
    """Write items in one batch, and return how many were refused."""
    requests = [{"PutRequest": {"Item": item}} for item in items]
    return len(client.batch_write_item(RequestItems={"Flights": requests})["UnprocessedItems"].get("Flights", []))


def test_a_hot_key_gets_what_one_partition_takes(dynamodb: object) -> None:
    assert unprocessed(dynamodb, [flight("EWR", n) for n in range(25)]) == 15
    assert dynamodb.scan(TableName="Flights", Select="COUNT")["Count"] == 10


def test_a_spread_key_gets_all_that_it_asks_for(dynamodb: object) -> None:
    assert unprocessed(dynamodb, [flight(f"EWR#{n % 16}", n) for n in range(25)]) == 0
    assert dynamodb.scan(TableName="Flights", Select="COUNT")["Count"] == 25


def test_the_error_says_which_limit_was_met(dynamodb: object) -> None:
    # A full partition takes an item that is larger than itself, and then nothing until time has paid for it: here 30 seconds.
    dynamodb.put_item(TableName="Flights", Item=flight("EWR", 0) | {"note": {"S": "x" * 300 * 1024}})
    with pytest.raises(ClientError) as refused:
        dynamodb.put_item(TableName="Flights", Item=flight("EWR", 1))
    answer = refused.value.response
    assert answer["Error"]["Code"] == "ProvisionedThroughputExceededException"
    assert [each["reason"] for each in answer["ThrottlingReasons"]] == ["TableWriteKeyRangeThroughputExceeded"]
    dynamodb.put_item(TableName="Flights", Item=flight("JFK", 1))
