#!/usr/bin/env python3
"""Deploy the built application on MiniStack, and look at what it makes of the template.

    python infra/ministack.py target/ministack/bin/ministack [--write-table]

MiniStack is another reader of the template than `dynashard local`: it takes what `sam deploy` sends, runs the bootstraps of
`sam build`, checks signatures, and holds each function to the policies of its role. Its capacity and alarms are crude, and
nothing here asks about them. At the end the commands of the operators' pages run on that stack. Needs sam on PATH, a Python
that has aws-sam-cli, and the `dynashard` of `cargo build`. Exits with 1 and says what differs if anything does.
"""

import argparse
import hmac
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path

import boto3
import docs_commands
import released
import tables
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials
from samcli.yamlhelper import yaml_parse
from start_benchmark import ROOT, variables

PAGE = ROOT / "docs/SAM.md"
# As the operators' pages call it.
STACK = "dynashard-prod"
REGION = "us-east-1"
# What the deployment sets, other than the defaults wherever that shows.
PARAMETERS = {
    "Architecture": "x86_64",
    "MemorySize": "640",
    "RebalanceMemorySize": "1024",
    "LeaseSecs": "1",
}
# Of each function: its time limit in seconds, and its memory in MB. MiniStack leaves reserved concurrency out.
FUNCTIONS = {
    "ReadFunction": (29, 640),
    "RebalanceFunction": (60, 1024),
    "ScaleFunction": (60, 640),
    "WriteFunction": (29, 640),
}
# What both event source mappings of the metadata table's stream say.
MAPPING = {
    "BisectBatchOnFunctionError": True,
    "FunctionResponseTypes": ["ReportBatchItemFailures"],
    "MaximumRecordAgeInSeconds": 3600,
    "MaximumRetryAttempts": 3,
    "ParallelizationFactor": 10,
    "StartingPosition": "TRIM_HORIZON",
}
# By its size of a batch, what each lets through.
PATTERNS = {
    100: [{"dynamodb": {"NewImage": {"phase": {"S": ["forward"]}}}}],
    10: [{"dynamodb": {"NewImage": {"phase": {"S": ["move"]}}}}, {"dynamodb": {"NewImage": {"slice": {"S": ["yielded"]}}}}],
}
# Types of resources that MiniStack refuses.
UNKNOWN = {"AWS::CloudWatch::CompositeAlarm", "AWS::IAM::OIDCProvider", "AWS::IAM::RolePolicy"}
# The collection that is spread anew, and its sort keys.
KEY = "EWR"
SORT_KEYS = [f"2013-01-01T10:{minute:02}:00Z#UA{minute}" for minute in range(30)]


class MiniStack:
    """MiniStack at a port of the loopback, with what it starts, until it is stopped."""

    def __init__(self, program: str, folder: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("AWS_")},
            "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": REGION, "AWS_REGION": REGION,
            "AWS_EC2_METADATA_DISABLED": "true", "AWS_ENDPOINT_URL": self.url, "SAM_CLI_TELEMETRY": "0",
        }
        own = {
            "BIND_HOST": "127.0.0.1", "GATEWAY_PORT": str(self.port), "TMPDIR": str(folder),
            # Signatures and policies count, those of the functions' roles, too.
            "AUTH": "true",
            # These would listen at addresses of all networks.
            "SFTP_ENABLED": "0", "IOT_MTLS_ENABLED": "0",
        }
        self.log = folder / "ministack.log"
        with self.log.open("w") as log:
            # A group of its own, since it may leave bootstraps behind.
            self.process = subprocess.Popen(
                [program], env=self.environment | own, cwd=folder, stdout=log, stderr=log, start_new_session=True
            )
        try:
            until(60, "MiniStack answers", self._answers)
        except Wrong:
            self.stop()
            raise

    def client(self, service: str):
        return boto3.client(
            service, endpoint_url=self.url, region_name=REGION, aws_access_key_id="test", aws_secret_access_key="test",
            config=Config(read_timeout=60, retries={"total_max_attempts": 1}),
        )

    def _answers(self) -> bool:
        if self.process.poll() is not None:
            raise Wrong(f"MiniStack does not start: {self.log.read_text()[-2000:]}")
        try:
            with urllib.request.urlopen(f"{self.url}/_ministack/health", timeout=2) as answer:
                return answer.status == 200
        except OSError:
            return False

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            pass
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()


