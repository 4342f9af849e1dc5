"""Deploys the released functions with SAM, Terraform and the CDK, as far as that goes without an account, and compares what
CloudFormation would make.

    npm ci --prefix infra/cdk --ignore-scripts
    python -m unittest discover --start-directory infra

Zips without a program stand in for the functions. Needs a Python that has aws-sam-cli and cfn-lint, and Terraform with its AWS
provider: where it cannot get these the test says so and goes on, unless DYNASHARD_TERRAFORM=required.
"""

import hashlib
import importlib
import io
import json
import logging
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zipfile
from pathlib import Path

import package
import released
from test_templates import APPLICATION, environments, refusals

ROOT = package.ROOT
VERSION, URL = "1.2.3", "https://example.com/dynashard"
BUCKET, PREFIX = "released", "here/"
lint_translated = importlib.import_module("lint-translated")
# It warns that nobody counts its translations.
logging.getLogger("samtranslator").setLevel(logging.ERROR)
NO_VALUE = {"Ref": "AWS::NoValue"}

# Parameters with which the resources differ much.
CASES = [
    {},
    {name: str(value) for name, value in environments()["prod"].items()} | {
        "OperatorRoleArns": "arn:aws:iam::123456789012:role/Operator",
        "FirstIndexName": "by-origin", "FirstIndexPartitionKey": "origin", "FirstIndexSortKey": "at", "ReadReplicas": "2",
        "WriteShardedIndexes": "first", "IndexShards": "4", "WarmWriteUnits": "8000", "WarmReadUnits": "24000", "TtlAttribute": "expires",
        "CorsAllowOrigins": "https://a.example,https://b.example", "ApiRateLimit": "100", "ApiBurstLimit": "50", "AccessLogs": "identity",
        "EncryptionKey": "arn:aws:kms:us-east-1:123456789012:key/0f", "Tracing": "xray", "WriteReservedConcurrency": "20",
    },
    {
        "Architecture": "x86_64", "AuthMode": "jwt", "JwtIssuer": "https://issuer.example", "JwtAudience": "web", "ControlAuth": "auth-mode",
        "ExistingMainTable": "Orders", "CapacityScaling": "function", "AccessLogs": "off", "MemorySize": "1024",
    },
    {"BillingMode": "PROVISIONED", "CapacityScaling": "auto-scaling", "AuthMode": "none", "SortKeyType": "N", "EncryptionKey": "aws-owned"},
]
# What is wrong with a parameter by itself, and what both say.
WRONG = {
    "MaxShard": ("64", "dynashard has no parameter MaxShard; docs/PARAMETERS.md lists those that there are."),
    "CodeBucket": ("mine", "dynashard has no parameter CodeBucket; docs/PARAMETERS.md lists those that there are."),
    "AuthMode": ("open", "AuthMode is one of: iam, jwt, none."),
    "PartitionKeyName": ("1", "PartitionKeyName begins with a letter and holds up to 255 letters, digits, underscores, dots and hyphens."),
    "MaxShards": ("0", "MaxShards is a number from 1 to 65536."),
    "WriteCapacityUnits": ("many", "WriteCapacityUnits is a number from 1."),
    "GrowKeys": ("a" * 321, "GrowKeys has at most 320 characters."),
}

# Synthesizes each case in a stack of its own.
APP = """
const { App, Stack } = require("aws-cdk-lib");
const { Dynashard } = require(process.argv[1]);
const app = new App({ outdir: process.argv[2] });
JSON.parse(process.argv[3]).forEach((parameters, index) => new Dynashard(new Stack(app, `Case${index}`), "Dynashard", { parameters }));
app.synth();
"""

# Uses all that the types promise, beside other resources of an app.
TYPED = """
import { App, Stack, aws_iam as iam, aws_kms as kms } from "aws-cdk-lib";
import { Dynashard } from "./construct/package";
const stack = new Stack(new App(), "Typed");
const key = new kms.Key(stack, "Key");
const caller = new iam.Role(stack, "Caller", { assumedBy: new iam.AccountRootPrincipal() });
const dynashard = new Dynashard(stack, "Dynashard", { parameters: { EncryptionKey: key.keyArn, MaxShards: 64 } });
dynashard.grantInvoke(caller);
dynashard.metadataTable.grantReadData(caller);
const { apiUrl, mainTable, outputs, include } = dynashard;
console.log(JSON.stringify({
  key: stack.resolve(key.keyArn), api: stack.resolve(apiUrl), table: stack.resolve(mainTable.tableName), write: outputs.WriteFunctionName !== "",
  encryption: stack.resolve((include.getResource("MainTable") as any).sseSpecification),
  allowed: (stack.resolve((caller.node.findChild("DefaultPolicy") as iam.Policy).document) as any).Statement.map((one: any) => one.Action),
}));
try {
  new Dynashard(new Stack(), "Late", { parameters: { AuthMode: key.keyArn } });
} catch (error) {
  console.error((error as Error).message);
}
"""

