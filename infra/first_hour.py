#!/usr/bin/env python3
"""Look at a stack on an account for what only an account can show (docs/FIRST_DEPLOYMENT.md).

    python infra/first_hour.py --stack-name dynashard-prod
    python infra/first_hour.py --before --parameters infra/parameters/prod.yaml

Each check says pass, fail or cannot say, and why. "cannot say" means that nothing was shown: what the check waits for has not
happened yet, or the service did not answer. Nothing is written without --write. Exits with 1 if a check fails.
"""

import argparse
import json
import sys
import urllib.parse
import uuid
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import NamedTuple

import boto3
import tables
import yaml
from botocore.exceptions import BotoCoreError, ClientError

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/FIRST_DEPLOYMENT.md"
PASS, FAIL, CANNOT_SAY = "pass", "fail", "cannot say"
FUNCTIONS = ("WriteFunction", "ReadFunction", "ScaleFunction", "RebalanceFunction")
# The alias of RebalanceFunction by which the changes that begin come.
BEGINNINGS = "beginnings"
# Of the metadata table. One that cannot take a write refuses it to the table.
METADATA_INDEXES = ("active", "decisions")
# Executions that Lambda keeps unreserved ("Configuring reserved concurrency for a function").
UNRESERVED = 100
# Characters of an account's resource policy for logs ("Avoiding CloudWatch Logs resource policy size restrictions").
LOG_POLICY = 5120


class Result(NamedTuple):
    status: str
    why: str


class Stack:
    """A stack, asked for what the checks need."""

    def __init__(self, clients: Callable[[str], object], name: str, parameters: dict[str, object] | None = None) -> None:
        self.client, self.name, self.parameters = clients, name, parameters or {}
        self._names: dict[str, str] = {}

    def physical(self, logical: str) -> str:
        """The name of a resource."""
        if not self._names:
            pages = self.client("cloudformation").get_paginator("list_stack_resources").paginate(StackName=self.name)
            self._names = {each["LogicalResourceId"]: each["PhysicalResourceId"] for page in pages for each in page["StackResourceSummaries"]}
        return self._names[logical]

    def configuration(self, function: str) -> dict:
        return self.client("lambda").get_function_configuration(FunctionName=self.physical(function))

    def table(self, which: str) -> str:
        """The name of a table, which the stack need not have made."""
        return self.configuration("WriteFunction")["Environment"]["Variables"][which]

    def role(self, function: str) -> dict:
        name = self.configuration(function)["Role"].rpartition("/")[2]
        return self.client("iam").get_role(RoleName=name)["Role"]

    def sum_of_a_day(self, namespace: str, metric: str, dimensions: dict[str, str]) -> float | None:
        """The sum of a metric over a day; None if nobody sent it."""
        until = datetime.now(timezone.utc)
        points = self.client("cloudwatch").get_metric_statistics(
            Namespace=namespace, MetricName=metric, StartTime=until - timedelta(days=1), EndTime=until, Period=3600, Statistics=["Sum"],
            Dimensions=[{"Name": name, "Value": value} for name, value in dimensions.items()],
        )["Datapoints"]
        return sum(point["Sum"] for point in points) if points else None

    def invoke(self, function: str, method: str, query: dict[str, str], body: object = None) -> tuple[int, str]:
        event = {
            "version": "2.0", "routeKey": f"{method} /item", "rawPath": "/item", "rawQueryString": urllib.parse.urlencode(query),
            "headers": {"content-type": "application/json"}, "isBase64Encoded": False,
            "requestContext": {
                "http": {"method": method, "path": "/item"}, "requestId": "first-hour", "stage": "$default",
                "timeEpoch": int(datetime.now(timezone.utc).timestamp() * 1000),
            },
        }
        if body is not None:
            event["body"] = json.dumps(body)
        answer = self.client("lambda").invoke(FunctionName=self.physical(function), Payload=json.dumps(event))
        payload = json.load(answer["Payload"])
        if "FunctionError" in answer:
            return 500, json.dumps(payload)[:300]
        return payload["statusCode"], payload.get("body") or ""


