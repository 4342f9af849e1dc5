#!/usr/bin/env python3
"""Compare the start of a bootstrap with that of a Python handler that uses boto3, on the same Runtime API.

    python infra/start_benchmark.py [--bootstrap FILE] [--repeats N]

Needs a Python that has aws-sam-cli, and with it boto3. A start lasts from the spawning of the process to its first request for
an event. Memory is the largest resident set until then. Both make a client of DynamoDB before. The two take turns, and the
medians are compared. Exits with 1 if the bootstrap takes more than a tenth of the time or three tenths of the memory, or if
its log does not begin with the version of Cargo.toml.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import threading
import time
import tomllib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from samcli.yamlhelper import yaml_parse

ROOT = Path(__file__).resolve().parents[1]
MOST_TIME, MOST_MEMORY = 0.1, 0.3

PYTHON_HANDLER = """
import http.client, os
import boto3
table = boto3.resource("dynamodb").Table(os.environ["MAIN_TABLE"])
runtime = http.client.HTTPConnection(os.environ["AWS_LAMBDA_RUNTIME_API"])
runtime.request("GET", "/2018-06-01/runtime/invocation/next")
runtime.getresponse()
"""


class RuntimeApi(ThreadingHTTPServer):
    """The part of Lambda's Runtime API that a start needs: it says when an event is asked for, and gives none."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), AskedForAnEvent)
        self.asked = threading.Event()
        threading.Thread(target=self.serve_forever, daemon=True).start()


class AskedForAnEvent(BaseHTTPRequestHandler):
    def do_GET(self) -> None:  # noqa: N802
        self.server.asked.set()
        # Until its process is ended.
        self.rfile.read(1)

    def log_message(self, *_: object) -> None:
        pass


def variables(parameters: dict[str, str], names: dict[str, str]) -> dict[str, str]:
    """The environment that template.yaml gives to all functions of a stack with these parameters, defaults for the others, and
    these names of resources and pseudo parameters."""
    template = yaml_parse((ROOT / "template.yaml").read_text())
    values = {name: parameter.get("Default") for name, parameter in template["Parameters"].items()} | parameters

    def value_of(value: object) -> str:
        match value:
            case {"Ref": name}:
                return str(values[name] if name in values else names.get(name, name))
            case {"Fn::If": [_, first, _]}:
                return value_of(first)
            case _:
                return str(value)

    return {name: value_of(value) for name, value in template["Globals"]["Function"]["Environment"]["Variables"].items()}


def start(command: list[str], api: RuntimeApi) -> tuple[float, int, str]:
    """Seconds until the first event is asked for, KiB of memory until then, and the first line of the log."""
    api.asked.clear()
    environment = {
        "AWS_LAMBDA_RUNTIME_API": f"127.0.0.1:{api.server_port}",
        "AWS_LAMBDA_FUNCTION_NAME": "WriteFunction", "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "512", "AWS_LAMBDA_LOG_FORMAT": "JSON",
        "AWS_REGION": "us-east-1", "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "local", "AWS_SECRET_ACCESS_KEY": "local", "AWS_EC2_METADATA_DISABLED": "true",
        "PATH": os.environ["PATH"], **variables({}, {}),
    }
    began = time.perf_counter()
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        if not api.asked.wait(60):
            process.kill()
            raise SystemExit(f"{command[0]} asks for no event: {process.stderr.read()[-1000:]}")
        took = time.perf_counter() - began
        status = Path(f"/proc/{process.pid}/status").read_text()
        memory = int(status.split("VmHWM:")[1].split()[0])
    finally:
        process.kill()
        log, _ = process.communicate()
    return took, memory, log.partition("\n")[0]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap", type=Path, default=ROOT / ".aws-sam/build/WriteFunction/bootstrap")
    parser.add_argument("--repeats", type=int, default=15)
    options = parser.parse_args()
    api = RuntimeApi()
    commands = {"bootstrap": [str(options.bootstrap)], "Python with boto3": [sys.executable, "-c", PYTHON_HANDLER]}
    starts: dict[str, list[tuple[float, int, str]]] = {name: [] for name in commands}
    for _ in range(options.repeats + 1):
        for name, command in commands.items():
            starts[name].append(start(command, api))
    medians = {}
    for name, samples in starts.items():
        # The first of each reads its files from the disk.
        took, memory = (statistics.median(sample[part] for sample in samples[1:]) for part in (0, 1))
        medians[name] = took, memory
        print(f"{name}: {took * 1e3:.1f} ms to the first event, {memory / 1024:.1f} MiB")
    (took, memory), (python_took, python_memory) = medians.values()
    print(f"ratio: {took / python_took:.3f} of the time, {memory / python_memory:.3f} of the memory")
    version = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    first = starts["bootstrap"][0][2]
    if not first or json.loads(first).get("version") != version:
        print(f"the log begins with {first!r}, which does not say the version {version}", file=sys.stderr)
        return 1
    return 0 if took <= MOST_TIME * python_took and memory <= MOST_MEMORY * python_memory else 1


if __name__ == "__main__":
    sys.exit(main())