class Wrong(Exception):
    """What differs from what is expected."""


def until(secs: float, what: str, holds: Callable[[], bool]) -> None:
    """Waits until something holds, and at most this long."""
    deadline = time.monotonic() + secs
    while not holds():
        if time.monotonic() > deadline:
            raise Wrong(f"not within {secs} s: {what}")
        time.sleep(0.2)


def expect(what: str, got: object, expected: object) -> None:
    if isinstance(got, dict) and isinstance(expected, dict):
        for name in sorted({*got, *expected}):
            expect(f"{what}, {name}", got.get(name), expected.get(name))
    elif got != expected:
        raise Wrong(f"{what}: {got!r} in place of {expected!r}")


def known(template: dict) -> dict:
    """A template without what MiniStack refuses."""
    for resource in template["Resources"].values():
        properties = resource.get("Properties", {})
        if resource["Type"] in UNKNOWN:
            # Whatever has an ARN will do.
            resource |= {"Type": "AWS::SQS::Queue", "Properties": {}}
        elif resource["Type"] == "AWS::CloudWatch::Alarm" and "Metrics" in properties:
            # One metric stands for the expression.
            (stat, *_) = [query["MetricStat"] for query in properties.pop("Metrics") if "MetricStat" in query]
            properties |= stat["Metric"] | {"Period": stat["Period"], "Statistic": stat["Stat"]}
    return template