def concurrency(stack: Stack) -> Result:
    if not stack.parameters:
        return Result(CANNOT_SAY, "the reservations are in the parameter file, which --parameters names")
    wanted = sum(int(value) for name, value in stack.parameters.items() if name.endswith("ReservedConcurrency"))
    limits = stack.client("lambda").get_account_settings()["AccountLimit"]
    left = limits["UnreservedConcurrentExecutions"]
    why = f"the account has {limits['ConcurrentExecutions']} concurrent executions, {left} unreserved; the parameters reserve {wanted}"
    return Result(PASS if not wanted or left - wanted >= UNRESERVED else FAIL, f"{why}, and {UNRESERVED} must stay")


def log_policies(stack: Stack) -> Result:
    policies = stack.client("logs").describe_resource_policies()["resourcePolicies"]
    size = max((len(policy.get("policyDocument", "")) for policy in policies), default=0)
    return Result(PASS if size < LOG_POLICY * 0.9 else FAIL, f"the longest resource policy for logs has {size} of {LOG_POLICY} characters")


def deployed(stack: Stack) -> Result:
    status = stack.client("cloudformation").describe_stacks(StackName=stack.name)["Stacks"][0]["StackStatus"]
    return Result(PASS if status in ("CREATE_COMPLETE", "UPDATE_COMPLETE") else FAIL, f"the stack is {status}")


def stack_policy(stack: Stack) -> Result:
    body = stack.client("cloudformation").get_stack_policy(StackName=stack.name).get("StackPolicyBody")
    if not body:
        return Result(FAIL, "the stack has no policy: a change of a parameter may replace a table")
    is_same = json.loads(body) == json.loads((ROOT / "infra/stack-policy.json").read_text(encoding="utf-8"))
    return Result(PASS if is_same else FAIL, f"the stack's policy is {'' if is_same else 'not '}that of infra/stack-policy.json")


def protection(stack: Stack) -> Result:
    tables = {stack.table(which) for which in ("MAIN_TABLE", "METADATA_TABLE")}
    described = [stack.client("dynamodb").describe_table(TableName=table)["Table"] for table in sorted(tables)]
    bare = [table["TableName"] for table in described if not table.get("DeletionProtectionEnabled")]
    return Result(FAIL, f"can be deleted: {', '.join(bare)}") if bare else Result(PASS, "both tables are protected against deletion")


def deploy_role(stack: Stack) -> Result:
    resources = stack.client("cloudformation").describe_stack_resources(StackName=f"{stack.name}-deploy-role")["StackResources"]
    name = next(each["PhysicalResourceId"] for each in resources if each["LogicalResourceId"] == "DeployRole")
    used = stack.client("iam").get_role(RoleName=name)["Role"].get("RoleLastUsed", {}).get("LastUsedDate")
    return Result(PASS, f"GitHub took the role at {used}") if used else Result(CANNOT_SAY, "nobody has taken the role yet: run the workflow")


def boundary(stack: Stack) -> Result:
    bare = [function for function in FUNCTIONS if "PermissionsBoundary" not in stack.role(function)]
    if bare:
        return Result(CANNOT_SAY, f"without a boundary: {', '.join(bare)}; a deployment from GitHub needs PermissionsBoundaryArn")
    return Result(PASS, "the four roles have a permissions boundary")


def log_level(stack: Stack) -> Result:
    levels = {function: stack.configuration(function).get("LoggingConfig", {}).get("ApplicationLogLevel") for function in FUNCTIONS}
    if not all(levels.values()):
        return Result(CANNOT_SAY, "Lambda does not say what it filters")
    drops = [f"{function} {level}" for function, level in levels.items() if level in ("WARN", "ERROR", "FATAL")]
    return Result(FAIL if drops else PASS, f"Lambda drops metric lines of {', '.join(drops)}" if drops else "Lambda drops no metric lines")


def metrics(stack: Stack) -> Result:
    function = stack.physical("RebalanceFunction")
    found = stack.client("cloudwatch").list_metrics(Namespace="dynashard", Dimensions=[{"Name": "FunctionName", "Value": function}])["Metrics"]
    if not found:
        return Result(CANNOT_SAY, f"CloudWatch has no dynashard metric of {function} yet")
    return Result(PASS, f"CloudWatch has {len({each['MetricName'] for each in found})} dynashard metrics of {function}")


