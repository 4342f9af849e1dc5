"""What must hold between the templates, their parameter files, and the pages about them.

    python -m unittest discover --start-directory infra

Needs a Python that has aws-sam-cli and cfn-lint.
"""

import importlib
import itertools
import json
import re
import sys
import tomllib
import unittest
from fnmatch import fnmatchcase
from pathlib import Path

from cfnlint.schema import PROVIDER_SCHEMA_MANAGER
from samcli.cli.types import CfnParameterOverridesType
from samcli.yamlhelper import yaml_parse

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "infra"))

import restore  # noqa: E402

# The outputs of the application that name its functions.
FUNCTIONS = {f"{function}FunctionName" for function in ("Write", "Read", "Scale", "Rebalance")}

# What AWS measures, for each namespace: the dimension, the outputs that name what is measured, and the metrics that are watched
# here. The lists are in "DynamoDB metrics and dimensions", "Types of metrics for Lambda functions", "Monitor CloudWatch metrics
# for HTTP APIs" and "Available CloudWatch metrics for Amazon SQS" of the services' guides.
AWS_METRICS = {
    "AWS/DynamoDB": (
        "TableName",
        {"MainTableName", "MetadataTableName"},
        {f"Consumed{use}CapacityUnits" for use in ("Read", "Write")}
        | {f"Provisioned{use}CapacityUnits" for use in ("Read", "Write")}
        | {f"{use}ThrottleEvents" for use in ("Read", "Write")}
        | {
            f"{use}{limit}ThrottleEvents"
            for use in ("Read", "Write")
            for limit in ("KeyRangeThroughput", "ProvisionedThroughput", "AccountLimit", "MaxOnDemandThroughput")
        },
    ),
    "AWS/Lambda": ("FunctionName", FUNCTIONS, {"Invocations", "Errors", "Throttles", "Duration", "IteratorAge"}),
    "AWS/ApiGateway": ("ApiId", {"HttpApiId"}, {"Count", "4xx", "5xx", "Latency", "IntegrationLatency"}),
    "AWS/SQS": ("QueueName", {"RebalanceFailuresName"}, {"ApproximateNumberOfMessagesVisible"}),
}

# Resources that cannot have tags: parts of others, which have.
WITHOUT_TAGS = {
    "AWS::ApiGatewayV2::Authorizer": "a part of the API",
    "AWS::ApiGatewayV2::Integration": "a part of the API",
    "AWS::ApiGatewayV2::Route": "a part of the API",
    "AWS::ApplicationAutoScaling::ScalingPolicy": "a part of the scalable target",
    "AWS::IAM::ManagedPolicy": "CloudFormation sets no tags on policies",
    "AWS::IAM::RolePolicy": "a part of the role",
    "AWS::Lambda::Alias": "a name of the function",
    "AWS::Lambda::EventInvokeConfig": "a part of the function",
    "AWS::Lambda::Permission": "a statement of the function's policy",
    "AWS::Scheduler::Schedule": "only groups of schedules have tags",
    "AWS::SNS::Subscription": "a part of the topic",
    "AWS::SNS::TopicPolicy": "a part of the topic",
}


