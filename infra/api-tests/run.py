#!/usr/bin/env python3
"""Tests the HTTP API against docs/openapi.yaml on a local stack.

    target/api-venv/bin/python infra/api-tests/run.py [--built target/debug] [--secs 150] [--seed N] [--only contract|clients]

contract   schemathesis sends what the document allows and what it does not, for --secs seconds to two stacks: no answer may be a 5xx
           or one that the document does not have.
clients    a Python and a TypeScript client are generated from the document, type-checked, and used against the stack.

Needs the command and the functions in --built (`cargo build`), the packages of requirements.txt, and for the TypeScript client Node
20 or later with npm. Everything that it makes lies under target/api-tests."""

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

from stack import ROOT, local_stack

HERE = Path(__file__).resolve().parent
DOCUMENT = ROOT / "docs/openapi.yaml"
WORK = ROOT / "target/api-tests"
TOOLS = Path(sys.executable).parent
# Changes of shard counts wait for leases and requests to end, so these are short. MaxShards bounds what such a change may ask for.
SETTINGS = {"LeaseSecs": 1, "RequestLifetimeSecs": 2, "MaxShards": 32}
# The stacks that schemathesis tests: as deployed by default, and with the other type of sort keys and the other kind of placement.
STACKS = [{"SortKeyType": "S"}, {"SortKeyType": "N", "Placement": "random"}]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--built", type=Path, default=ROOT / "target/debug", help="where the command and the functions are")
    parser.add_argument("--secs", type=int, default=150, help="how long schemathesis goes on")
    parser.add_argument("--seed", type=int, help="the seed of an earlier run of schemathesis, which it prints")
    parser.add_argument("--only", choices=["contract", "clients"], help="one of the two parts")
    args = parser.parse_args()
    parts = {args.only} if args.only else {"contract", "clients"}
    built = args.built.resolve()
    if not (built / "dynashard").exists():
        sys.exit(f"{built} has no dynashard command: run cargo build first, or name the directory with --built")
    if "clients" in parts and not (shutil.which("node") and shutil.which("npm")):
        sys.exit("Node with npm is missing, which the TypeScript client needs: install Node 20 or later, or run with --only contract")
    WORK.mkdir(parents=True, exist_ok=True)
    run([TOOLS / "openapi-spec-validator", DOCUMENT])
    run([sys.executable, HERE / "goldens.py"])
    if "contract" in parts:
        for stack in STACKS:
            settings = SETTINGS | stack
            with local_stack(built, settings, WORK / "local.log") as api:
                contract(api, settings, args.secs // len(STACKS), args.seed)
    if "clients" in parts:
        python = python_client()
        typescript = typescript_client()
        with local_stack(built, SETTINGS, WORK / "local.log") as api:
            run([sys.executable, python, api], env={"PYTHONPATH": WORK / "python"})
            run(["node", typescript, api])


def contract(api, settings, secs, seed):
    command = [TOOLS / "schemathesis", "--config-file", HERE / "schemathesis.toml", "run", DOCUMENT, "--url", api]
    command += ["--max-time", str(secs)] + ([] if seed is None else ["--seed", str(seed)])
    env = {"SCHEMATHESIS_HOOKS": HERE / "hooks.py", "MAX_SHARDS": settings["MaxShards"]}
    run(command, env=env | {"SORT_KEY_TYPE": settings["SortKeyType"]})


def python_client():
    """Generates the client and checks the types of what uses it. Returns the program to run."""
    package, program = WORK / "python/dynashard_client", HERE / "clients/use_client.py"
    shutil.rmtree(package, ignore_errors=True)
    package.parent.mkdir(parents=True, exist_ok=True)
    # It has no serialiser for DynamoDB JSON, says so, and leaves those bodies out.
    generate = [TOOLS / "openapi-python-client", "generate", "--path", DOCUMENT, "--meta", "none", "--output-path", package]
    run(generate, quiet=True)
    check = [TOOLS / "mypy", "--strict", "--follow-imports", "silent", "--cache-dir", WORK / "mypy", program]
    run(check, env={"MYPYPATH": WORK / "python"})
    return program


def typescript_client():
    """Generates the client and checks the types of what uses it. Returns the program to run."""
    directory = WORK / "typescript"
    directory.mkdir(exist_ok=True)
    for name in ["package.json", "package-lock.json", "tsconfig.json", "use-client.ts"]:
        shutil.copy(HERE / "clients" / name, directory)
    run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=directory)
    run(["npx", "--no-install", "openapi-typescript", DOCUMENT, "--output", "dynashard.d.ts"], cwd=directory)
    run(["npx", "--no-install", "tsc"], cwd=directory)
    return directory / "built/use-client.js"


def run(command, env=None, cwd=WORK, quiet=False):
    """Runs a command to its end, and ends with it if it fails. A quiet one prints only then."""
    words = [str(word) for word in command]
    print("+", *words, flush=True)
    # The generator of the Python client looks for the tools that it formats with on the path.
    path = f"{TOOLS}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, **{name: str(value) for name, value in (env or {}).items()}}
    output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True} if quiet else {}
    ran = subprocess.run(words, env=env, cwd=cwd, **output)
    if ran.returncode:
        print(ran.stdout or "", flush=True)
        sys.exit(ran.returncode if ran.returncode > 0 else 1)


if __name__ == "__main__":
    main()