class Deployed:
    """The stack that `sam deploy` made."""

    def __init__(self, stack: MiniStack) -> None:
        self.stack = stack
        self.functions = stack.client("lambda")
        stack.client("s3").create_bucket(Bucket="artifacts")
        self.deploy(PARAMETERS)

    def deploy(self, parameters: dict[str, str]) -> None:
        built = ROOT / ".aws-sam/build"
        template = known(yaml_parse((built / "template.yaml").read_text(encoding="utf-8")))
        # The pages that it names for the repository of applications lie beside the built one.
        template.pop("Metadata")
        for function in FUNCTIONS:
            properties = template["Resources"][function]["Properties"]
            properties["CodeUri"] = str(built / properties["CodeUri"])
        file = self.stack.log.parent / "template.yaml"
        file.write_text(json.dumps(template), encoding="utf-8")
        # JSON is YAML, and a parameter file may have values that are empty.
        overrides = self.stack.log.parent / "parameters.yaml"
        overrides.write_text(json.dumps(parameters), encoding="utf-8")
        command = [
            "sam", "deploy", "--template-file", str(file), "--stack-name", STACK,
            "--s3-bucket", "artifacts", "--no-progressbar", "--capabilities", "CAPABILITY_IAM", "--parameter-overrides",
            f"file://{overrides}",
        ]
        # Not at the root, whose samconfig.toml is for AWS.
        self.run(command)
        formation = self.stack.client("cloudformation")
        resources = formation.describe_stack_resources(StackName=STACK)["StackResources"]
        self.names = {resource["LogicalResourceId"]: resource["PhysicalResourceId"] for resource in resources}
        described = formation.describe_stacks(StackName=STACK)["Stacks"][0]
        self.id = described["StackId"]
        self.outputs = {output["OutputKey"]: output["OutputValue"] for output in described["Outputs"]}

    def run(self, command: list[str]) -> str:
        """What a command prints that asks MiniStack."""
        stack = self.stack
        done = subprocess.run(command, cwd=stack.log.parent, env=stack.environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Wrong(f"{' '.join(command[:3])} exits with {done.returncode}: {(done.stdout + done.stderr)[-3000:]}")
        return done.stdout

    def invoke(self, function: str, method: str, path: str, query: dict[str, str], body: object = None) -> tuple[int, object]:
        """The answer of a function to a request that it gets by Invoke."""
        event = {
            "version": "2.0", "routeKey": f"{method} {path}", "rawPath": path, "rawQueryString": urllib.parse.urlencode(query),
            "headers": {"content-type": "application/json"},
            "requestContext": {
                "http": {"method": method, "path": path}, "requestId": "second-opinion", "stage": "$default",
                "timeEpoch": int(time.time() * 1000),
            },
            "isBase64Encoded": False,
        }
        if body is not None:
            event["body"] = json.dumps(body)
        answer = self.functions.invoke(FunctionName=self.names[function], Payload=json.dumps(event))
        payload = json.load(answer["Payload"])
        if "FunctionError" in answer:
            raise Wrong(f"{function} fails: {payload}")
        return payload["statusCode"], json.loads(payload["body"]) if payload.get("body") else None

    def send(self, key: Credentials, method: str, path: str, query: dict[str, str], body: object = None) -> tuple[int, object]:
        """The answer of the HTTP API to a request that is signed with this key."""
        url = f"{self.stack.url}{path}?{urllib.parse.urlencode(query, quote_via=urllib.parse.quote)}"
        data = None if body is None else json.dumps(body)
        # The host is how MiniStack tells APIs apart.
        host = f"{self.outputs['HttpApiId']}.execute-api.localhost:{self.stack.port}"
        request = AWSRequest(method, url, data=data, headers={"host": host, "content-type": "application/json"})
        SigV4Auth(key, "execute-api", REGION).add_auth(request)
        sent = urllib.request.Request(url, method=method, data=data and data.encode(), headers=dict(request.headers))
        try:
            with urllib.request.urlopen(sent, timeout=60) as answer:
                return answer.status, json.loads(answer.read() or "null")
        except urllib.error.HTTPError as refused:
            return refused.code, json.loads(refused.read() or "null")


def check_configuration(deployed: Deployed) -> str:
    functions = deployed.functions
    own = {
        "ReadFunction": {"ITEM_CACHE_SECS", "ITEM_CACHE_MEGABYTES", "READ_REPLICAS"},
        "RebalanceFunction": {"INDEX_SHARDS", "ALL_MOVERS_WRITE_UNITS"},
        "WriteFunction": {"INDEX_SHARDS"},
        "ScaleFunction": {
            "READ_ALARM_NAME", "ALARM_NAME", "CAPACITY_ALARM_NAMES",
            "KEYS_PER_GRANT", "CAPACITY_SCALING", "MAX_READ_CAPACITY_UNITS", "MAX_WRITE_CAPACITY_UNITS",
        },
    }
    common = variables(PARAMETERS, deployed.names | {"AWS::StackId": deployed.id})
    for name, (timeout, memory) in FUNCTIONS.items():
        physical = deployed.names[name]
        configuration = functions.get_function_configuration(FunctionName=physical)
        got = configuration["Environment"]["Variables"]
        expect(f"variables of {name}", {key: value for key, value in got.items() if key not in own.get(name, ())}, common)
        expect(f"variables of {name} alone", set(got) - set(common), own.get(name, set()))
        expect(f"timeout of {name}", configuration["Timeout"], timeout)
        expect(f"memory of {name}", configuration["MemorySize"], memory)
        expect(f"runtime of {name}", configuration["Runtime"], "provided.al2023")
        expect(f"architecture of {name}", configuration["Architectures"], ["x86_64"])
    return f"{len(FUNCTIONS)} functions, {len(common)} variables of each"


def check_mapping_of(deployed: Deployed, metadata_table: str) -> None:
    """All mappings are of this table's stream."""
    mappings = deployed.functions.list_event_source_mappings()["EventSourceMappings"]
    table = deployed.stack.client("dynamodb").describe_table(TableName=metadata_table)["Table"]
    expect("streams of the mappings", [mapping["EventSourceArn"] for mapping in mappings], [table["LatestStreamArn"]] * len(PATTERNS))


def check_mapping(deployed: Deployed) -> str:
    mappings = deployed.functions.list_event_source_mappings()["EventSourceMappings"]
    expect("event source mappings", sorted(mapping["BatchSize"] for mapping in mappings), sorted(PATTERNS))
    check_mapping_of(deployed, deployed.names["MetadataTable"])
    queue = deployed.stack.client("sqs").get_queue_attributes(QueueUrl=deployed.names["RebalanceFailures"], AttributeNames=["QueueArn"])
    for mapping in mappings:
        alias = ":beginnings" if mapping["BatchSize"] == 100 else ""
        expect("function of a mapping", mapping["FunctionArn"].split(":function:")[1], deployed.names["RebalanceFunction"] + alias)
        expect("mapping", {name: mapping.get(name) for name in MAPPING}, MAPPING)
        filters = [json.loads(filter["Pattern"]) for filter in mapping["FilterCriteria"]["Filters"]]
        expect("filters", filters, PATTERNS[mapping["BatchSize"]])
        expect("failure queue", mapping["DestinationConfig"]["OnFailure"]["Destination"], queue["Attributes"]["QueueArn"])
    return f"{len(mappings)} for the stream, each with the failure queue, its filters and {len(MAPPING) + 1} settings"


def check_invoke(deployed: Deployed) -> str:
    item = {"dest": "IAH", "distance": 1400}
    for sort_key in SORT_KEYS:
        status, answer = deployed.invoke("WriteFunction", "PUT", "/item", {"pk": KEY, "sk": sort_key}, item)
        expect("answer to a put", (status, answer), (200, {"pk": KEY, "sk": sort_key, "shard": 0}))
    status, answer = deployed.invoke("ReadFunction", "GET", "/item", {"pk": KEY, "sk": SORT_KEYS[0]})
    expect("answer to a get", (status, answer), (200, {"pk": KEY, "sk": SORT_KEYS[0], **item}))
    return f"{len(SORT_KEYS)} items written by WriteFunction, and one read by ReadFunction"


def check_routes(deployed: Deployed) -> str:
    """A caller gets through with a policy that allows it, and not before."""
    iam = deployed.stack.client("iam")
    iam.create_user(UserName="caller")
    made = iam.create_access_key(UserName="caller")["AccessKey"]
    key = Credentials(made["AccessKeyId"], made["SecretAccessKey"])
    query = {"pk": "over http", "sk": "a b"}
    expect("put without a policy", deployed.send(key, "PUT", "/item", query, {"n": 1})[0], 403)
    allowed = {"Effect": "Allow", "Action": "execute-api:Invoke", "Resource": f"arn:aws:execute-api:{REGION}:*:{deployed.outputs['HttpApiId']}/*"}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [allowed]})
    iam.put_user_policy(UserName="caller", PolicyName="call", PolicyDocument=policy)
    expect("get before a put", deployed.send(key, "GET", "/item", query)[0], 404)
    expect("put", deployed.send(key, "PUT", "/item", query, {"n": 1}), (200, {**query, "shard": 0}))
    expect("get", deployed.send(key, "GET", "/item", query), (200, {**query, "n": 1}))
    expect("get with a wrong key", deployed.send(Credentials(made["AccessKeyId"], "guessed"), "GET", "/item", query)[0], 403)
    return "a put and a get by way of the HTTP API's routes; a caller without a policy, and one without the key, refused"