TERRAFORM = """
terraform {
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = "5.100.0"
    }
  }
}
provider "aws" {
  region                      = "us-east-1"
  access_key                  = "none"
  secret_key                  = "none"
  skip_credentials_validation = true
  skip_metadata_api_check     = true
  skip_requesting_account_id  = true
}
variable "parameters" { type = map(string) }
module "dynashard" {
  source     = "./module"
  bucket     = "released"
  # What is secret in one parameter is to hide no message about another.
  parameters = merge({ LogKeySecret = sensitive("") }, var.parameters)
}
"""


def comes_to(node, values: dict):
    """What CloudFormation makes of a part of a template, given its parameters, conditions and mappings. References between
    resources stay."""
    if isinstance(node, list):
        return [each for each in (comes_to(each, values) for each in node) if each != NO_VALUE]
    if not isinstance(node, dict):
        # CloudFormation takes each for the other.
        return str(node).lower() if isinstance(node, bool) else str(node)
    if node.keys() == {"Fn::If"}:
        condition, then, otherwise = node["Fn::If"]
        return comes_to(then if values["Conditions"][condition] else otherwise, values)
    if node.keys() == {"Ref"} and node["Ref"] in values:
        return values[node["Ref"]]
    if node.keys() == {"Fn::GetAtt"} and isinstance(node["Fn::GetAtt"], str):
        return {"Fn::GetAtt": node["Fn::GetAtt"].split(".", 1)}
    if node.keys() == {"Fn::FindInMap"}:
        name, *keys = comes_to(node["Fn::FindInMap"], values)
        return values["Mappings"][name][keys[0]][keys[1]]
    if node.keys() == {"Fn::Sub"} and isinstance(node["Fn::Sub"], str):
        text = re.sub(r"\$\{([\w:.]+)\}", lambda found: values.get(found[1], found[0]), node["Fn::Sub"])
        return {"Fn::Sub": text} if "${" in text else text
    if node.keys() == {"Fn::Split"}:
        delimiter, text = comes_to(node["Fn::Split"], values)
        return text.split(delimiter) if isinstance(text, str) else {"Fn::Split": [delimiter, text]}
    return {name: of for name, of in ((name, comes_to(each, values)) for name, each in node.items()) if of != NO_VALUE}


def is_true(node, values: dict, conditions: dict) -> bool:
    ((function, of),) = node.items()
    if function == "Condition":
        return is_true(conditions[of], values, conditions)
    if function == "Fn::Equals":
        left, right = comes_to(of, values)
        return left == right
    return {"Fn::Not": lambda each: not each[0], "Fn::And": all, "Fn::Or": any}[function]([is_true(each, values, conditions) for each in of])


def made(template: dict, parameters: dict[str, str], code) -> dict:
    """The resources and outputs that CloudFormation makes of a SAM template. `code` says what lies where a function's code is."""
    template = lint_translated.translated(json.loads(json.dumps(template)), parameters)
    values = {name: str(parameter.get("Default")) for name, parameter in template.get("Parameters", {}).items()} | parameters
    conditions = template.get("Conditions", {})
    values["Conditions"] = {name: is_true(node, values, conditions) for name, node in conditions.items()}
    values["Mappings"] = template.get("Mappings", {})
    result = {}
    for part in ("Resources", "Outputs"):
        for name, resource in template[part].items():
            if values["Conditions"].get(resource.get("Condition"), True):
                # Tools note there where a resource comes from.
                result[name] = comes_to({key: of for key, of in resource.items() if key not in ("Condition", "Metadata")}, values)
    for resource in result.values():
        if isinstance(resource.get("DependsOn"), str):
            resource["DependsOn"] = [resource["DependsOn"]]
        if resource.get("Type") == "AWS::Lambda::Function":
            resource["Properties"]["Code"] = code(resource["Properties"]["Code"])
    return result


