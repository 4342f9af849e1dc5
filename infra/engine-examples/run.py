#!/usr/bin/env python3
"""Runs the tests of this folder, which docs/THROTTLING_DYNAMODB.md shows: by pytest and by vitest, with the command, with the step of
action.yml, and with Testcontainers where Docker's engine answers.

    target/engine-examples/bin/python infra/engine-examples/run.py --command target/debug/dynashard

The image is made by infra/distribute.py, of this command and the libraries that it is linked to. `DYNASHARD_DOCKER=required` makes
it an error that no engine answers. Needs the packages of requirements.txt, and those of package-lock.json
(`npm ci --prefix infra/engine-examples`) with Node 20 or later. Exits with 1 if a test fails."""

import argparse
import os
import platform
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import distribute  # noqa: E402

SECS = 120


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--command", type=Path, required=True, help="the dynashard command")
    command = parser.parse_args().command.resolve()
    with tempfile.TemporaryDirectory() as folder:
        stripped = Path(folder) / "dynashard"
        subprocess.run(["strip", "-o", stripped, command], check=True)
        failed = pytest("test_hot_partition.py", "test_action.py", DYNASHARD=str(stripped)) + vitest("command", DYNASHARD=str(stripped))
        if subprocess.run(["docker", "info"], capture_output=True, check=False).returncode == 0:
            with image(stripped) as name:
                # Its image, which ends containers that a test has left, is in a registry.
                variables = {"DYNASHARD_IMAGE": name, "TESTCONTAINERS_RYUK_DISABLED": "true"}
                failed += pytest("test_hot_partition_container.py", **variables) + vitest("container", **variables)
        elif os.environ.get("DYNASHARD_DOCKER") == "required":
            sys.exit("Docker's engine does not answer")
        else:
            print("!!! SKIPPED: the tests with Testcontainers. Start Docker's engine, and run this again.", file=sys.stderr)
    return 1 if failed else 0


def pytest(*files: str, **variables: str) -> bool:
    """Run files of pytest, and tell whether a test failed."""
    return fails([sys.executable, "-m", "pytest", "--quiet", "-p", "no:cacheprovider", *files], variables)


def vitest(project: str, **variables: str) -> bool:
    """Run a project of vitest.config.mjs, and tell whether a test failed."""
    return fails(["node", "node_modules/vitest/vitest.mjs", "run", "--project", project], variables)


def fails(words: list[str], variables: dict[str, str]) -> bool:
    env = os.environ | {"NO_COLOR": "1", "PYTHONDONTWRITEBYTECODE": "1"} | variables
    return subprocess.run(words, cwd=HERE, env=env, timeout=SECS, check=False).returncode != 0


@contextmanager
def image(command: Path) -> Iterator[str]:
    """Load an image with the command into Docker's engine, and yield its name. It is removed at the end."""
    with tempfile.TemporaryDirectory() as folder:
        files = {"usr/local/bin/dynashard": (command.read_bytes(), True)}
        # A release is static. What cargo builds for this machine is not.
        linked = subprocess.run(["ldd", command], capture_output=True, text=True, check=True).stdout
        files |= {path.lstrip("/"): (Path(path).resolve().read_bytes(), True) for path in re.findall(r"(/\S+) \(0x", linked)}
        architecture = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
        name, content = distribute.image({architecture: files}, f"examples-{os.getpid()}")
        (Path(folder) / name).write_bytes(content)
        loaded = subprocess.run(["docker", "load", "--input", Path(folder) / name], capture_output=True, text=True, check=True).stdout
    reference = loaded.strip().rsplit("Loaded image: ", 1)[1]
    try:
        yield reference
    finally:
        subprocess.run(["docker", "image", "rm", reference], capture_output=True, check=True)


if __name__ == "__main__":
    sys.exit(main())