def check_stream(deployed: Deployed) -> str:
    """A change of the count reaches RebalanceFunction by the stream: the schedule that would lead there, too, is off."""
    events = deployed.stack.client("events")
    rules = events.list_rules()["Rules"]
    sweeps = [rule["Name"] for rule in rules for target in events.list_targets_by_rule(Rule=rule["Name"])["Targets"]
              if target["Arn"].endswith(f":{deployed.names['RebalanceFunction']}")]
    expect("schedules of RebalanceFunction", len(sweeps), 1)
    events.disable_rule(Name=sweeps[0])
    status, answer = deployed.invoke("ScaleFunction", "POST", "/collection/scale", {"pk": KEY}, {"number_of_shards": 4})
    expect("answer to the change of the count", status, 202)

    collection: dict = {}

    def has_moved() -> bool:
        nonlocal collection
        status, collection = deployed.invoke("ReadFunction", "GET", "/collection", {"pk": KEY})
        expect("answer about the collection", status, 200)
        return collection["number_of_shards"] == 4 and collection.get("reshard", {}).get("source_shards_done") == 1

    try:
        until(90, "the items have moved", has_moved)
    except Wrong as wrong:
        raise Wrong(f"{wrong}; the collection is {json.dumps(collection)}") from wrong
    moved = collection["reshard"]["items_moved"]
    status, answer = deployed.invoke("ReadFunction", "GET", "/query", {"pk": KEY})
    expect("items after the move", (status, [item["sk"] for item in answer["items"]], answer["shards"]), (200, SORT_KEYS, 4))
    pages = deployed.stack.client("dynamodb").get_paginator("scan").paginate(TableName=deployed.names["MainTable"])
    partitions = {item["pk"]["S"] for page in pages for item in page["Items"] if KEY in item["pk"]["S"]}
    if not (moved > 0 and len(partitions) > 1):
        raise Wrong(f"{moved} items have moved, and lie under the partition keys {sorted(partitions)}")
    return f"{moved} of {len(SORT_KEYS)} items moved to {len(partitions)} partition keys, and all came back in order"


