#!/usr/bin/env python3
"""Make what deploys the released functions without building them: a SAM template, a Terraform module, a CDK construct, and an
application for the Serverless Application Repository.

    python infra/released.py FOLDER [--url URL]

FOLDER holds the zips of infra/package.py for both architectures. All four are made of template.yaml, so no resource is written
twice, and the same zips give the same bytes. URL is where the source lies, which the repository of applications shows. Adds the
files to FOLDER, and to its SHA256SUMS.
"""

import argparse
import hashlib
import json
import sys
import tomllib
from pathlib import Path

from distribute import Files, npm_tarball, zip_of
from package import FUNCTIONS, ROOT, TARGETS
from samcli.yamlhelper import yaml_parse

TEMPLATE, STACK_POLICY = "dynashard-template.json", "dynashard-stack-policy.json"
# What the released template asks beside the parameters of template.yaml. The module and the construct set both themselves.
PLACE = {
    "CodeBucket": {
        "Type": "String",
        "AllowedPattern": "^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$",
        "ConstraintDescription": "is the name of a bucket",
        "Description": "Name of the bucket that holds the released zips of the functions. It is in the region of the stack.",
    },
    "CodePrefix": {
        "Type": "String",
        "Default": "dynashard/",
        "AllowedPattern": "^([^/]+/)*$",
        "ConstraintDescription": "is empty, or ends with a slash",
        "Description": "What the keys of the zips in CodeBucket begin with, before the version.",
    },
}
VERSION = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))["workspace"]["package"]["version"]
# The repository of applications takes one package for each function, so it has those of the default.
ARCHITECTURE = "arm64"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="the folder of the zips")
    parser.add_argument("--url", help="where the source lies")
    options = parser.parse_args()
    missing = [name for name in zip_names() if not (options.folder / name).is_file()]
    if missing:
        print(f"{options.folder} has no {missing[0]}: run infra/package.py for both architectures, with --out {options.folder}", file=sys.stderr)
        return 1
    for name, digest in release(options.folder, VERSION, options.url).items():
        print(f"{name}: sha256 {digest}")
    return 0


def zip_names() -> list[str]:
    return [f"{binary}-{architecture}.zip" for architecture in sorted(TARGETS) for binary in FUNCTIONS.values()]


def release(folder: Path, version: str, url: str | None) -> dict[str, str]:
    """Writes all forms beside the zips of a folder. Returns the digests by name."""
    application = yaml_parse((ROOT / "template.yaml").read_text(encoding="utf-8"))
    zips: Files = {name: ((folder / name).read_bytes(), False) for name in zip_names()}
    plain = {TEMPLATE: encoded(released(application, version)), STACK_POLICY: (ROOT / "infra/stack-policy.json").read_bytes()}
    bundle: Files = zips | {name: (content, False) for name, content in plain.items()}
    written = plain | dict([
        terraform_module(bundle, version), cdk_construct(bundle, version), application_of_the_repository(application, zips, version, url),
    ])
    for name, content in written.items():
        (folder / name).write_bytes(content)
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in written.items()}
    sums = folder / "SHA256SUMS"
    before = dict(line.split("  ", 1)[::-1] for line in sums.read_text().splitlines()) if sums.exists() else {}
    sums.write_text("".join(f"{digest}  {name}\n" for name, digest in sorted((before | digests).items())))
    return digests


def encoded(value: dict) -> bytes:
    return json.dumps(value, indent=1).encode() + b"\n"


def located(application: dict, places: dict) -> dict:
    """The application with the code of its functions at these places, so that there is nothing left to build."""
    template = json.loads(json.dumps(application))
    del template["Globals"]["Function"]["CodeUri"]
    for function, place in places.items():
        del template["Resources"][function]["Metadata"]
        template["Resources"][function]["Properties"]["CodeUri"] = place
    built = template["Parameters"]["Architecture"]
    built["Description"] = built["Description"].removesuffix(" Give sam build the same value.")
    return template


def released(application: dict, version: str) -> dict:
    """The template whose functions are the released zips of a bucket."""
    # The version is in the key, since sam deploy keeps the parameters of the last deployment: a new template has no old functions.
    template = located(application, {
        function: {"Bucket": {"Ref": "CodeBucket"}, "Key": {"Fn::Sub": f"${{CodePrefix}}{version}/{binary}-${{Architecture}}.zip"}}
        for function, binary in FUNCTIONS.items()
    })
    # sam deploy would look for the pages that it names.
    del template["Metadata"]["AWS::ServerlessRepo::Application"]
    groups = template["Metadata"]["AWS::CloudFormation::Interface"]["ParameterGroups"]
    groups.insert(0, {"Label": {"default": "The release"}, "Parameters": list(PLACE)})
    template["Parameters"] |= PLACE
    return template


def terraform_module(bundle: Files, version: str) -> tuple[str, bytes]:
    module = {name: ((ROOT / "infra/terraform" / name).read_bytes(), False) for name in ("main.tf", "README.md")}
    return f"dynashard-terraform-{version}.zip", zip_of(module | {f"release/{name}": of for name, of in bundle.items()})


def cdk_construct(bundle: Files, version: str) -> tuple[str, bytes]:
    source = ROOT / "infra/cdk"
    construct = {name: ((source / name).read_bytes(), False) for name in ("index.js", "index.d.ts", "README.md")}
    manifest = json.loads((source / "package.json").read_text())
    for own in ("private", "devDependencies"):
        del manifest[own]
    package = construct | {f"release/{name}": of for name, of in bundle.items()}
    return f"dynashard-cdk-{version}.tgz", npm_tarball(package, manifest | {"version": version})


def application_of_the_repository(application: dict, zips: Files, version: str, url: str | None) -> tuple[str, bytes]:
    """What `sam package` and `sam publish` take: the template with its zips, its licence and its page beside it."""
    local = {function: f"{binary}-{ARCHITECTURE}.zip" for function, binary in FUNCTIONS.items()}
    template = located(application, local)
    template["Parameters"]["Architecture"] |= {"Default": ARCHITECTURE, "AllowedValues": [ARCHITECTURE]}
    shown = template["Metadata"]["AWS::ServerlessRepo::Application"]
    shown["SemanticVersion"] = version
    if url:
        shown |= {"HomePageUrl": url, "SourceCodeUrl": url}
    files = {name: zips[name] for name in local.values()} | {"template.json": (encoded(template), False)}
    pages = {shown[page]: ((ROOT / shown[page]).read_bytes(), False) for page in ("LicenseUrl", "ReadmeUrl")}
    return f"dynashard-sar-{version}.zip", zip_of(files | pages)


if __name__ == "__main__":
    sys.exit(main())
