"""The step of action.yml, with a release that holds the command of `DYNASHARD`."""

import gzip
import hashlib
import os
import platform
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest

INFRA = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(INFRA))
import distribute  # noqa: E402

ARCHITECTURE, PROCESSOR = {"x86_64": ("X64", "x86_64"), "aarch64": ("ARM64", "aarch64")}[platform.machine()]
NAME = f"dynashard-1.2.3-{PROCESSOR}-unknown-linux-musl"


@pytest.fixture(scope="session")
def release() -> dict[str, bytes]:
    """The files of a release."""
    command = Path(os.environ["DYNASHARD"]).read_bytes()
    archive = gzip.compress(distribute.tar({"bin/dynashard": (command, True)}, f"{NAME}/"), compresslevel=1)
    sums = f"{'0' * 64}  dynashard-1.2.3.tgz\n{hashlib.sha256(archive).hexdigest()}  {NAME}.tar.gz\n"
    return {f"{NAME}.tar.gz": archive, "SHA256SUMS-installed": sums.encode()}


class Step:
    """The step in a job of its own, with a release of its own."""

    def __init__(self, folder: Path, release: dict[str, bytes]) -> None:
        self.folder, self.release = folder, folder / "v1.2.3"
        self.release.mkdir()
        for name, content in release.items():
            (self.release / name).write_bytes(content)

    def run(self, **variables: str) -> subprocess.CompletedProcess:
        env = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        env |= {"RUNNER_OS": "Linux", "RUNNER_ARCH": ARCHITECTURE, "RUNNER_TEMP": str(self.folder), "RELEASES": self.folder.as_uri()}
        env |= {"GITHUB_ENV": str(self.folder / "env"), "GITHUB_OUTPUT": str(self.folder / "output"), "VERSION": "1.2.3", "ARGS": "", "PORT": "0"}
        return subprocess.run([INFRA / "start-engine.sh"], env=env | variables, capture_output=True, text=True, timeout=60, check=False)

    def values(self, name: str) -> dict[str, str]:
        file = self.folder / name
        return dict(line.split("=", 1) for line in file.read_text().splitlines()) if file.exists() else {}

    def end(self) -> None:
        if pid := self.values("output").get("pid"):
            os.kill(int(pid), signal.SIGTERM)


@pytest.fixture
def step(tmp_path: Path, release: dict[str, bytes]) -> Iterator[Step]:
    step = Step(tmp_path, release)
    yield step
    step.end()


def test_later_steps_find_an_engine_that_throttles(step: Step) -> None:
    ran = step.run(ARGS="--partition-wcu 10 --partition-rcu 20")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    env = step.values("env")
    assert env["AWS_ENDPOINT_URL_DYNAMODB"] == step.values("output")["endpoint"]
    client = boto3.client(
        "dynamodb",
        endpoint_url=env["AWS_ENDPOINT_URL_DYNAMODB"],
        region_name=env["AWS_REGION"],
        aws_access_key_id=env["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=env["AWS_SECRET_ACCESS_KEY"],
    )
    key = {"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}
    types = [{"AttributeName": name, "AttributeType": "S"} for name in ("pk", "sk")]
    client.create_table(TableName="Flights", KeySchema=list(key), AttributeDefinitions=types, BillingMode="PAY_PER_REQUEST")
    puts = [{"PutRequest": {"Item": {"pk": {"S": "EWR"}, "sk": {"S": str(n)}}}} for n in range(25)]
    assert len(client.batch_write_item(RequestItems={"Flights": puts})["UnprocessedItems"]["Flights"]) == 15


def test_what_the_job_has_set_stays(step: Step) -> None:
    ran = step.run(VERSION="v1.2.3", AWS_ACCESS_KEY_ID="mine", AWS_REGION="eu-west-1")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    env = step.values("env")
    assert env.keys() == {"AWS_ENDPOINT_URL_DYNAMODB", "AWS_DEFAULT_REGION"}
    assert env["AWS_DEFAULT_REGION"] == "eu-west-1"


@pytest.mark.parametrize(
    ("variables", "says"),
    [
        ({"VERSION": "9.9.9"}, "is 9.9.9 a release?"),
        ({"VERSION": ""}, "is 0."),
        ({"RUNNER_OS": "Windows"}, "this action lacks a program for Windows"),
        ({"ARGS": "--partition-wcu none"}, "the engine did not start: error: invalid value 'none'"),
    ],
)
def test_what_cannot_start_says_why(step: Step, variables: dict[str, str], says: str) -> None:
    ran = step.run(**variables)
    assert ran.returncode == 1
    assert says in ran.stdout
    assert step.values("env") == {}


def test_an_archive_that_is_not_the_released_one_is_not_run(step: Step) -> None:
    archive = step.release / f"{NAME}.tar.gz"
    archive.write_bytes(archive.read_bytes() + b"\0")
    ran = step.run()
    assert ran.returncode == 1
    assert f"{NAME}.tar.gz is not what SHA256SUMS-installed says" in ran.stdout
    (step.release / "SHA256SUMS-installed").write_text("")
    ran = step.run()
    assert ran.returncode == 1
    assert "does not name" in ran.stdout
    assert step.values("output") == {}