def check_restore(deployed: Deployed) -> str:
    """Carries out "Restoring" of docs/OPERATIONS.md. MiniStack restores nothing, so copies stand for restored tables."""
    # The pages have deleted the stack.
    deployed.deploy(PARAMETERS)
    check_invoke(deployed)
    client = deployed.stack.client("dynamodb")
    sources = {"--main-table": deployed.names["MainTable"], "--metadata-table": deployed.names["MetadataTable"]}
    targets = {option: f"{STACK}{option.removeprefix('-')}-2" for option in sources}
    own = {"Key": "owner", "Value": "flights"}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [{
        "Effect": "Deny", "Principal": "*", "Action": "dynamodb:DeleteItem", "Resource": "*",
        "Condition": {"ArnLike": {"aws:PrincipalArn": "arn:aws:iam::123456789012:role/nobody"}},
    }]})
    client.update_time_to_live(TableName=sources["--main-table"], TimeToLiveSpecification={"Enabled": True, "AttributeName": "until"})
    for option, source in sources.items():
        table = client.describe_table(TableName=source)["Table"]
        client.tag_resource(ResourceArn=table["TableArn"], Tags=[own])
        client.put_resource_policy(ResourceArn=table["TableArn"], Policy=policy)
        # What a restored table has of its source.
        indexes = [{name: index[name] for name in ("IndexName", "KeySchema", "Projection")} for index in table.get("GlobalSecondaryIndexes", [])]
        client.create_table(
            TableName=targets[option], KeySchema=table["KeySchema"], AttributeDefinitions=table["AttributeDefinitions"],
            BillingMode="PAY_PER_REQUEST", **({"GlobalSecondaryIndexes": indexes} if indexes else {}),
        )
        for page in client.get_paginator("scan").paginate(TableName=source):
            for item in page["Items"]:
                client.put_item(TableName=targets[option], Item=item)
    command = [sys.executable, str(ROOT / "infra/restore.py"), "--stack-name", STACK, *(word for pair in targets.items() for word in pair)]
    printed = deployed.run(command)
    expect("restore.py, once more", deployed.run(command), printed)
    for option, target in targets.items():
        table = client.describe_table(TableName=target)["Table"]
        expect(f"deletion protection of {target}", table["DeletionProtectionEnabled"], True)
        recovery = client.describe_continuous_backups(TableName=target)["ContinuousBackupsDescription"]["PointInTimeRecoveryDescription"]
        expect(f"recovery of {target}", recovery["PointInTimeRecoveryStatus"], "ENABLED")
        if own not in client.list_tags_of_resource(ResourceArn=table["TableArn"])["Tags"]:
            raise Wrong(f"{target} lacks its source's tags")
        expect(f"policy of {target}", json.loads(client.get_resource_policy(ResourceArn=table["TableArn"])["Policy"]), json.loads(policy))
        expect(f"stream of {target}", table.get("StreamSpecification", {}).get("StreamEnabled", False), option == "--metadata-table")
    expiry = client.describe_time_to_live(TableName=targets["--main-table"])["TimeToLiveDescription"]
    expect("expiry", (expiry["TimeToLiveStatus"], expiry.get("AttributeName")), ("ENABLED", "until"))
    insights = client.describe_contributor_insights(TableName=targets["--main-table"])["ContributorInsightsStatus"]
    expect("Contributor Insights", insights in ("ENABLING", "ENABLED"), True)
    # The lines are those of a parameter file.
    deployed.deploy(PARAMETERS | yaml_parse(printed))
    expect("tables of the stack", {name for name in deployed.names if name.endswith("Table")}, set())
    outputs = [deployed.outputs[name] for name in ("MainTableName", "MetadataTableName")]
    expect("tables of the outputs", outputs, list(targets.values()))
    for source in sources.values():
        expect("a table that left the stack", client.describe_table(TableName=source)["Table"]["TableName"], source)
    query = {"pk": KEY, "sk": SORT_KEYS[0]}
    status, answer = deployed.invoke("ReadFunction", "GET", "/item", query)
    expect("an item of before", (status, answer and answer["dest"]), (200, "IAH"))
    status, _ = deployed.invoke("WriteFunction", "PUT", "/item", {"pk": "restored", "sk": "1"}, {"n": 1})
    expect("a put", status, 200)
    if not any(item["pk"]["S"] == "restored" for item in client.scan(TableName=targets["--main-table"])["Items"]):
        raise Wrong("the put is not in the restored table")
    # The stream of the restored table leads to RebalanceFunction.
    check_mapping_of(deployed, targets["--metadata-table"])
    return f"{len(targets)} tables with what a restore leaves off; the stack reads, writes and listens to them"