def alarm_returns(stack: Stack) -> Result:
    alarm = f"{stack.name}-write-throttles"
    client = stack.client("cloudwatch")
    described = client.describe_alarms(AlarmNames=[alarm])["MetricAlarms"]
    if not described:
        return Result(FAIL, f"there is no alarm {alarm}")
    history = client.describe_alarm_history(AlarmName=alarm, HistoryItemType="StateUpdate", MaxRecords=100)["AlarmHistoryItems"]
    # ScaleFunction sets the alarm to OK itself, which shows nothing: CloudWatch's own reason begins like this.
    states = [json.loads(item["HistoryData"]).get("newState", {}) for item in history]
    if any(state.get("stateValue") == "OK" and state.get("stateReason", "").startswith("Threshold Crossed") for state in states):
        return Result(PASS, f"CloudWatch took {alarm} back to OK by itself")
    return Result(CANNOT_SAY, f"{alarm} is {described[0]['StateValue']}, and CloudWatch never took it back to OK by itself: throttle once and wait ten minutes")


def rebalance_throttles(stack: Stack) -> Result:
    refused = stack.sum_of_a_day("AWS/Lambda", "Throttles", {"FunctionName": stack.physical("RebalanceFunction")})
    if refused is None:
        return Result(CANNOT_SAY, "RebalanceFunction was not invoked within a day")
    if refused:
        return Result(FAIL, f"Lambda refused {refused:.0f} invocations of RebalanceFunction within a day: raise RebalanceReservedConcurrency")
    return Result(PASS, "Lambda refused no invocation of RebalanceFunction within a day")


def index_throttles(stack: Stack) -> Result:
    def of_a_day(metric: str, index: str) -> float:
        dimensions = {"TableName": stack.table("METADATA_TABLE"), "GlobalSecondaryIndexName": index}
        return stack.sum_of_a_day("AWS/DynamoDB", metric, dimensions) or 0

    refused = {index: of_a_day("WriteThrottleEvents", index) for index in METADATA_INDEXES}
    if any(refused.values()):
        said = ", ".join(f"{count:.0f} writes to the index {index}" for index, count in refused.items() if count)
        return Result(FAIL, f"DynamoDB refused within a day {said}")
    unused = [index for index in METADATA_INDEXES if not of_a_day("ConsumedWriteCapacityUnits", index)]
    if unused:
        return Result(CANNOT_SAY, f"within a day nothing was written to {' and '.join(unused)}: throttle and reshard a collection")
    return Result(PASS, f"DynamoDB refused within a day no write to the indexes {' and '.join(METADATA_INDEXES)}")


def stream(stack: Stack) -> Result:
    functions, name = stack.client("lambda"), stack.physical("RebalanceFunction")
    # Lambda takes one by each name of the function, so one is of an alias, and lists those of each name.
    names = [name, f"{name}:{BEGINNINGS}"]
    of_function = [each for name in names for each in functions.list_event_source_mappings(FunctionName=name)["EventSourceMappings"]]
    of_function = list({each["UUID"]: each for each in of_function}.values())
    wrong = [f"{each['State']}, {each.get('LastProcessingResult', '')}" for each in of_function if each["State"] != "Enabled"]
    # One for what begins, and one for what moves.
    if wrong or len(of_function) != 2:
        return Result(FAIL, f"RebalanceFunction does not read the stream by two mappings: {'; '.join(wrong) or f'it has {len(of_function)}'}")
    return Result(PASS, "RebalanceFunction reads the stream by two mappings")


def recursion(stack: Stack) -> Result:
    says = stack.client("lambda").get_function_recursion_config(FunctionName=stack.physical("RebalanceFunction"))["RecursiveLoop"]
    if says == "Allow":
        return Result(PASS, "Lambda lets RebalanceFunction call itself by its stream")
    return Result(CANNOT_SAY, f"RecursiveLoop is {says}: today Lambda looks for loops by SQS, SNS and S3, not by DynamoDB's stream")


def insights(stack: Stack) -> Result:
    says = stack.client("dynamodb").describe_contributor_insights(TableName=stack.table("MAIN_TABLE"))
    is_on = says["ContributorInsightsStatus"] == "ENABLED" and says.get("ContributorInsightsRuleList")
    return Result(PASS if is_on else FAIL, f"Contributor Insights is {says['ContributorInsightsStatus']}, in the mode {says.get('ContributorInsightsMode')}")