def read(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def load(path: str) -> dict:
    return yaml_parse(read(path))


APPLICATION = load("template.yaml")
OBSERVABILITY = load("infra/observability.yaml")
DEPLOY_ROLE = load("infra/deploy-role.yaml")
ENDPOINT = load("infra/endpoint.yaml")
ROTATION = load("infra/rotation.yaml")
TEMPLATES = {
    "template.yaml": APPLICATION,
    "infra/observability.yaml": OBSERVABILITY,
    "infra/deploy-role.yaml": DEPLOY_ROLE,
    "infra/endpoint.yaml": ENDPOINT,
    "infra/rotation.yaml": ROTATION,
}


def environments() -> dict[str, dict[str, str]]:
    """Return the parameters of each environment of samconfig.toml, as the SAM command reads them."""
    config = tomllib.loads(read("samconfig.toml"))
    overrides = {
        name: section["global"]["parameters"].get("parameter_overrides", [])
        for name, section in config.items()
        if isinstance(section, dict)
    }
    # The command takes paths from where it runs, which is the root.
    absolute = {name: [file.replace("file://", f"file://{ROOT}/") for file in files] for name, files in overrides.items()}
    return {name: CfnParameterOverridesType().convert(files, None, None) for name, files in absolute.items()}


def problem_with(parameter: dict, value: str) -> str | None:
    """Return which constraint of a template's parameter a value breaks, if any."""
    if "AllowedValues" in parameter and value not in map(str, parameter["AllowedValues"]):
        return "AllowedValues"
    if "AllowedPattern" in parameter and not re.fullmatch(parameter["AllowedPattern"], value):
        return "AllowedPattern"
    if parameter["Type"] == "Number":
        if not float(parameter.get("MinValue", "-inf")) <= float(value) <= float(parameter.get("MaxValue", "inf")):
            return "MinValue or MaxValue"
    return None


def evaluate(node, values: dict[str, str]):
    """Return what a condition or an operand of a rule comes to."""
    if not isinstance(node, dict):
        return str(node)
    ((function, operand),) = node.items()
    if function == "Ref":
        return values[operand]
    if function == "Condition":
        return evaluate(values[operand], values)
    if function == "Fn::Join":
        separator, parts = operand
        return separator.join(parts) if isinstance(parts, list) else str(evaluate(parts, values))
    if function == "Fn::Contains":
        members, value = operand
        return evaluate(value, values) in [evaluate(member, values) for member in members]
    operands = [evaluate(each, values) for each in operand]
    if function == "Fn::Equals":
        return operands[0] == operands[1]
    if function == "Fn::Not":
        return not operands[0]
    if function == "Fn::And":
        return all(operands)
    if function == "Fn::Or":
        return any(operands)
    raise ValueError(f"rules cannot be checked that use {function}")


def refusals(template: dict, overrides: dict[str, str]) -> list[str]:
    """Return what CloudFormation would say to these parameters before it makes anything."""
    values = {name: str(parameter.get("Default", "")) for name, parameter in template["Parameters"].items()} | overrides
    return [
        assertion["AssertDescription"]
        for rule in template.get("Rules", {}).values()
        if "RuleCondition" not in rule or evaluate(rule["RuleCondition"], values)
        for assertion in rule["Assertions"]
        if not evaluate(assertion["Assert"], values)
    ]


class Parameters(unittest.TestCase):
    def test_each_is_in_one_group_of_the_console(self):
        for path, template in TEMPLATES.items():
            interface = template.get("Metadata", {}).get("AWS::CloudFormation::Interface")
            if interface:
                listed = [name for group in interface["ParameterGroups"] for name in group["Parameters"]]
                self.assertEqual(sorted(listed), sorted(template["Parameters"]), path)

    def test_each_says_what_it_does(self):
        for path, template in TEMPLATES.items():
            for name, parameter in template["Parameters"].items():
                self.assertTrue(parameter.get("Description", "").endswith("."), f"{path}: {name}")

    def test_each_environment_names_parameters_and_values_that_the_template_takes(self):
        self.assertEqual(set(environments()), {"default", "dev", "prod"})
        for environment, overrides in environments().items():
            for name, value in overrides.items():
                self.assertIn(name, APPLICATION["Parameters"], environment)
                self.assertIsNone(problem_with(APPLICATION["Parameters"][name], value), f"{environment}: {name}={value}")
            self.assertEqual(refusals(APPLICATION, overrides), [], environment)
        self.assertEqual(refusals(OBSERVABILITY, {}), [])

    def test_regression_the_one_environment_that_was_reserved_for_alarms_was_the_most_that_they_got(self):
        """A request that makes a collection holds one for seconds, and events of alarms wait for a minute at most."""
        self.assertGreaterEqual(int(environments()["prod"]["ScaleReservedConcurrency"]), 5)
        self.assertIn(f"ScaleReservedConcurrency={environments()['prod']['ScaleReservedConcurrency']}", read("docs/DEPLOYING.md"))

    def test_the_readme_names_the_lease_that_is_the_default(self):
        self.assertIn(f"(kept for {APPLICATION['Parameters']['LeaseSecs']['Default']} s)", read("README.md"))

    def test_each_environment_tags_its_resources(self):
        config = tomllib.loads(read("samconfig.toml"))
        for environment in environments():
            self.assertIn("application=dynashard", config[environment]["deploy"]["parameters"]["tags"])

    def test_combinations_that_are_wrong_fail_with_the_name_of_the_parameter(self):
        operator = "arn:aws:iam::123456789012:role/Operator"
        topic = "arn:aws:sns:eu-west-1:123456789012:alarms"
        stream = "arn:aws:dynamodb:eu-west-1:123456789012:table/Orders-metadata/stream/2026-11-20T09:30:00.000"
        cases = [
            (APPLICATION, {"RequestLifetimeSecs": "360"}, "RequestLifetimeVerified"),
            (APPLICATION, {"CapacityScaling": "function"}, "CapacityScaling"),
            (APPLICATION, {"ExistingMainTable": "Orders", "BillingMode": "PROVISIONED"}, "BillingMode"),
            (APPLICATION, {"ReadReplicas": "1", "BillingMode": "PROVISIONED"}, "ReadReplicas"),
            (APPLICATION, {"ExistingMainTable": "Orders", "DenyOtherWriters": "on"}, "DenyOtherWriters"),
            (APPLICATION, {"ExistingMetadataTable": "Orders-metadata", "ExistingMetadataStreamArn": stream, "DenyOtherWriters": "on"}, "DenyOtherWriters"),
            (APPLICATION, {"ExistingMetadataTable": "Orders-metadata"}, "ExistingMetadataStreamArn"),
            (APPLICATION, {"ExistingMetadataStreamArn": stream}, "ExistingMetadataTable"),
            (APPLICATION, {"OperatorRoleArns": operator}, "OperatorRoleArns"),
            (APPLICATION, {"DynamoDbEndpoint": "http://127.0.0.1:8000"}, "DynamoDbEndpoint"),
            (APPLICATION, {"AuthMode": "jwt", "JwtAudience": "orders"}, "JwtIssuer"),
            (APPLICATION, {"AuthMode": "jwt", "JwtIssuer": "https://example.com"}, "JwtAudience"),
            (APPLICATION, {"JwtIssuer": "https://example.com"}, "JwtIssuer"),
            (APPLICATION, {"JwtAudience": "orders"}, "JwtAudience"),
            (APPLICATION, {"AuthMode": "none", "KeyGrants": "*=shared/*"}, "KeyGrants"),
            (APPLICATION, {"ApiRateLimit": "100"}, "ApiBurstLimit"),
            (APPLICATION, {"WarmWriteUnits": "16000"}, "WarmReadUnits"),
            (APPLICATION, {"FirstIndexName": "by-country", "FirstIndexPartitionKey": "country", "WriteShardedIndexes": "first"}, "IndexShards"),
            (APPLICATION, {"WriteShardedIndexes": "both", "IndexShards": "4", "FirstIndexName": "by-country", "FirstIndexPartitionKey": "country"}, "SecondIndexName"),
            (APPLICATION, {"MetadataWarmReadUnits": "24000"}, "MetadataWarmWriteUnits"),
            (OBSERVABILITY, {"TopicArn": topic, "NotificationEmail": "a@example.com"}, "NotificationEmail"),
            (OBSERVABILITY, {"TopicArn": topic, "TopicKeyArn": "arn:aws:kms:eu-west-1:123456789012:key/1a-2b"}, "TopicKeyArn"),
            (DEPLOY_ROLE, {"RepositoryId": "7"}, "RepositoryOwnerId"),
            (DEPLOY_ROLE, {"RepositoryOwnerId": "5"}, "RepositoryId"),
        ]
        for template, overrides, named in cases:
            with self.subTest(**overrides):
                refused = refusals(template, overrides)
                self.assertEqual(len(refused), 1, refused)
                self.assertIn(named, refused[0])
                for name, value in overrides.items():
                    self.assertIsNone(problem_with(template["Parameters"][name], value), "a rule has to refuse it")
        with_operator = {"OperatorRoleArns": operator, "DenyOtherWriters": "on"}
        self.assertEqual(refusals(APPLICATION, with_operator), [])

    def test_texts_that_are_wrong_are_refused(self):
        for name, right, wrong in [
            (
                "EncryptionKey",
                ["aws-owned", "arn:aws:kms:eu-west-1:123456789012:key/mrk-1234abcd", "arn:aws-cn:kms:cn-north-1:123456789012:key/a-b"],
                ["", "alias/aws/dynamodb", "arn:aws:kms:eu-west-1:123456789012:alias/a", "1234abcd-12ab"],
            ),
            (
                "OperatorRoleArns",
                ["", "arn:aws:iam::123456789012:role/a/b,arn:aws:iam::123456789012:role/c"],
                [",", "arn:aws:iam::123456789012:user/a", "arn:aws:iam::123456789012:role/a,", "arn:aws:iam::1:role/a"],
            ),
            (
                "DynamoDbEndpoint",
                ["", "http://172.18.0.1:8000", "https://vpce-1.dynamodb.eu-west-1.vpce.amazonaws.com"],
                ["172.18.0.1:8000", "ftp://a", "http://", "http://a/b"],
            ),
        ]:
            parameter = APPLICATION["Parameters"][name]
            for value in right:
                self.assertIsNone(problem_with(parameter, value), value)
            for value in wrong:
                self.assertIsNotNone(problem_with(parameter, value), value)


def resolve(node, values: dict[str, str]):
    """Return what a property comes to, where `values` hold parameters, pseudo parameters and conditions."""
    if isinstance(node, list):
        return [resolve(each, values) for each in node]
    if not isinstance(node, dict):
        return node
    if node.keys() == {"Fn::If"}:
        condition, then, otherwise = node["Fn::If"]
        return resolve(then if values[condition] else otherwise, values)
    if node.keys() == {"Ref"}:
        return values[node["Ref"]]
    if node.keys() == {"Fn::GetAtt"}:
        return values[".".join(node["Fn::GetAtt"])]
    if node.keys() == {"Fn::Sub"}:
        text, own = (node["Fn::Sub"], {}) if isinstance(node["Fn::Sub"], str) else node["Fn::Sub"]
        known = values | resolve(own, values)
        return re.sub(r"\$\{([\w:.]+)\}", lambda name: known[name[1]], text)
    if node.keys() == {"Fn::Select"}:
        index, of = node["Fn::Select"]
        return resolve(of, values)[index]
    if node.keys() == {"Fn::Join"}:
        separator, parts = node["Fn::Join"]
        return separator.join(resolve(parts, values))
    if node.keys() == {"Fn::Split"}:
        delimiter, text = node["Fn::Split"]
        return resolve(text, values).split(delimiter)
    return {name: resolve(each, values) for name, each in node.items()}


class Writers(unittest.TestCase):
    """The resource policies of the tables."""

    OPERATORS = ["arn:aws:iam::123456789012:role/Operator", "arn:aws:iam::123456789012:role/aws-reserved/sso.amazonaws.com/*/Admin_*"]

    ENDPOINTS = ["arn:aws:iam::123456789012:role/app/Orders"]

    def statements(self, operators: list[str], endpoints: list[str]):
        values = {
            "AWS::Partition": "aws",
            "AWS::AccountId": "123456789012",
            "AWS::StackName": "shop",
            "OtherWritersAreDenied": True,
            "OperatorsAreNamed": bool(operators),
            "OperatorRoleArns": ",".join(operators),
            "EndpointsAreNamed": bool(endpoints),
            "EndpointRoleArns": ",".join(endpoints),
        }
        for table in ("MainTable", "MetadataTable"):
            policy = resolve(APPLICATION["Resources"][table]["Properties"]["ResourcePolicy"], values)
            (statement,) = policy["PolicyDocument"]["Statement"]
            yield values, statement

    def is_denied(self, statement: dict, principal: str, is_service: bool = False) -> bool:
        """Return what IAM makes of the statement: its conditions must all hold."""
        condition = statement["Condition"]
        self.assertEqual((statement["Effect"], statement["Principal"], statement["Resource"]), ("Deny", "*", "*"))
        self.assertEqual(condition.keys(), {"ArnNotLike", "Bool"})
        is_exempt = any(fnmatchcase(principal, pattern) for pattern in condition["ArnNotLike"]["aws:PrincipalArn"])
        self.assertEqual(condition["Bool"], {"aws:PrincipalIsAWSService": "false"})
        return not is_exempt and not is_service

    def test_the_functions_and_those_who_are_named_may_write_and_nobody_else(self):
        for operators, endpoints in itertools.product(([], self.OPERATORS), ([], self.ENDPOINTS)):
            for values, statement in self.statements(operators, endpoints):
                roles = [name for name, resource in APPLICATION["Resources"].items() if resource["Type"] == "AWS::IAM::Role"]
                self.assertEqual(len(roles), 4)
                for role in roles:
                    path = resolve(APPLICATION["Resources"][role]["Properties"]["Path"], values)
                    self.assertFalse(self.is_denied(statement, f"arn:aws:iam::123456789012:role{path}shop-{role}-1A2B"), role)
                for operator in ("Operator", "aws-reserved/sso.amazonaws.com/eu-west-1/Admin_1a2b"):
                    denied = self.is_denied(statement, f"arn:aws:iam::123456789012:role/{operator}")
                    self.assertEqual(denied, not operators, operator)
                self.assertEqual(self.is_denied(statement, "arn:aws:iam::123456789012:role/app/Orders"), not endpoints)
                for other in (
                    "123456789012:role/Operators",
                    "123456789012:role/dynashard/shop-2/shop-2-WriteRole-1A2B",
                    "123456789012:role/dynashard/WriteRole",
                    "123456789012:user/dynashard/shop/WriteRole",
                    "210987654321:role/dynashard/shop/WriteRole",
                    "123456789012:root",
                ):
                    self.assertTrue(self.is_denied(statement, f"arn:aws:iam::{other}"), other)
                self.assertFalse(self.is_denied(statement, "", is_service=True), "items go on expiring")


class Variables(unittest.TestCase):
    # "Lambda quotas": all environment variables of a function together.
    MOST_BYTES = 4096
    # The longest names that there are: of a stack, and of what CloudFormation makes in it (a table and its suffix).
    STACK_NAME = "s" * 128
    MADE_NAME = f"{STACK_NAME}-MetadataTable-1A2B3C4D5E6F"

    def longest(self, name: str) -> str:
        """Return a value of a parameter that is as long as the template lets it be."""
        parameter = APPLICATION["Parameters"][name]
        if name == "DynamoDbEndpoint":
            # A rule holds it empty on AWS.
            return ""
        if "AllowedValues" in parameter:
            return max(map(str, parameter["AllowedValues"]), key=len)
        if parameter["Type"] == "Number":
            return str(parameter.get("MaxValue", 2**63))
        if "MaxLength" in parameter:
            return "x" * int(parameter["MaxLength"])
        # A pattern without a wildcard says how long its text is: a first character, and up to so many more.
        pattern = parameter["AllowedPattern"]
        self.assertNotRegex(pattern, r"[*+](?!\))", f"{name} has no MaxLength")
        first = 1 if pattern.startswith(("^[A-Za-z][", "^([A-Za-z][")) else 0
        return "x" * (first + int(re.search(r",(\d+)\}", pattern)[1]))

    def length(self, value) -> int:
        if isinstance(value, list):
            return max(map(self.length, value))
        if not isinstance(value, dict):
            return len(str(value))
        ((function, operand),) = value.items()
        if function == "Fn::If":
            return self.length(operand[1:])
        if function == "Ref" and operand in APPLICATION["Parameters"]:
            return len(self.longest(operand))
        if function == "Ref":
            # The id of a stack is an ARN with its name, and a UUID.
            return len(self.MADE_NAME) if operand != "AWS::StackId" else len(self.STACK_NAME) + 110
        self.assertEqual(function, "Fn::Sub")
        return len(operand.replace("${AWS::StackName}", self.STACK_NAME))

    def test_those_of_a_function_fit_whatever_the_parameters_are(self):
        shared = APPLICATION["Globals"]["Function"]["Environment"]["Variables"]
        for name, resource in APPLICATION["Resources"].items():
            if resource["Type"] == "AWS::Serverless::Function":
                own = resource["Properties"].get("Environment", {}).get("Variables", {})
                # Lambda measures them as JSON: "name":"value", in braces.
                taken = 1 + sum(len(variable) + self.length(value) + 6 for variable, value in (shared | own).items())
                self.assertLessEqual(taken, self.MOST_BYTES, name)


class HttpApi(unittest.TestCase):
    def test_no_two_parts_of_the_api_are_made_at_the_same_time(self):
        """API Gateway refuses changes of one API side by side: "Unable to complete operation due to concurrent modification"."""
        resources = APPLICATION["Resources"]
        parts = [name for name, resource in resources.items() if "ApiId" in resource.get("Properties", {})]
        self.assertEqual(parts[-1], "HttpApiStage", "it deploys what is there")

        def waits_for(name: str) -> set[str]:
            """Return the parts that are made before this one. A conditional part may be missing, so nothing relies on one."""
            text = json.dumps(resources[name])
            before = {part for part in parts if f'"{part}"' in text or f"${{{part}}}" in text} - {name}
            always = {part for part in before if "Condition" not in resources[part]}
            return before.union(*(waits_for(part) for part in always))

        for name in parts:
            for other in parts:
                self.assertTrue(name == other or name in waits_for(other) or other in waits_for(name), f"{name} and {other}")

    def test_the_log_names_callers_where_the_operator_wants_it(self):
        settings = APPLICATION["Resources"]["HttpApiStage"]["Properties"]["AccessLogSettings"]
        names = {"ApiLogsRequests": True, "ApiLogGroup.Arn": "arn:aws:logs:eu-west-1:123456789012:log-group:logs"}
        members = {}
        for is_named in (False, True):
            values = names | {"ApiLogsCallers": is_named}
            members[is_named] = set(json.loads(resolve(settings, values)["Format"]))
        self.assertEqual(members[True] - members[False], {"sourceIp", "userArn", "sub"})
        self.assertNotIn("sourceIp", members[False])


def as_list(value) -> list:
    return value if isinstance(value, list) else [value]


class DeployRole(unittest.TestCase):
    """What GitHub's workflow, and CloudFormation for it, may do."""

    VALUES = {
        "AWS::Partition": "aws", "AWS::AccountId": "123456789012", "AWS::Region": "eu-west-1", "AWS::URLSuffix": "amazonaws.com",
        "AWS::NoValue": None, "ApplicationStackName": "shop", "Repository": "example/flights", "RepositoryOwnerId": "5",
        "RepositoryId": "7", "Environment": "prod", "ProviderIsNew": False, "ProviderArn": "arn:aws:iam::123456789012:oidc-provider/x",
        "SubjectHasNumbers": True, "OtherTablesAreNamed": True,
        "OtherTableArns": ["arn:aws:dynamodb:eu-west-1:123456789012:table/Orders"],
        "Boundary": "arn:aws:iam::123456789012:policy/boundary", "ExecutionRole.Arn": "arn:aws:iam::123456789012:role/execution",
    }

    def statements(self, role: str) -> list[dict]:
        (policy,) = resolve(DEPLOY_ROLE["Resources"][role]["Properties"]["Policies"], self.VALUES)
        return policy["PolicyDocument"]["Statement"]

    def boundary(self) -> list[dict]:
        return resolve(DEPLOY_ROLE["Resources"]["Boundary"]["Properties"]["PolicyDocument"]["Statement"], self.VALUES)

    @staticmethod
    def allowed(statements: list[dict], action: str, resource: str, context: dict[str, str] | None = None) -> bool:
        """Return what IAM makes of a request: a deny outweighs every allow, and all conditions must hold."""
        verdict = False
        for statement in statements:
            conditions = [
                (context or {}).get(key) in as_list(values)
                for kind in ("StringEquals", "Bool")
                for key, values in statement.get("Condition", {}).get(kind, {}).items()
            ]
            if (
                any(fnmatchcase(action, pattern) for pattern in as_list(statement["Action"]))
                and any(fnmatchcase(resource, pattern) for pattern in as_list(statement["Resource"]))
                and all(conditions)
            ):
                if statement["Effect"] == "Deny":
                    return False
                verdict = True
        return verdict

    def trusts(self, subject: str, *, ids: bool) -> bool:
        document = resolve(
            DEPLOY_ROLE["Resources"]["DeployRole"]["Properties"]["AssumeRolePolicyDocument"], self.VALUES | {"SubjectHasNumbers": ids}
        )
        (statement,) = document["Statement"]
        claims = {"aud": "sts.amazonaws.com", "sub": subject}
        wanted = statement["Condition"]["StringEquals"]
        return all(claims[name.rpartition(":")[2]] == value for name, value in wanted.items()) and len(wanted) == 2

    def test_regression_the_role_could_not_be_assumed_from_a_repository_made_since_july_2026(self):
        with_numbers, with_names = "repo:example@5/flights@7:environment:prod", "repo:example/flights:environment:prod"
        self.assertTrue(self.trusts(with_numbers, ids=True))
        self.assertFalse(self.trusts(with_names, ids=True), "whoever takes over an abandoned name")
        self.assertTrue(self.trusts(with_names, ids=False))
        self.assertFalse(self.trusts(with_numbers, ids=False))
        for other in (
            "repo:example@6/flights@7:environment:prod",
            "repo:example@5/flights@8:environment:prod",
            "repo:example@5/flights@7:environment:dev",
            "repo:example@5/flights@7:ref:refs/heads/main",
        ):
            self.assertFalse(self.trusts(other, ids=True), other)
        self.assertEqual(DEPLOY_ROLE["Parameters"]["SubjectFormat"]["Default"], "ids")

    def test_regression_the_workflow_administered_every_key_of_the_region(self):
        key = "arn:aws:kms:eu-west-1:123456789012:key/1a2b"
        asked = {action for statement in self.statements("ExecutionRole") for action in as_list(statement["Action"])}
        for action in ("CreateKey", "PutKeyPolicy", "ScheduleKeyDeletion", "DisableKey", "TagResource"):
            self.assertFalse(any(fnmatchcase(f"kms:{action}", pattern) for pattern in asked), action)
        dynamodb = {"kms:ViaService": "dynamodb.eu-west-1.amazonaws.com"}
        for action, context, is_allowed in [
            ("kms:CreateGrant", dynamodb | {"kms:GrantIsForAWSResource": "true"}, True),
            ("kms:CreateGrant", dynamodb | {"kms:GrantIsForAWSResource": "false"}, False),
            ("kms:CreateGrant", {"kms:GrantIsForAWSResource": "true"}, False),
            ("kms:Decrypt", dynamodb, True),
            ("kms:Decrypt", {}, False),
        ]:
            self.assertEqual(self.allowed(self.statements("ExecutionRole"), action, key, context), is_allowed, (action, context))

    def test_regression_cloudformation_could_not_expand_the_template_or_have_the_capacity_scaled(self):
        for action, resource in [
            ("cloudformation:CreateChangeSet", "arn:aws:cloudformation:eu-west-1:aws:transform/Serverless-2016-10-31"),
            ("cloudwatch:PutMetricAlarm", "arn:aws:cloudwatch:eu-west-1:123456789012:alarm:TargetTracking-table/Orders-1A2B"),
        ]:
            self.assertTrue(self.allowed(self.statements("ExecutionRole"), action, resource), action)
        capacity = resolve(DEPLOY_ROLE["Resources"]["CapacityOfOtherTables"]["Properties"]["PolicyDocument"]["Statement"], self.VALUES)
        self.assertTrue(self.allowed(capacity, "dynamodb:UpdateTable", self.VALUES["OtherTableArns"][0]))

    def test_regression_the_workflow_made_roles_that_could_do_anything(self):
        role = "arn:aws:iam::123456789012:role/dynashard/shop/shop-WriteRole-1A2B"
        for action in ("iam:CreateRole", "iam:PutRolePolicy", "iam:PutRolePermissionsBoundary"):
            for boundary, is_allowed in [("", False), ("arn:aws:iam::aws:policy/AdministratorAccess", False), (self.VALUES["Boundary"], True)]:
                context = {"iam:PermissionsBoundary": boundary}
                self.assertEqual(self.allowed(self.statements("ExecutionRole"), action, role, context), is_allowed, (action, boundary))
        self.assertFalse(self.allowed(self.statements("ExecutionRole"), "iam:DeleteRolePermissionsBoundary", role))
        for action in ("iam:CreatePolicyVersion", "iam:AttachRolePolicy"):
            self.assertFalse(self.allowed(self.statements("ExecutionRole"), action, role), action)
        for action, resource in [
            ("iam:CreateUser", "arn:aws:iam::123456789012:user/a"),
            ("dynamodb:GetItem", "arn:aws:dynamodb:eu-west-1:123456789012:table/Other"),
            ("dynamodb:DeleteTable", "arn:aws:dynamodb:eu-west-1:123456789012:table/shop-MainTable-1A2B"),
            ("s3:GetObject", "arn:aws:s3:::bucket/object"),
        ]:
            self.assertFalse(self.allowed(self.boundary(), action, resource), action)

    def test_the_boundary_leaves_the_functions_what_their_roles_grant(self):
        arn = "arn:aws:{}:eu-west-1:123456789012:{}"
        values = self.VALUES | {condition: True for condition in APPLICATION["Conditions"]} | {
            "AWS::StackName": "shop", "ExistingMainTable": "Orders", "EncryptionKey": arn.format("kms", "key/1a2b"),
            "MainTable.Arn": arn.format("dynamodb", "table/shop-MainTable-1A2B"), "MainTable": "shop-MainTable-1A2B",
            "MetadataTable.Arn": arn.format("dynamodb", "table/shop-MetadataTable-1A2B"), "MetadataTable": "shop-MetadataTable-1A2B",
            "MetadataTable.StreamArn": arn.format("dynamodb", "table/shop-MetadataTable-1A2B/stream/2026"),
            "RebalanceFailures.Arn": arn.format("sqs", "shop-RebalanceFailures-1A2B"),
        } | {
            f"{function}LogGroup.Arn": arn.format("logs", f"log-group:shop-{function}LogGroup-1A2B:*") for function in ("Write", "Read", "Scale", "Rebalance")
        }
        roles = [resource for resource in APPLICATION["Resources"].values() if resource["Type"] == "AWS::IAM::Role"]
        self.assertEqual(len(roles), 4)
        for is_new in (True, False):
            asked = 0
            for role in roles:
                (policy,) = resolve(role["Properties"]["Policies"], values | {"MainTableIsNew": is_new})
                self.assertEqual(resolve(role["Properties"]["PermissionsBoundary"], values | {"PermissionsBoundaryArn": "b"}), "b")
                for statement in policy["PolicyDocument"]["Statement"]:
                    for action in as_list(statement["Action"]):
                        for resource in as_list(statement["Resource"]):
                            asked += 1
                            context = {"kms:ViaService": "dynamodb.eu-west-1.amazonaws.com"}
                            self.assertTrue(self.allowed(self.boundary(), action, resource, context), (action, resource))
            self.assertGreater(asked, 50)

    def test_regression_a_long_name_of_a_stack_is_cut_in_the_names_of_its_functions(self):
        longest = max(len(name) for name, resource in APPLICATION["Resources"].items() if resource["Type"] == "AWS::Serverless::Function")
        # CloudFormation adds the logical id and twelve characters, with hyphens between; Lambda takes 64 characters.
        room = 64 - longest - 12 - 2
        parameter = DEPLOY_ROLE["Parameters"]["ApplicationStackName"]
        self.assertIsNone(problem_with(parameter, "a" * 30))
        self.assertIsNotNone(problem_with(parameter, "a" * (room + 1)))

    def test_the_stack_policy_keeps_both_tables(self):
        policy = json.loads(read("infra/stack-policy.json"))["Statement"]
        for action, resource, is_allowed in [
            ("Update:Replace", "MainTable", False),
            ("Update:Delete", "MainTable", False),
            ("Update:Replace", "MetadataTable", False),
            ("Update:Delete", "MetadataTable", False),
            ("Update:Modify", "MainTable", True),
            ("Update:Replace", "WriteFunction", True),
        ]:
            self.assertEqual(self.allowed(policy, action, f"LogicalResourceId/{resource}"), is_allowed, (action, resource))
        asked = {action for statement in self.statements("DeployRole") for action in as_list(statement["Action"])}
        self.assertNotIn("cloudformation:SetStackPolicy", asked)
        self.assertIn("cloudformation:GetStackPolicy", asked)

    def test_regression_a_creation_that_failed_left_two_protected_tables(self):
        for table in ("MainTable", "MetadataTable"):
            resource = APPLICATION["Resources"][table]
            self.assertEqual((resource["DeletionPolicy"], resource["UpdateReplacePolicy"]), ("RetainExceptOnCreate", "Retain"))
            for is_on in (True, False):
                self.assertIs(resolve(resource["Properties"]["DeletionProtectionEnabled"], {"TablesAreProtected": is_on}), is_on)
        self.assertEqual(APPLICATION["Parameters"]["DeletionProtection"]["Default"], "on")
        # A deployment keeps the value before where the file is silent, so the file has to turn it on.
        for environment in ("dev", "prod"):
            self.assertEqual(environments()[environment]["DeletionProtection"], "on", environment)
        first = ["file://" + str(ROOT / "infra/parameters/prod.yaml"), "DeletionProtection=off"]
        self.assertEqual(CfnParameterOverridesType().convert(first, None, None)["DeletionProtection"], "off")


class Resources(unittest.TestCase):
    def test_nothing_refers_to_a_table_that_an_existing_one_stands_in_for(self):
        # The rule MetadataTableHasAStream refuses a stack of which the last two would differ.
        for table, conditions in (("MainTable", ["MainTableIsNew"]), ("MetadataTable", ["MetadataTableIsNew", "MetadataStreamIsNew"])):
            self.assertEqual(APPLICATION["Resources"][table]["Condition"], conditions[0])

            def references(node) -> int:
                if isinstance(node, list):
                    return sum(map(references, node))
                if not isinstance(node, dict):
                    return 0
                if node.get("Fn::If", [None])[0] in conditions:
                    return references(node["Fn::If"][2])
                if node.get("Ref") == table or node.get("Fn::GetAtt", [None])[0] == table:
                    return 1
                if "Fn::Sub" in node and re.search(rf"\$\{{{table}\b", json.dumps(node["Fn::Sub"])):
                    return 1
                return sum(map(references, node.values()))

            for part in ("Globals", "Resources", "Outputs"):
                for name, resource in APPLICATION[part].items():
                    self.assertEqual(references(resource), 0, f"{name} refers to {table}, which may not be there")

    def test_tags_of_a_stack_reach_all_that_can_have_tags(self):
        translated = importlib.import_module("lint-translated").translate(ROOT / "template.yaml")
        templates = [translated, OBSERVABILITY, DEPLOY_ROLE, ROTATION]
        kinds = {resource["Type"] for template in templates for resource in template["Resources"].values()}
        for kind in sorted(kinds):
            tagging = PROVIDER_SCHEMA_MANAGER.get_resource_schema("us-east-1", kind).schema.get("tagging", {})
            self.assertNotEqual(tagging.get("taggable", True), kind in WITHOUT_TAGS, kind)

    def test_regression_indexes_of_a_warm_table_were_cold(self):
        """An index that cannot take a write refuses it to the table, whatever the table takes."""
        table = APPLICATION["Resources"]["MainTable"]["Properties"]
        indexes = [part["Fn::If"][1] for part in table["GlobalSecondaryIndexes"]["Fn::If"][1] if "Fn::If" in part]
        self.assertGreater(len(indexes), 2)
        for index in indexes:
            self.assertEqual(index["WarmThroughput"], table["WarmThroughput"], index["IndexName"])

    def test_regression_lambda_takes_one_mapping_of_a_stream_by_each_name_of_a_function(self):
        """`CreateEventSourceMapping` answers ResourceConflictException to a second one, so nobody could have deployed the stack."""
        translated = importlib.import_module("lint-translated").translate(ROOT / "template.yaml")
        mappings = [resource["Properties"] for resource in translated["Resources"].values() if resource["Type"] == "AWS::Lambda::EventSourceMapping"]
        names = [json.dumps([mapping["EventSourceArn"], mapping["FunctionName"]]) for mapping in mappings]
        self.assertEqual(len(names), 2)
        self.assertEqual(len(set(names)), len(names), names)

    def test_regression_a_stack_with_indexes_refused_its_restored_tables(self):
        indexes = {"FirstIndexName": "by-country", "FirstIndexPartitionKey": "country", "SecondIndexName": "by-city", "SecondIndexPartitionKey": "city"}
        for of_stack in ({}, indexes, indexes | {"WriteShardedIndexes": "both", "IndexShards": "4"}, {"BillingMode": "PROVISIONED", "CapacityScaling": "function"}):
            self.assertEqual(refusals(APPLICATION, of_stack), [])
            restored = restore.parameters_of("main", "metadata", "arn:aws:dynamodb:eu-west-1:123456789012:table/metadata/stream/1")
            self.assertEqual(refusals(APPLICATION, of_stack | restored), [], of_stack)

    def test_observability_takes_the_outputs_that_its_command_passes(self):
        """Names are passed, since an export that is in use would keep a restored table out."""
        self.assertFalse([name for name, output in APPLICATION["Outputs"].items() if "Export" in output])
        passed = {name for name in APPLICATION["Outputs"] if name.endswith("Name") or name == "HttpApiId"}
        taken = {name for name, parameter in OBSERVABILITY["Parameters"].items() if "Default" not in parameter}
        self.assertEqual(taken, passed)
        for page in ("OPERATIONS", "DEPLOYING"):
            self.assertTrue("Outputs[?ends_with(OutputKey, 'Name') || OutputKey=='HttpApiId']" in read(f"docs/{page}.md"), page)

    def test_lambda_drops_no_line_that_a_function_logs(self):
        functions = [resource["Properties"] for resource in APPLICATION["Resources"].values() if resource["Type"] == "AWS::Serverless::Function"]
        own = [set(function["LoggingConfig"]) for function in functions]
        self.assertEqual(own, [{"LogGroup"}] * 4)
        logging = APPLICATION["Globals"]["Function"]["LoggingConfig"]
        self.assertEqual((logging["LogFormat"], logging["ApplicationLogLevel"]), ("JSON", "TRACE"))

    def test_the_repository_of_applications_shows_the_version_that_is_built(self):
        shown = APPLICATION["Metadata"]["AWS::ServerlessRepo::Application"]
        package = tomllib.loads(read("Cargo.toml"))["workspace"]["package"]
        self.assertEqual(shown["SemanticVersion"], package["version"])
        self.assertIn(shown["SpdxLicenseId"], package["license"])
        for page in ("LicenseUrl", "ReadmeUrl"):
            self.assertTrue((ROOT / shown[page]).is_file(), page)


class Rotation(unittest.TestCase):
    VALUES = {
        "AWS::Partition": "aws", "AWS::Region": "eu-west-1", "AWS::AccountId": "123456789012", "AWS::NoValue": None, "Series": "events",
        "RotationLogGroup.Arn": "log", "CommandBucket": "commands", "CommandKey": "dynashard", "ExportBucket": "archive",
        "ExportPrefix": "events", "IsExported": True,
    }

    def statements(self) -> list[dict]:
        (policy,) = resolve(ROTATION["Resources"]["RotationRole"]["Properties"]["Policies"], self.VALUES)
        return policy["PolicyDocument"]["Statement"]

    def test_regression_exports_were_listed_by_a_right_on_tables_which_lists_none(self):
        for action in ("dynamodb:ListExports", "dynamodb:ListTables"):
            granted = [statement["Resource"] for statement in self.statements() if action in as_list(statement["Action"])]
            self.assertEqual(granted, ["*"], action)

    def test_regression_the_tables_of_another_series_could_be_deleted(self):
        for action in ("dynamodb:DeleteTable", "dynamodb:UpdateTable"):
            (statement,) = [statement for statement in self.statements() if action in as_list(statement["Action"])]
            self.assertEqual(statement["Condition"], {"StringEquals": {"aws:ResourceTag/dynashard:series": "events"}})

    def test_regression_a_mistyped_place_of_exports_was_a_folder_of_the_build(self):
        options = ROTATION["Parameters"]["Options"]
        self.assertIsNone(problem_with(options, "--cool 10/1 --delete-after 12"))
        for wrong in ("--delete-after 12 --export-to archive/events", "--export-to s3:/archive"):
            self.assertIsNotNone(problem_with(options, wrong), wrong)
        text, values = ROTATION["Resources"]["Rotation"]["Properties"]["Source"]["BuildSpec"]["Fn::Sub"]
        self.assertIn('--series "${Series}" ${Options} ${Export}\n', text)
        for is_exported, place in ((True, "--export-to s3://archive/events"), (False, "")):
            self.assertEqual(resolve(values["Export"], self.VALUES | {"IsExported": is_exported}), place)

    def test_regression_nobody_was_told_of_a_rotation_that_failed(self):
        alarm = alarms(ROTATION)["RotationFails"]
        self.assertEqual((alarm["Namespace"], alarm["MetricName"], alarm["Dimensions"][0]["Value"]), ("AWS/CodeBuild", "FailedBuilds", {"Ref": "Rotation"}))

    def test_regression_nobody_was_told_of_a_rotation_that_never_began(self):
        alarm = alarms(ROTATION)["RotationsMissing"]
        self.assertEqual((alarm["MetricName"], alarm["TreatMissingData"]), ("SucceededBuilds", "breaching"))
        hours = ROTATION["Parameters"]["MissingAfterHours"]
        self.assertEqual((alarm["Period"], alarm["EvaluationPeriods"]), (3600, {"Ref": "MissingAfterHours"}))
        # A longer schedule would keep it raised for ever.
        self.assertIsNone(problem_with(hours, "0"))
        self.assertEqual(ROTATION["Resources"]["RotationsMissing"]["Condition"], "IsMissed")
        # CloudWatch looks back by seven days at most.
        self.assertLessEqual(hours["MaxValue"], 7 * 24)
        every = int(re.fullmatch(r"rate\((\d+) hours\)", ROTATION["Parameters"]["Schedule"]["Default"])[1])
        # A run may take as long as it can, and people need the rest of what --ahead-hours has made by default.
        self.assertGreater(hours["Default"], every + ROTATION["Resources"]["Rotation"]["Properties"]["TimeoutInMinutes"] / 60)
        self.assertLess(hours["Default"], 24)


def alarms(template: dict) -> dict[str, dict]:
    return {
        name: resource["Properties"]
        for name, resource in template["Resources"].items()
        if resource["Type"] in ("AWS::CloudWatch::Alarm", "AWS::CloudWatch::CompositeAlarm")
    }


def watched(alarm: dict) -> list[dict]:
    """Return the metrics of an alarm: none of one that stands for others."""
    if "Metrics" in alarm:
        return [query["MetricStat"]["Metric"] for query in alarm["Metrics"] if "MetricStat" in query]
    return [alarm] if "MetricName" in alarm else []


def measured() -> dict[str, str]:
    """Return the functions that send each metric of docs/METRICS.md, as it names them."""
    return dict(re.findall(r"^\| `(\w+)` \| \w+ \| ([^|]+) \|", read("docs/METRICS.md"), re.MULTILINE))


class Observability(unittest.TestCase):
    def test_regression_a_function_that_always_failed_raised_no_alarm(self):
        """At rest a schedule calls it once a minute, and those are all of its errors."""
        for name in ("FunctionErrorsScale", "FunctionThrottlesScale"):
            alarm = alarms(OBSERVABILITY)[name]
            calls_in_a_period = alarm["Period"] / 60
            self.assertGreater(calls_in_a_period, alarm["Threshold"], name)
            # One that failed once recovers by itself at the next call.
            self.assertEqual((alarm["DatapointsToAlarm"], alarm["EvaluationPeriods"]), (3, 5), name)

    def test_regression_throttles_of_indexes_and_of_a_capacity_reached_nobody(self):
        counted = {"Namespace": "dynashard", "MetricName": "SharedLimits", "Dimensions": [{"Name": "FunctionName", "Value": {"Ref": "WriteFunctionName"}}]}
        self.assertIn(counted, watched(alarms(OBSERVABILITY)["SharedLimits"]))
        # WriteFunction counts no reads, and nothing with WriterScaling off: what AWS measures of the table is watched beside it.
        names = {metric["MetricName"] for metric in watched(alarms(OBSERVABILITY)["SharedLimits"])}
        limits = ("AccountLimit", "MaxOnDemandThroughput", "ProvisionedThroughput")
        self.assertEqual(names, {"SharedLimits"} | {f"{use}{limit}ThrottleEvents" for use in ("Read", "Write") for limit in limits})
        indexes = [index["IndexName"] for index in APPLICATION["Resources"]["MetadataTable"]["Properties"]["GlobalSecondaryIndexes"]]
        dimensions = [metric["Dimensions"] for metric in watched(alarms(OBSERVABILITY)["MetadataThrottled"]) if metric["MetricName"].startswith("Write")]
        named = {dimension["Value"] for of_metric in dimensions for dimension in of_metric if dimension["Name"] == "GlobalSecondaryIndexName"}
        self.assertEqual(named, set(indexes))

    def setUp(self):
        body = OBSERVABILITY["Resources"]["Dashboard"]["Properties"]["DashboardBody"]["Fn::Sub"]
        self.widgets = json.loads(body)["widgets"]

    def check_metric(self, namespace: str, metric: str, dimension: str, of: str):
        """Check that somebody sends this metric. `of` is the output of the application that names who is measured."""
        if namespace == "dynashard":
            self.assertEqual(dimension, "FunctionName", metric)
            self.assertIn(of, FUNCTIONS, metric)
            functions = measured().get(metric)
            self.assertIsNotNone(functions, f"docs/METRICS.md has no {metric}")
            function = of.removesuffix("Name")
            self.assertTrue(functions == "all" or f"`{function}`" in functions, f"{function} does not send {metric}")
        else:
            expected, measured_by, metrics = AWS_METRICS[namespace]
            self.assertIn(metric, metrics, namespace)
            self.assertEqual(dimension, expected, metric)
            self.assertIn(of, measured_by, metric)

    def test_the_dashboard_shows_metrics_that_exist(self):
        for widget in self.widgets:
            shown = 0
            for line in widget["properties"].get("metrics", []):
                if isinstance(line[0], str):
                    namespace, metric, dimension, of, *_ = line
                    self.check_metric(namespace, metric, dimension, of.removeprefix("${").removesuffix("}"))
                    shown += 1
            self.assertTrue(shown or widget["type"] != "metric", widget["properties"]["title"])

    def test_expressions_of_the_dashboard_use_metrics_beside_them(self):
        for widget in self.widgets:
            lines = widget["properties"].get("metrics", [])
            ids = {option["id"] for line in lines for option in line if isinstance(option, dict) and "id" in option}
            for line in lines:
                if isinstance(line[0], dict):
                    used = set(re.findall(r"\b[a-z]\w*\b", re.sub(r"\$\{\w+\}", "0", line[0]["expression"])))
                    self.assertLessEqual(used, ids, widget["properties"]["title"])

    def test_nobody_who_opens_the_dashboard_pays_for_a_scan_of_the_logs(self):
        self.assertEqual([widget["properties"]["title"] for widget in self.widgets if widget["type"] == "log"], [])

    def test_widgets_of_the_dashboard_lie_side_by_side(self):
        taken = set()
        for widget in self.widgets:
            cells = {
                (x, y)
                for x in range(widget["x"], widget["x"] + widget["width"])
                for y in range(widget["y"], widget["y"] + widget["height"])
            }
            self.assertFalse(cells & taken, widget["properties"]["title"])
            self.assertLessEqual(widget["x"] + widget["width"], 24)
            taken |= cells

    def test_alarms_watch_metrics_that_exist(self):
        for name, alarm in alarms(OBSERVABILITY).items():
            for metric in watched(alarm):
                (dimension, *index) = metric["Dimensions"]
                with self.subTest(name):
                    self.assertIn([each["Value"] for each in index], ([], ["active"], ["decisions"]))
                    self.check_metric(metric["Namespace"], metric["MetricName"], dimension["Name"], dimension["Value"]["Ref"])
                    self.assertEqual(alarm["TreatMissingData"], "breaching" if name == "SweepsMissing" else "notBreaching")

    def test_no_alarm_on_dynamodb_can_stick_for_want_of_data(self):
        for template in (APPLICATION, OBSERVABILITY):
            for name, alarm in alarms(template).items():
                self.assertNotEqual(alarm.get("Namespace"), "AWS/DynamoDB", f"{name} needs FILL(metric, 0)")
                if "Metrics" in alarm:
                    shown = [query for query in alarm["Metrics"] if query.get("ReturnData", True)]
                    expression = "FILL(metric, 0)" if len(watched(alarm)) == 1 else "SUM(FILL(METRICS(), 0))"
                    self.assertEqual([query["Expression"] for query in shown], [expression], name)
                    # DynamoDB publishes a minute late, when FILL has made it 0 and it is the newest no more.
                    self.assertLess(alarm["DatapointsToAlarm"], alarm["EvaluationPeriods"], name)

    def test_each_alarm_has_an_entry_in_the_runbook_and_each_entry_an_alarm(self):
        entries = set(re.findall(r"^### `([a-z0-9-]+)`$", read("docs/RUNBOOK.md"), re.MULTILINE))
        named = set()
        for template in (APPLICATION, OBSERVABILITY):
            for alarm in alarms(template).values():
                _, found, entry = alarm["AlarmDescription"].rpartition(" docs/RUNBOOK.md#")
                self.assertTrue(found, alarm["AlarmName"])
                named.add(entry)
                # People look an alarm up by its name, too.
                self.assertRegex(alarm["AlarmName"]["Fn::Sub"], rf"^\$\{{[\w:]+\}}-{entry}(-(write|read|scale|rebalance))?$")
        self.assertEqual(named, entries)

    def test_one_alarm_stands_for_all(self):
        unhealthy = OBSERVABILITY["Resources"]["Unhealthy"]["Properties"]["AlarmRule"]["Fn::Sub"]
        children = alarms(OBSERVABILITY).keys() - {"Unhealthy"}
        self.assertEqual(sorted(re.findall(r"\$\{(\w+)\}", unhealthy)), sorted(children))
        self.assertLessEqual(len(children), 100, "CloudWatch takes no more")
        (shown,) = [widget for widget in self.widgets if widget["type"] == "alarm"]
        self.assertEqual(
            sorted(shown["properties"]["alarms"]), sorted(f"${{{name}.Arn}}" for name in alarms(OBSERVABILITY))
        )

    def test_the_dashboard_reckons_with_the_prices_of_the_list(self):
        prices = json.loads(read("data/prices-us-east-1.json"))["prices"]
        for parameter, price in [("WriteUnitPrice", "dynamodb_write_units"), ("ReadUnitPrice", "dynamodb_read_units")]:
            self.assertEqual(float(OBSERVABILITY["Parameters"][parameter]["Default"]), prices[price]["usd"])


if __name__ == "__main__":
    unittest.main()
