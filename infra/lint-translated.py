#!/usr/bin/env python3
"""Translate a SAM template as CloudFormation would, and lint the result.

    python infra/lint-translated.py template.yaml

Linting the SAM template alone misses mistakes that show only after the
translation, such as a !GetAtt of an attribute that the generated resource
does not have. Works offline and without credentials; needs a Python that has
aws-sam-cli and cfn-lint. Exits with 1 and prints the findings if there are any.
"""

import json
import os
import subprocess
import sys
import tempfile
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
        if "CodeUri" in properties:
            properties["CodeUri"] = PACKAGED_CODE
    return template


def translate(path: Path) -> dict:
    """Return the plain CloudFormation template that SAM makes of the one at `path`."""
    template = packaged(yaml_parse(path.read_text(encoding="utf-8")))
    session = boto3.Session(region_name=REGION)
    translator = Translator({}, Parser(), plugins=[], boto_session=session)
    return translator.translate(template, parameter_values={})


def main() -> int:
    if len(sys.argv) != 2:
        print(f"usage: {sys.argv[0]} TEMPLATE", file=sys.stderr)
        return 2
    try:
        translated = translate(Path(sys.argv[1]))
    except InvalidDocumentException as error:
        for cause in error.causes:
            print(cause.message, file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as directory:
        output = Path(directory) / "translated.json"
        output.write_text(json.dumps(translated, indent=2), encoding="utf-8")
        # cfn-lint installs beside the interpreter that runs this, and cannot be run with -m.
        linter = Path(sys.executable).with_name("cfn-lint")
        command = [str(linter), "--regions", REGION, "--template", str(output)]
        return 1 if subprocess.run(command, check=False).returncode else 0


if __name__ == "__main__":
    sys.exit(main())