def functions_may_write(stack: Stack) -> Result:
    """A put, a get and a delete by the functions. Under DenyOtherWriters it shows that aws:PrincipalArn has the role's path."""
    query = {"pk": "first-hour", "sk": "1"}
    status, answer = stack.invoke("WriteFunction", "PUT", query, {"n": 1})
    if status == 403 and "key_not_granted" in answer:
        return Result(CANNOT_SAY, "KeyGrants grants the key first-hour to nobody")
    if status != 200:
        return Result(FAIL, f"WriteFunction answers {status} to a put: {answer[:300]}")
    read, _ = stack.invoke("ReadFunction", "GET", query | {"consistent": "true"})
    removed, _ = stack.invoke("WriteFunction", "DELETE", query)
    is_right = read == 200 and removed in (200, 204)
    return Result(PASS if is_right else FAIL, f"a put, a get and a delete by the functions: {status}, {read}, {removed}")


def others_may_not_write(stack: Stack) -> Result:
    """Deletes an item that does not exist, as the caller."""
    table = stack.table("MAIN_TABLE")
    variables = stack.configuration("WriteFunction")["Environment"]["Variables"]
    kind = variables["SORT_KEY_TYPE"]
    key = {
        variables["PARTITION_KEY_NAME"]: {"S": f"first-hour-{uuid.uuid4()}"}, variables["SORT_KEY_NAME"]: {kind: "1"},
    }
    try:
        stack.client("dynamodb").delete_item(TableName=table, Key=key)
    except ClientError as refused:
        if refused.response["Error"]["Code"] != "AccessDeniedException":
            raise
        return Result(PASS, "DynamoDB denies the caller a write")
    return Result(CANNOT_SAY, "DynamoDB takes a write of the caller: right if DenyOtherWriters is off, or the caller is an operator")


class Check(NamedTuple):
    name: str
    run: Callable[[Stack], Result]
    # Whether it looks at the account alone, and whether it writes.
    before: bool = False
    writes: bool = False
    # For the page: what nobody knows, what to run first, and how to read the answer, in Markdown.
    unknown: str = ""
    first: str = ""
    reading: str = ""


CHECKS = [
    Check(
        "concurrency",
        concurrency,
        before=True,
        unknown="whether the account can give the reservations of `prod`",
        first="`--before --parameters infra/parameters/prod.yaml`",
        reading="fail: ask for more concurrent executions, or take the reservations out",
    ),
    Check(
        "log-policies",
        log_policies,
        before=True,
        unknown="whether the API's log group fits into the account's policy for log delivery",
        first="`--before`",
        reading="fail: the stage's access log is refused; remove old policies",
    ),
    Check(
        "deployed",
        deployed,
        unknown="whether a new account takes the template: its routes one after another, first",
        first="`sam deploy` of the [first deployment](DEPLOYING.md#the-first-deployment)",
        reading="fail with \"concurrent modification\" in the events: deploy again, and say so in an issue",
    ),
    Check(
        "stack-policy",
        stack_policy,
        first="`set-stack-policy`, as on that page",
        reading="fail: a change of a parameter may replace a table",
    ),
    Check(
        "protection",
        protection,
        unknown="whether protection comes on after the creation",
        first="the second `sam deploy`",
        reading="fail: the tables can be deleted",
    ),
    Check(
        "deploy-role",
        deploy_role,
        unknown="the subject of GitHub's tokens",
        first="the workflow, from a new repository",
        reading="cannot say after \"Not authorized to perform sts:AssumeRoleWithWebIdentity\": compare `sub` in CloudTrail's event with the role's trust, and try `SubjectFormat`",
    ),
    Check(
        "boundary",
        boundary,
        unknown="whether CloudFormation puts the boundary on before the policy",
        first="the workflow, on a stack that got it by hand",
        reading="`AccessDenied: iam:PutRolePolicy` in the events: the order is the other one",
    ),
    Check(
        "log-level",
        log_level,
        unknown="whether Lambda drops metric lines",
        first="any deployment",
        reading="fail: no alarm on `dynashard` metrics can be raised",
    ),
    Check(
        "metrics",
        metrics,
        unknown="whether what passes Lambda's filter becomes a metric",
        first="a deployment with `LogLevel=ERROR`, then two minutes",
        reading="cannot say after that: metrics are lost",
    ),
    Check(
        "alarm-returns",
        alarm_returns,
        unknown="what a DynamoDB alarm does when its data ends",
        first="a load that throttles one key for a minute, then ten minutes of rest",
        reading="cannot say after that, with the alarm in ALARM: it sticks, and the next throttle of another key raises nothing",
    ),
    Check(
        "rebalance-throttles",
        rebalance_throttles,
        unknown="whether `RebalanceReservedConcurrency` is enough",
        first="a reshard to 32 shards with `prod.yaml`",
        reading="fail: raise it; relief waits behind movers",
    ),
    Check(
        "index-throttles",
        index_throttles,
        unknown="what the indexes of the metadata table take",
        first="`OnDemandThroughput` of 100 write units on the main table, and writes to 10,000 keys",
        reading="fail: notes of throttles fill one partition",
    ),
    Check(
        "stream",
        stream,
        unknown="whether the mappings come up",
        first="any deployment",
        reading="fail: reshards wait for the schedule",
    ),
    Check(
        "recursion",
        recursion,
        unknown="whether Lambda takes the stream for a loop",
        first="a reshard",
        reading="cannot say: watch for \"recursive\" in AWS Health",
    ),
    Check(
        "insights",
        insights,
        unknown="whether CloudFormation turns on the mode THROTTLED_KEYS",
        first="any deployment",
        reading="fail: alarms name no keys",
    ),
    Check(
        "functions-may-write",
        functions_may_write,
        writes=True,
        unknown="whether `aws:PrincipalArn` of a function has the path of its role",
        first="`--write`, with `DenyOtherWriters` `on`",
        reading="fail: the policy denies the functions. Turn it `off`, and say so in an issue",
    ),
    Check(
        "others-may-not-write",
        others_may_not_write,
        writes=True,
        unknown="whether the policy keeps the caller out",
        first="`--write`, as somebody whom `OperatorRoleArns` does not name",
        reading="cannot say: the caller may write",
    ),
]


