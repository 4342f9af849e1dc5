"""`dynashard local` as DynamoDB and CloudWatch, with tables in a known state."""

import json
import subprocess
import tempfile
import urllib.request
from pathlib import Path

import boto3
from events import ROOT

# The flights of `World::of_flights` in verification/eventkit, and the version that they have there.
FLIGHTS = [
    ("EWR", "2013-01-01T10:00:00Z#UA1545", {"dest": "IAH", "carrier": "UA", "flight": 1545, "distance": 1400, "times": {"scheduled": "05:15"}}),
    ("EWR", "2013-01-01T10:00:00Z#UA1696", {"dest": "ORD", "carrier": "UA", "flight": 1696, "distance": 719}),
    ("EWR", "2013-01-01T11:00:00Z#B6343", {"dest": "PBI", "carrier": "B6", "flight": 343, "distance": 1023}),
    ("JFK", "2013-01-01T10:00:00Z#AA1141", {"dest": "MIA", "carrier": "AA", "flight": 1141, "distance": 1089}),
]
# The index of `World::of_flights`.
INDEX = {"FirstIndexName": "by-carrier", "FirstIndexPartitionKey": "carrier", "FirstIndexSortKey": "dest"}
VERSION = 0x07DD
CREATED = 1_356_998_400
MAIN, METADATA = "MainTable", "MetadataTable"

Items = dict[str, list[dict]]


class Stack:
    """A running stack, whose tables can be put back to a state that they had."""

    def __init__(self, program: Path, functions: Path) -> None:
        command = [str(program), "local", "--functions-dir", str(functions), "--port", "0", "--dynamodb-port", "0", "--lambda-port", "0"]
        command += [part for name, value in INDEX.items() for part in ("--set", f"{name}={value}")]
        self.log = tempfile.TemporaryFile(mode="w+")
        self.process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=self.log, text=True)
        line = self.process.stdout.readline()
        if not line:
            self.log.seek(0)
            raise SystemExit(f"{' '.join(command)} does not start: {self.log.read()[-2000:]}")
        ready = json.loads(line)
        self.api, self.dynamodb, self.cloudwatch = ready["api"], ready["dynamodb"], ready["cloudwatch"]
        self.client = boto3.client(
            "dynamodb", endpoint_url=self.dynamodb, region_name="us-east-1", aws_access_key_id="local", aws_secret_access_key="local"
        )
        self.states: dict[str, Items] = {"empty": {MAIN: [], METADATA: []}}

    def learn_flights(self) -> None:
        """Makes the collections and items that most events are about, and keeps that state."""
        for pk, count in [("EWR", 8), ("JFK", 1)]:
            self._request("PUT", f"/collection?pk={pk}", {"number_of_shards": count})
        for pk, sk, item in FLIGHTS:
            self._request("PUT", f"/item?pk={pk}&sk={sk.replace('#', '%23')}", item)
        state = {table: self._items(table) for table in (MAIN, METADATA)}
        for item in state[MAIN]:
            item["_ds_v"] = {"N": str(VERSION)}
        # The collections rest since the first flight: their creation is closed, and its job is gone.
        state[METADATA] = [item for item in state[METADATA] if not item["pk"]["S"].startswith("_ds_job#")]
        for item in state[METADATA]:
            if "phase" in item:
                for member in ("from", "to", "_ds_active"):
                    item.pop(member, None)
                history = {"SS": [f"{CREATED}:{item['number_of_shards']['N']}"]}
                item |= {"phase": {"S": "stable"}, "last_updated": {"N": str(CREATED)}, "shard_history": history}
        self.states["flights"] = state
        # The counter of the tests of ReadFunction, from which somebody has taken.
        for body in ({"add": 150, "min": 0, "max": 150}, {"add": -32}):
            self._request("POST", "/counter?pk=EWR&sk=seats", body)
        cells = [item for item in self._items(MAIN) if "_ds_c_n" in item]
        self.states["counting"] = {MAIN: [*state[MAIN], *cells], METADATA: state[METADATA]}

    def put_back(self, name: str) -> None:
        """Makes the tables hold what they held in the state of this name."""
        for table, wanted in self.states[name].items():
            keys = ["pk", "sk"] if table == MAIN else ["pk"]
            for item in self._items(table):
                self.client.delete_item(TableName=table, Key={key: item[key] for key in keys})
            for item in wanted:
                self.client.put_item(TableName=table, Item=item)

    def ports(self) -> list[int]:
        """Those of DynamoDB and of CloudWatch."""
        return [int(url.rsplit(":", 1)[1]) for url in (self.dynamodb, self.cloudwatch)]

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(timeout=60)

    def _items(self, table: str) -> list[dict]:
        pages = self.client.get_paginator("scan").paginate(TableName=table, ConsistentRead=True)
        return [item for page in pages for item in page["Items"]]

    def _request(self, method: str, path: str, body: object) -> None:
        request = urllib.request.Request(
            self.api + path, method=method, data=json.dumps(body).encode(), headers={"content-type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=60) as response:
            response.read()