def check_pages(deployed: Deployed) -> str:
    """Runs the commands of the operators' pages, which find something of each kind that they look for."""
    names, clients = deployed.names, deployed.stack.client
    main_table, metadata = (deployed.outputs[name] for name in ("MainTableName", "MetadataTableName"))
    tables_client, key = clients("dynamodb"), {"pk": {"S": KEY}}
    # Someone damages metadata, a client meets it, and it is put back.
    kept = tables_client.get_item(TableName=metadata, Key=key, ConsistentRead=True)["Item"]
    tables_client.put_item(TableName=metadata, Item=kept | {"number_of_shards": {"S": "four"}})
    put = ("WriteFunction", "PUT", "/item", {"pk": KEY, "sk": SORT_KEYS[0]}, {"dest": "IAH"})
    until(20, "a write meets the damage", lambda: deployed.invoke(*put)[0] == 500)
    tables_client.put_item(TableName=metadata, Item=kept)
    until(20, "a write meets it no more", lambda: deployed.invoke(*put)[0] == 200)
    # A change of its count moves nothing, so it closes within seconds.
    random = {"placement": "random", "number_of_shards": 2}
    until(60, "a random collection", lambda: deployed.invoke("ScaleFunction", "PUT", "/collection", {"pk": "audit"}, random)[0] in (201, 409))
    clients("cloudwatch").set_alarm_state(AlarmName=f"{STACK}-write-throttles", StateValue="ALARM", StateReason="to be found")
    clients("sqs").send_message(QueueUrl=names["RebalanceFailures"], MessageBody="positions in the stream")
    stage = clients("apigatewayv2").get_stages(ApiId=deployed.outputs["HttpApiId"])["Items"][0]
    logs, line = clients("logs"), stage["AccessLogSettings"]["Format"].replace("$context.status", "503")
    logs.create_log_stream(logGroupName=names["ApiLogGroup"], logStreamName="a")
    event = {"timestamp": int(time.time() * 1000), "message": line}
    logs.put_log_events(logGroupName=names["ApiLogGroup"], logStreamName="a", logEvents=[event])
    folder = deployed.stack.log.parent
    for name in ("observability", "deploy-role"):
        template = known(yaml_parse((ROOT / f"infra/{name}.yaml").read_text(encoding="utf-8")))
        (folder / f"{name}.yaml").write_text(json.dumps(template), encoding="utf-8")
    # What infra/released.py makes of the zips of infra/package.py.
    release = ROOT / "target/package"
    template = known(json.loads((release / released.TEMPLATE).read_text(encoding="utf-8")))
    (folder / released.TEMPLATE).write_text(json.dumps(template), encoding="utf-8")
    variables = clients("lambda").get_function_configuration(FunctionName=names["WriteFunction"])["Environment"]["Variables"]
    digest = hmac.new(variables["LOG_KEY_SECRET"].encode(), KEY.encode(), "sha256").hexdigest()[:32]
    # MiniStack takes signatures of any age, and does not say that the index is built.
    two_problems = r"(?s)^problem +request_lifetime .*^problem +metadata_table .* index active .*^2 problems"
    pages = docs_commands.Pages(
        deployed.stack.environment,
        filled={
            r"(\$PWD/)?\.venv/bin": str(Path(sys.executable).parent),
            r"venv \.venv": f"venv {folder}/venv",
            # The same command in the tests' own profile.
            r"cargo run --release --": "dynashard",
            r"^infra/": "python infra/",
            # The configuration lies beside the template otherwise.
            r"^sam deploy --config-env prod": f"sam deploy --config-file {ROOT}/samconfig.toml --config-env prod"
            f" --template-file {folder}/template.yaml",
            r"--template-file (infra|release)": f"--template-file {folder}",
            r"(?<=cp |-e )release": str(release),
            r" sar\b": f" {folder}/sar",
            r"\bBUCKET\b": "artifacts",
            r"\bVERSION\b": released.VERSION,
            # For queues this version of the command goes by no variable.
            r"^aws sqs": f"aws --endpoint-url {deployed.stack.url} sqs",
            r"^verify --repair$": f"dynashard verify --stack-name {STACK} --all --repair",
            r"^verify --all$": f"dynashard verify --stack-name {STACK} --all",
            r"adopt --policy$": f"adopt --policy {folder}/policy --stack-name {STACK} --table {main_table}",
            r"--stack-name NAME": f"--stack-name {STACK}",
            r"--table-name NAME": f"--table-name {main_table}",
            r"METADATA_TABLE": metadata,
            r"MAIN_TABLE": main_table,
            r"\bKEY\b": "audit",
            r"--shards N": "--shards 4",
            r"OWNER/NAME": "example/flights",
        },
        promised={
            "aws cloudformation describe-stacks --stack-name dynashard-prod": "MainTableName",
            'aws cloudformation describe-stacks --stack-name "$STACK-observability"': "DashboardUrl",
            "aws cloudwatch describe-alarms": rf"^{STACK}-write-throttles\s",
            'aws dynamodb get-item --table-name "$(output MetadataTableName)" --key \'{"pk": {"S": "KEY"}}\'': "number_of_shards",
            'aws dynamodb get-item --table-name "$(output MetadataTableName)" --key \'{"pk": {"S": "_ds_directory"}}\'': r"^\d+\.\d$",
            "aws lambda get-account-settings": "ConcurrentExecutions",
            "aws lambda list-event-source-mappings": "Enabled",
            "aws logs filter-log-events": '^{.*"status":"503"',
            "aws s3 cp": "^upload: .*dynashard-write-arm64.zip$",
            "aws sqs receive-message": "positions in the stream",
            "cargo run --release -- doctor": two_problems,
            "complaints Write": rf'^{{.*{digest}.*"level":"(ERROR|WARN)"',
            "dynashard adopt --policy": "^The policy is in",
            "dynashard doctor": two_problems,
            "dynashard reshards": rf"^{KEY}: 1 to 4 shards",
            "dynashard scale": "^audit: 4 shards",
            "dynashard settings": "RequestLifetimeSecs +960",
            "dynashard verify": " no findings$",
            "infra/costs.py": "puts",
            "printf %s 'EWR' | openssl": f"^{digest}$",
            "sam delete": "Deleted successfully",
            "sam deploy -": "Successfully created/updated stack|No changes to deploy",
            "sam package": "Successfully packaged",
            "verify --": " no findings$",
        },
        statuses={"cargo run --release -- doctor": 1, "dynashard doctor": 1},
    )
    ran = pages.run()
    # The one of the released functions.
    clients("cloudformation").delete_stack(StackName="dynashard")
    wrong = sum(each.is_wrong for each in ran)
    if wrong:
        raise Wrong(f"{wrong} commands of the pages are wrong, as the lines above say")
    # The other one was deleted by the last command.
    tables_client.describe_table(TableName=metadata)
    names_alone = sum(each.command.is_name() for each in ran)
    parsed = sum(each.result.startswith("parsed") for each in ran) - names_alone
    return f"{len(ran) - parsed - names_alone} commands ran, {parsed} were parsed only, and {names_alone} are names that exist"