def results(stack: Stack, *, before: bool, write: bool) -> dict[str, Result]:
    """What each check says. One that cannot be carried out says nothing about the stack, and the others go on."""
    said: dict[str, Result] = {}
    for check in CHECKS:
        if before and not check.before:
            continue
        if check.writes and not write:
            said[check.name] = Result(CANNOT_SAY, "not carried out: it writes, and --write was not given")
            continue
        try:
            said[check.name] = check.run(stack)
        except (ClientError, BotoCoreError, KeyError, StopIteration, ValueError) as error:
            said[check.name] = Result(CANNOT_SAY, f"not carried out: {type(error).__name__}: {error}")
    return said


def page_rows() -> list[tuple[str, ...]]:
    """Return the table of the page."""
    head = ("Check", "What is not known", "Run first", "How to read it")
    return [head, *((f"`{check.name}`", check.unknown, check.first, check.reading) for check in CHECKS)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stack-name", default="", help="the stack of template.yaml")
    parser.add_argument("--before", action="store_true", help="look at the account alone, before there is a stack")
    parser.add_argument("--parameters", type=Path, help="the parameter file that the stack gets, such as infra/parameters/prod.yaml")
    parser.add_argument("--write", action="store_true", help="carry out the checks that write, too: to the key first-hour")
    parser.add_argument("--region")
    parser.add_argument("--profile")
    parser.add_argument("--endpoint-url")
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    parser.add_argument("--write-table", action="store_true", help=f"write the table of {PAGE.relative_to(ROOT)}, and look at nothing")
    options = parser.parse_args()
    if options.write_table:
        tables.write(PAGE, "infra/first_hour.py", page_rows())
        return 0
    if not options.before and not options.stack_name:
        parser.error("name the stack with --stack-name, or give --before")
    session = boto3.Session(profile_name=options.profile, region_name=options.region)
    parameters = yaml.safe_load(options.parameters.read_text(encoding="utf-8")) if options.parameters else {}
    stack = Stack(lambda service: session.client(service, endpoint_url=options.endpoint_url), options.stack_name, parameters)
    said = results(stack, before=options.before, write=options.write)
    if options.json:
        print(json.dumps({name: result._asdict() for name, result in said.items()}, indent=2))
    else:
        for name, result in said.items():
            print(f"{result.status:<10}  {name:<20}  {result.why}")
    return int(any(result.status == FAIL for result in said.values()))


if __name__ == "__main__":
    sys.exit(main())