def run(command: list[object], cwd: Path, **environment: str) -> subprocess.CompletedProcess:
    own = os.environ | environment
    if not Path(own.get("TF_CLI_CONFIG_FILE", cwd)).exists():
        del own["TF_CLI_CONFIG_FILE"]
    return subprocess.run([str(word) for word in command], cwd=cwd, env=own, capture_output=True, text=True, check=False)


class ARelease(unittest.TestCase):
    maxDiff = 4000

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.root = Path(folder.name)
        cls.folder = cls.released("released")
        cls.template = json.loads((cls.folder / released.TEMPLATE).read_text())

    @classmethod
    def released(cls, name: str) -> Path:
        folder = cls.root / name
        folder.mkdir()
        for zip_name in released.zip_names():
            package.write_zip(folder / zip_name, zip_name.encode())
        first = folder / released.zip_names()[0]
        # As infra/package.py leaves it.
        (folder / "SHA256SUMS").write_text(f"{hashlib.sha256(first.read_bytes()).hexdigest()}  {first.name}\n")
        released.release(folder, VERSION, URL)
        return folder

    def digest(self, name: str) -> str:
        return hashlib.sha256((self.folder / name).read_bytes()).hexdigest()

    def assert_same(self, got: dict, expected: dict) -> None:
        self.assertEqual(sorted(got), sorted(expected))
        differ = {name: (got[name], expected[name]) for name in got if got[name] != expected[name]}
        for name, (one, other) in differ.items():
            with self.subTest(name):
                self.assertEqual(one, other)

    def by_sam(self, case: dict[str, str]) -> dict:
        def code(place: dict) -> str:
            self.assertEqual(place["S3Bucket"], BUCKET)
            return self.digest(place["S3Key"].removeprefix(f"{PREFIX}{VERSION}/"))

        return made(self.template, case | {"CodeBucket": BUCKET, "CodePrefix": PREFIX}, code)

    def test_has_the_same_bytes_each_time_and_their_sums(self):
        again = self.released("again")
        names = sorted(path.name for path in self.folder.iterdir())
        self.assertEqual([path.name for path in sorted(again.iterdir())], names)
        for name in names:
            self.assertEqual((again / name).read_bytes(), (self.folder / name).read_bytes(), name)
        sums = dict(line.split("  ")[::-1] for line in (self.folder / "SHA256SUMS").read_text().splitlines())
        self.assertEqual(sums, {name: self.digest(name) for name in names if name not in ("SHA256SUMS", *released.zip_names()[1:])})

    def test_asks_for_a_bucket_and_nothing_else(self):
        self.assertEqual([name for name, of in self.template["Parameters"].items() if "Default" not in of], ["CodeBucket"])
        self.assertEqual(self.template["Parameters"].keys() - APPLICATION["Parameters"].keys(), {"CodeBucket", "CodePrefix"})
        groups = self.template["Metadata"]["AWS::CloudFormation::Interface"]["ParameterGroups"]
        self.assertEqual(sorted(name for group in groups for name in group["Parameters"]), sorted(self.template["Parameters"]))

    def test_makes_what_is_made_of_the_source(self):
        for case in CASES:
            of_source = lint_translated.packaged(json.loads(json.dumps(APPLICATION)))
            of_release = self.by_sam(case)
            functions = {name for name, resource in of_release.items() if resource.get("Type") == "AWS::Lambda::Function"}
            self.assertEqual(functions, set(package.FUNCTIONS))
            for name, binary in package.FUNCTIONS.items():
                architecture = case.get("Architecture", "arm64")
                self.assertEqual(of_release[name]["Properties"]["Code"], self.digest(f"{binary}-{architecture}.zip"))
                of_release[name]["Properties"]["Code"] = "packaged"
            self.assert_same(of_release, made(of_source, case, lambda _: "packaged"))

    def test_is_valid(self):
        for name, file in (("released", self.folder / released.TEMPLATE), ("repository", self.of_the_repository() / "template.json")):
            sam = run([Path(sys.executable).with_name("sam"), "validate", "--lint", "--template-file", file, "--region", "us-east-1"],
                      self.root, SAM_CLI_TELEMETRY="0")
            self.assertEqual(sam.returncode, 0, f"{name}: {sam.stdout}{sam.stderr}")
            self.assertIsNone(lint_translated.lint(file, {}, self.root), name)

    def of_the_repository(self) -> Path:
        folder = self.root / "repository"
        with zipfile.ZipFile(self.folder / f"dynashard-sar-{VERSION}.zip") as archive:
            archive.extractall(folder)
        return folder

    def test_is_an_application_for_the_repository_with_all_that_it_names(self):
        folder = self.of_the_repository()
        template = json.loads((folder / "template.json").read_text())
        shown = template["Metadata"]["AWS::ServerlessRepo::Application"]
        self.assertEqual((shown["SemanticVersion"], shown["SourceCodeUrl"]), (VERSION, URL))
        code = {resource["Properties"]["CodeUri"] for resource in template["Resources"].values() if resource["Type"] == "AWS::Serverless::Function"}
        named = {"template.json", shown["LicenseUrl"], shown["ReadmeUrl"], *code}
        self.assertEqual({path.name for path in folder.iterdir()}, named)
        for resource in template["Resources"].values():
            if resource["Type"] == "AWS::Serverless::Function":
                name = resource["Properties"]["CodeUri"]
                resource["Properties"]["CodeUri"] = f"s3://{BUCKET}/{name}"
                self.assertEqual((folder / name).read_bytes(), (self.folder / name).read_bytes())
        self.assert_same(made(template, {}, lambda place: self.digest(place["S3Key"])), self.by_sam({}))

    # The CDK.

    def construct(self) -> Path:
        folder, modules = self.root / "construct", ROOT / "infra/cdk/node_modules"
        if not folder.exists():
            self.assertTrue(modules.is_dir(), "run npm ci --prefix infra/cdk --ignore-scripts")
            (self.root / "node_modules").symlink_to(modules)
            with tarfile.open(self.folder / f"dynashard-cdk-{VERSION}.tgz") as archive:
                archive.extractall(folder, filter="data")
        return folder / "package"

    def cdk(self, script: str, *words: object) -> subprocess.CompletedProcess:
        return run(["node", "-e", script, self.construct(), *words], self.root)

    def test_is_the_same_by_the_cdk(self):
        out = self.root / "cdk.out"
        done = self.cdk(APP, out, json.dumps(CASES))
        self.assertEqual(done.returncode, 0, done.stderr)
        for index, case in enumerate(CASES):
            files = json.loads((out / f"Case{index}.assets.json").read_text())["files"].values()
            # By its key in the bucket of the account.
            uploaded = {
                destination["objectKey"]: hashlib.sha256((out / file["source"]["path"]).read_bytes()).hexdigest()
                for file in files for destination in file["destinations"].values()
            }
            template = json.loads((out / f"Case{index}.template.json").read_text())
            self.assertEqual(list(template["Parameters"]), ["BootstrapVersion"])
            with self.subTest(case):
                self.assert_same(made(template, {}, lambda place, uploaded=uploaded: uploaded[place["S3Key"]]), self.by_sam(case))

    def refused_by_the_cdk(self, case: dict[str, str]) -> str:
        done = self.cdk(APP, self.root / "refused.out", json.dumps([case]))
        self.assertNotEqual(done.returncode, 0)
        return done.stderr

    def test_is_refused_by_the_cdk_for_what_cloudformation_would_refuse(self):
        said = self.refused_by_the_cdk({name: value for name, (value, _) in WRONG.items()} | {"LogKeySecret": "a secret of mine"})
        for problem in [*(problem for _, problem in WRONG.values()), "LogKeySecret would stand in the template for all to read"]:
            self.assertIn(problem, said)
        for case in ({"AuthMode": "jwt"}, {"CapacityScaling": "function"}, {"WarmWriteUnits": "4000", "DynamoDbEndpoint": "http://localhost"}):
            expected = refusals(APPLICATION, case)
            self.assertTrue(expected)
            said = self.refused_by_the_cdk(case)
            for refusal in expected:
                self.assertIn(refusal, said)

    def test_takes_its_place_in_an_app_of_typescript(self):
        self.construct()
        (self.root / "typed.ts").write_text(TYPED)
        compiler = self.root / "node_modules/.bin/tsc"
        # The types of console are those of browsers.
        options = ["--strict", "--skipLibCheck", "--target", "es2022", "--module", "commonjs", "--lib", "es2022,dom"]
        done = run([compiler, *options, "typed.ts"], self.root)
        self.assertEqual(done.returncode, 0, done.stdout)
        done = run(["node", "typed.js"], self.root)
        self.assertIn("AuthMode has to be known when the app is synthesized.", done.stderr)
        said = json.loads(done.stdout)
        self.assertEqual(said["encryption"], {"sseEnabled": True, "sseType": "KMS", "kmsMasterKeyId": said["key"]})
        self.assertEqual((said["table"], said["write"]), ({"Ref": "MainTable"}, True))
        self.assertIn("HttpApi", json.dumps(said["api"]))
        self.assertEqual(said["allowed"][0], "execute-api:Invoke")
        self.assertIn("dynamodb:GetItem", said["allowed"][1])

    # Terraform.

    def terraform(self, *words: object) -> subprocess.CompletedProcess:
        return run(["terraform", *words, "-no-color"], self.root / "terraform")

    def initialized(self) -> None:
        """Makes a root module that calls the released one, or skips the test."""
        folder = self.root / "terraform"
        if folder.exists():
            return
        is_required = os.environ.get("DYNASHARD_TERRAFORM") == "required"
        problem = "Terraform is not installed"
        if shutil.which("terraform"):
            (folder / "module").mkdir(parents=True)
            with zipfile.ZipFile(self.folder / f"dynashard-terraform-{VERSION}.zip") as archive:
                archive.extractall(folder / "module")
            (folder / "main.tf").write_text(TERRAFORM)
            done = self.terraform("init", "-input=false")
            if done.returncode == 0:
                return
            mirrors = [Path.home() / ".terraform.d/plugins", Path("/usr/local/share/terraform/plugins"), *sorted(Path("/opt").glob("*"))]
            for mirror in mirrors:
                if (mirror / "registry.terraform.io").is_dir() and self.terraform("init", "-input=false", f"-plugin-dir={mirror}").returncode == 0:
                    return
            problem = f"Terraform has no AWS provider: {done.stderr.strip()[-400:]}"
            shutil.rmtree(folder)
        if is_required:
            self.fail(problem)
        print(f"!!! SKIPPED: the Terraform module was not planned. {problem}\n"
              "!!! Install Terraform 1.9 or later, and run .ci/run templates again.", file=sys.stderr)
        self.skipTest(problem)

    def plan(self, case: dict[str, str]) -> subprocess.CompletedProcess:
        (self.root / "terraform/terraform.tfvars.json").write_text(json.dumps({"parameters": case}))
        return self.terraform("plan", "-input=false", "-out=planned")

    def test_is_the_same_by_terraform(self):
        self.initialized()
        for command in (["fmt", "-check", "-diff", "module"], ["validate"]):
            done = self.terraform(*command)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for case in CASES:
            done = self.plan(case)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            (module,) = json.loads(self.terraform("show", "-json", "planned").stdout)["planned_values"]["root_module"]["child_modules"]
            (stack,) = [each["values"] for each in module["resources"] if each["type"] == "aws_cloudformation_stack"]
            objects = {
                f"https://s3.us-east-1.amazonaws.com/{each['bucket']}/{each['key']}": self.root / "terraform" / each["source"]
                for each in (resource["values"] for resource in module["resources"] if resource["type"] == "aws_s3_object")
            }
            self.assertEqual(len(module["resources"]), len(objects) + 1, "nothing else is made")
            template = json.loads(objects.pop(stack["template_url"]).read_text())
            named = set()

            def code(place: dict, objects=objects, named=named) -> str:
                url = f"https://s3.us-east-1.amazonaws.com/{place['S3Bucket']}/{place['S3Key']}"
                named.add(url)
                return hashlib.sha256(objects[url].read_bytes()).hexdigest()

            with self.subTest(case):
                self.assert_same(made(template, stack["parameters"], code), self.by_sam(case))
                self.assertEqual(set(objects), named, "what is uploaded is what the functions have")
            self.assertEqual(json.loads(stack["policy_body"]), json.loads((ROOT / "infra/stack-policy.json").read_text()))
            self.assertEqual(sorted(stack["capabilities"]), ["CAPABILITY_AUTO_EXPAND", "CAPABILITY_IAM"])

    def test_is_refused_by_terraform_for_what_cloudformation_would_refuse(self):
        self.initialized()
        done = self.plan({name: value for name, (value, _) in WRONG.items()})
        self.assertNotEqual(done.returncode, 0)
        # Terraform breaks lines, and draws a bar before each.
        said = re.sub(r"[\s│]+", " ", done.stderr)
        for _, problem in WRONG.values():
            self.assertIn(problem, said)


if __name__ == "__main__":
    unittest.main()
