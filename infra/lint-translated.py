#!/usr/bin/env python3
"""Translate a SAM template as CloudFormation would, and lint the result.

    python infra/lint-translated.py template.yaml [--each PARAMETER]...

Does so with the defaults of the parameters, or with each allowed value of those named, and all their combinations.
Linting the SAM template alone misses mistakes that show only after the
translation, such as a !GetAtt of an attribute that the generated resource
does not have. Works offline and without credentials; needs a Python that has
aws-sam-cli and cfn-lint. Exits with 1 and prints the findings if there are any.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from itertools import product
from pathlib import Path

# The translator asks boto3 for the partition, which needs some region.
REGION = os.environ.setdefault("AWS_DEFAULT_REGION", "us-east-1")

import boto3  # noqa: E402
from samcli.yamlhelper import yaml_parse  # noqa: E402
from samtranslator.model.exceptions import InvalidDocumentException  # noqa: E402
from samtranslator.parser.parser import Parser  # noqa: E402
from samtranslator.translator.translator import Translator  # noqa: E402

# Stands for the artifact that `sam package` would have uploaded.
PACKAGED_CODE = "s3://placeholder/code.zip"


def packaged(template: dict) -> dict:
    """Replace every local code path, which only `sam build` understands."""
    global_function = template.get("Globals", {}).get("Function", {})
    functions = [
        resource.get("Properties", {})
        for resource in template["Resources"].values()
        if resource["Type"] == "AWS::Serverless::Function"
    ]
    for properties in [global_function, *functions]:
        if isinstance(properties.get("CodeUri"), str):
            properties["CodeUri"] = PACKAGED_CODE
    return template


def translate(path: Path, values: dict[str, object] | None = None) -> dict:
    """Return the plain CloudFormation template that SAM makes of the one at `path`, with these parameters by default."""
    return translated(packaged(yaml_parse(path.read_text(encoding="utf-8"))), values or {})


def translated(template: dict, values: dict[str, object]) -> dict:
    """Return the plain CloudFormation template that SAM makes of one whose code lies in a bucket."""
    for name, value in values.items():
        template["Parameters"][name]["Default"] = value
    session = boto3.Session(region_name=REGION)
    translator = Translator({}, Parser(), plugins=[], boto_session=session)
    return translator.translate(template, parameter_values=values)


def combinations(path: Path, names: list[str]) -> list[dict[str, object]]:
    """Return the allowed values of these parameters, each with each."""
    parameters = yaml_parse(path.read_text(encoding="utf-8"))["Parameters"]
    for name in names:
        if "AllowedValues" not in parameters.get(name, {}):
            raise SystemExit(f"{path} has no parameter {name} with AllowedValues")
    return [dict(zip(names, values, strict=True)) for values in product(*(parameters[name]["AllowedValues"] for name in names))]


def lint(path: Path, values: dict[str, object], directory: Path) -> str | None:
    """Return what is wrong with the template at these values of parameters, if anything is."""
    try:
        plain = translate(path, values)
    except InvalidDocumentException as error:
        return "\n".join(cause.message for cause in error.causes)
    output = directory / ("-".join(["translated", *map(str, values.values())]) + ".json")
    output.write_text(json.dumps(plain, indent=2), encoding="utf-8")
    # cfn-lint installs beside the interpreter that runs this, and cannot be run with -m.
    linter = Path(sys.executable).with_name("cfn-lint")
    command = [str(linter), "--regions", REGION, "--template", str(output)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    return done.stdout + done.stderr if done.returncode else None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("template", type=Path)
    parser.add_argument("--each", action="append", default=[], metavar="PARAMETER")
    options = parser.parse_args()
    faults = 0
    with tempfile.TemporaryDirectory() as directory:
        for values in combinations(options.template, options.each):
            named = ", ".join(f"{name} {value}" for name, value in values.items()) or "the defaults"
            if wrong := lint(options.template, values, Path(directory)):
                print(f"{options.template}, translated with {named}:\n{wrong}", file=sys.stderr)
                faults += 1
            else:
                print(f"{options.template} is valid once it is translated with {named}", flush=True)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
