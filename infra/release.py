#!/usr/bin/env python3
"""Check that all that names the version of a release agrees, and print what the changelog says of it.

    python infra/release.py            # what has to hold at every commit
    python infra/release.py v0.1.0     # what has to hold at a tag; prints the notes of the release

Exits with 1 and says what differs if anything does. Needs nothing but Python 3.11.
"""

import argparse
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def notes_of(changelog: str, version: str) -> str | None:
    """Return the text of a version's section of the changelog, if it has one."""
    heading = rf"^## \[{re.escape(version)}\](?: - \d{{4}}-\d\d-\d\d)?$"
    section = re.search(rf"{heading}\n(.*?)(?=^## \[|\Z)", changelog, re.DOTALL | re.MULTILINE)
    return section[1].strip() if section else None


def is_dated(changelog: str, version: str) -> bool:
    """Tell whether a version's section says when it was released."""
    return re.search(rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$", changelog, re.MULTILINE) is not None


def faults_of(cargo: str, template: str, changelog: str, tag: str | None) -> list[str]:
    """Return where the manifest, the template, the changelog and the tag contradict each other."""
    version = tomllib.loads(cargo)["workspace"]["package"]["version"]
    faults = []
    # Not read as YAML, so that this runs without any package.
    shown = re.search(r"^    SemanticVersion: (\S+)$", template, re.MULTILINE)
    if shown is None or shown[1] != version:
        faults.append(f"template.yaml has the SemanticVersion {shown and shown[1]}, and Cargo.toml the version {version}")
    if tag is None:
        if not (notes_of(changelog, version) or notes_of(changelog, "Unreleased")):
            faults.append(f"CHANGELOG.md says nothing of {version}, and nothing under Unreleased")
        return faults
    if tag != f"v{version}":
        faults.append(f"the tag is {tag}, and Cargo.toml has the version {version}: the tag has to be v{version}")
    if not notes_of(changelog, version):
        faults.append(f"CHANGELOG.md says nothing of {version}")
    elif not is_dated(changelog, version):
        faults.append(f"CHANGELOG.md does not say when {version} was released: ## [{version}] - YYYY-MM-DD")
    if notes_of(changelog, "Unreleased"):
        faults.append(f"CHANGELOG.md has changes under Unreleased: move them to {version}")
    return faults


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tag", nargs="?", help="the tag of the release, such as v1.2.3; its notes are printed")
    tag = parser.parse_args().tag
    cargo, template, changelog = ((ROOT / name).read_text(encoding="utf-8") for name in ("Cargo.toml", "template.yaml", "CHANGELOG.md"))
    faults = faults_of(cargo, template, changelog, tag)
    for fault in faults:
        print(fault, file=sys.stderr)
    if tag and not faults:
        print(notes_of(changelog, tag.removeprefix("v")))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