# What infra/first_hour.py has to say here, where the rest is "cannot say" or as crude as MiniStack.
FIRST_HOUR = {
    "deployed": "pass",
    "protection": "pass",
    "log-level": "pass",
    "stream": "pass",
    "functions-may-write": "pass",
}


def check_first_hour(deployed: Deployed) -> str:
    """Runs the script that looks at a new stack: what it says here is right, and what it cannot ask it says."""
    command = [sys.executable, str(ROOT / "infra/first_hour.py"), "--stack-name", STACK, "--write", "--json", "--endpoint-url", deployed.stack.url]
    done = subprocess.run(command, env=deployed.stack.environment, capture_output=True, text=True, check=False)
    if not done.stdout.startswith("{"):
        raise Wrong(f"first_hour.py exits with {done.returncode}: {done.stderr[-2000:]}")
    said = {name: result["status"] for name, result in json.loads(done.stdout).items()}
    expect("the checks of the first hour", {name: said[name] for name in FIRST_HOUR}, FIRST_HOUR)
    expect("its exit status", done.returncode, int("fail" in said.values()))
    return ", ".join(f"{list(said.values()).count(status)} {status}" for status in ("pass", "fail", "cannot say"))


# By what the table calls them. The pages delete the stack, and the last one deploys it again.
CHECKS = {
    "configuration": check_configuration,
    "event source mapping": check_mapping,
    "Invoke": check_invoke,
    "HTTP API": check_routes,
    "stream": check_stream,
    "first hour": check_first_hour,
    "commands of the pages": check_pages,
    "restore": check_restore,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=Path, help="the command ministack")
    parser.add_argument("--write-table", action="store_true", help=f"write the table of {PAGE.relative_to(ROOT)}")
    options = parser.parse_args()
    # What was started is stopped, too, if this is.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with tempfile.TemporaryDirectory(prefix="ministack-") as folder:
        stack = MiniStack(str(options.program.resolve()), Path(folder))
        rows = [("What", "Result", "Time")]

        def note(what: str, result: str, began: float) -> None:
            rows.append((what, result, f"{time.monotonic() - began:.1f} s"))
            print(": ".join(rows[-1]), flush=True)

        try:
            began = time.monotonic()
            deployed = Deployed(stack)
            note("`sam deploy`", f"{len(deployed.names)} resources", began)
            for what, check in CHECKS.items():
                began = time.monotonic()
                note(what, check(deployed), began)
        except Wrong as wrong:
            print(f"{wrong}\nMiniStack's last lines:\n{stack.log.read_text()[-3000:]}", file=sys.stderr)
            return 1
        finally:
            stack.stop()
    if options.write_table:
        tables.write(PAGE, "infra/ministack.py", rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
