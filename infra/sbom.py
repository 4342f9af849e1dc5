#!/usr/bin/env python3
"""Write what the functions are made of, as a software bill of materials (CycloneDX 1.6, JSON).

    python infra/sbom.py [FILE]

Lists the crates that are linked into the bootstraps: nothing that only builds or tests need, and nothing of the command. The
same Cargo.lock gives the same text. Needs cargo, and a Python that has cyclonedx-python-lib with json-validation.
"""

import argparse
import json
import subprocess
import sys
import tomllib
import uuid
from pathlib import Path

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

ROOT = Path(__file__).resolve().parent.parent
FUNCTIONS = [f"dynashard-{name}" for name in ("read", "rebalance", "scale", "write")]
# The crates of the other target are the same.
TARGET = "aarch64-unknown-linux-gnu"
VERSION = SchemaVersion.V1_6


def bill() -> str:
    """Return the bill of materials as text."""
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", TARGET]
    metadata = json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)
    packages = {package["id"]: package for package in metadata["packages"]}
    needs = {node["id"]: linked(node, packages) for node in metadata["resolve"]["nodes"]}
    functions = [package["id"] for package in packages.values() if package["name"] in FUNCTIONS and package["source"] is None]
    lock = (ROOT / "Cargo.lock").read_text(encoding="utf-8")
    sums = {(package["name"], package["version"]): package.get("checksum") for package in tomllib.loads(lock)["package"]}

    components: dict[str, Component] = {}
    reached = list(functions)
    while reached:
        identity = reached.pop()
        if identity not in components:
            components[identity] = component(packages[identity], sums)
            reached += needs[identity]
    version = packages[functions[0]]["version"]
    application = Component(
        name="dynashard", version=version, type=ComponentType.APPLICATION, bom_ref=f"dynashard@{version}",
        licenses=[LicenseFactory().make_from_string(packages[functions[0]]["license"])],
    )
    bom = Bom(components=components.values(), serial_number=uuid.uuid5(uuid.NAMESPACE_URL, lock))
    bom.metadata.component = application
    bom.register_dependency(application, [components[identity] for identity in functions])
    for identity, own in components.items():
        bom.register_dependency(own, [components[other] for other in needs[identity]])
    text = make_outputter(bom, OutputFormat.JSON, VERSION).output_as_string(indent=1)
    content = json.loads(text)
    # When it was written is no property of what it lists.
    del content["metadata"]["timestamp"]
    return json.dumps(content, indent=1, sort_keys=True) + "\n"


def linked(node: dict, packages: dict[str, dict]) -> list[str]:
    """Return the packages that are linked with one: not those that its build or tests need, and no macros."""
    return [
        dependency["pkg"]
        for dependency in node["deps"]
        if any(kind["kind"] is None for kind in dependency["dep_kinds"])
        and not any("proc-macro" in target["kind"] for target in packages[dependency["pkg"]]["targets"])
    ]


def component(package: dict, sums: dict[tuple[str, str], str | None]) -> Component:
    """Return the entry of a package."""
    name, version = package["name"], package["version"]
    digest = sums[name, version]
    return Component(
        name=name,
        version=version,
        type=ComponentType.LIBRARY,
        bom_ref=f"{name}@{version}",
        purl=PackageURL("cargo", name=name, version=version),
        # Old manifests write `MIT/Apache-2.0` for an OR.
        licenses=[LicenseFactory().make_from_string(package["license"].replace("/", " OR "))],
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest)] if digest else [],
    )


def fault_of(text: str) -> str | None:
    """Return why a text is no bill of materials, if it is none."""
    error = JsonStrictValidator(VERSION).validate_str(text)
    return None if error is None else repr(error)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, nargs="?", help="where to write it; without it, it is printed")
    options = parser.parse_args()
    text = bill()
    if fault := fault_of(text):
        print(fault, file=sys.stderr)
        return 1
    if options.file:
        options.file.write_text(text, encoding="utf-8")
        print(f"{len(json.loads(text)['components'])} crates")
    else:
        print(text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
