const { mkdtempSync, readFileSync, rmSync, writeFileSync } = require("node:fs");
const { tmpdir } = require("node:os");
const { basename, join } = require("node:path");
const { Stack, Token } = require("aws-cdk-lib");
const { CfnInclude } = require("aws-cdk-lib/cloudformation-include");
const { Table } = require("aws-cdk-lib/aws-dynamodb");
const { Grant } = require("aws-cdk-lib/aws-iam");
const { Asset } = require("aws-cdk-lib/aws-s3-assets");
const { Construct } = require("constructs");

// The construct itself says where the functions lie.
const PLACE = ["CodeBucket", "CodePrefix"];

class Dynashard extends Construct {
  constructor(scope, id, { parameters = {}, release = join(__dirname, "release") } = {}) {
    super(scope, id);
    const template = JSON.parse(readFileSync(join(release, "dynashard-template.json"), "utf8"));
    const values = valuesOf(template, parameters);
    const conditions = conditionsOf(template, values);
    const problems = [...problemsOf(template, parameters), ...refusalsOf(template, values)];
    if (problems.length > 0) throw new Error(`dynashard cannot be deployed so:\n${problems.join("\n")}`);

    this.include = this.included(chosen(template, conditions), values);
    for (const [name, resource] of Object.entries(template.Resources)) {
      if (resource.Type !== "AWS::Serverless::Function") continue;
      const file = basename(resource.Properties.CodeUri.Key["Fn::Sub"]).replace("${Architecture}", values.Architecture);
      const asset = new Asset(this, `${name}Code`, { path: join(release, file) });
      this.include.getResource(name).codeUri = { bucket: asset.s3BucketName, key: asset.s3ObjectKey };
    }

    const names = Object.keys(template.Outputs).filter((name) => conditions[template.Outputs[name].Condition] ?? true);
    this.outputs = Object.fromEntries(names.map((name) => [name, this.include.getOutput(name).value]));
    this.apiUrl = this.outputs.ApiUrl;
    this.mainTable = Table.fromTableName(this, "Main", this.outputs.MainTableName);
    this.metadataTable = Table.fromTableName(this, "Metadata", this.outputs.MetadataTableName);
  }

  grantInvoke(grantee) {
    const api = Stack.of(this).formatArn({ service: "execute-api", resource: this.outputs.HttpApiId, resourceName: "*" });
    return Grant.addToPrincipal({ grantee, actions: ["execute-api:Invoke"], resourceArns: [api] });
  }

  included(template, values) {
    // CfnInclude takes nothing but files.
    const folder = mkdtempSync(join(tmpdir(), "dynashard-"));
    try {
      const templateFile = join(folder, "template.json");
      writeFileSync(templateFile, JSON.stringify(template));
      return new CfnInclude(this, "Template", { templateFile, parameters: values });
    } finally {
      rmSync(folder, { recursive: true });
    }
  }
}

// What each parameter comes to. A CDK app passes no parameters to CloudFormation, which would keep the values of the last
// deployment, so they are put into the template.
function valuesOf(template, given) {
  return Object.fromEntries(Object.entries(template.Parameters).map(([name, { Type, Default }]) => {
    const value = given[name] ?? Default ?? "";
    return [name, Token.isUnresolved(value) ? value : Type === "Number" ? Number(value) : String(value)];
  }));
}

// What CloudFormation would say about each parameter alone. Each has a default, so none can be missing.
function problemsOf({ Parameters }, given) {
  return Object.entries(given).filter(([, value]) => value != null).flatMap(([name, value]) => {
    const parameter = Parameters[name];
    if (!parameter || PLACE.includes(name)) return `dynashard has no parameter ${name}; docs/PARAMETERS.md lists those that there are.`;
    const { Type, AllowedValues, AllowedPattern, ConstraintDescription, MinValue, MaxValue, MaxLength, NoEcho } = parameter;
    if (Token.isUnresolved(value)) {
      // Resources depend on it, so it cannot wait until the deployment.
      return AllowedValues || Type === "Number" ? `${name} has to be known when the app is synthesized.` : [];
    }
    const text = String(value);
    if (NoEcho && text !== "" && !text.startsWith("{{resolve:")) {
      return `${name} would stand in the template for all to read: put it into a secret, and give secret.secretValue.unsafeUnwrap().`;
    }
    if (AllowedValues && !AllowedValues.map(String).includes(text)) return `${name} is one of: ${AllowedValues.join(", ")}.`;
    if (AllowedPattern && !new RegExp(AllowedPattern).test(text)) return `${name} ${ConstraintDescription}.`;
    if (text.length > (MaxLength ?? Infinity)) return `${name} has at most ${MaxLength} characters.`;
    const isInRange = text.trim() !== "" && Number(text) >= (MinValue ?? -Infinity) && Number(text) <= (MaxValue ?? Infinity);
    if (Type === "Number" && !isInRange) {
      return `${name} is a number${MinValue === undefined ? "" : ` from ${MinValue}`}${MaxValue === undefined ? "" : ` to ${MaxValue}`}.`;
    }
    return [];
  });
}

// What a condition comes to, or an operand of one. What is known at the deployment alone equals nothing that a template can name.
function evaluated(node, values, conditions) {
  if (node === null || typeof node !== "object") return String(node);
  const [[name, of]] = Object.entries(node);
  const each = () => of.map((operand) => evaluated(operand, values, conditions));
  switch (name) {
    case "Ref": return String(values[of]);
    case "Condition": return evaluated(conditions[of], values, conditions);
    case "Fn::Equals": return each()[0] === each()[1];
    case "Fn::Not": return !each()[0];
    case "Fn::And": return each().every(Boolean);
    case "Fn::Or": return each().some(Boolean);
    case "Fn::Contains": return of[0].map(String).includes(evaluated(of[1], values, conditions));
    default: throw new Error(`dynashard's template has a condition with ${name}, which this construct does not know`);
  }
}

function conditionsOf({ Conditions }, values) {
  return Object.fromEntries(Object.entries(Conditions).map(([name, node]) => [name, evaluated(node, values, Conditions)]));
}

// What the rules of the template refuse. Resources may follow in a template, but no rules about values that are in it already.
function refusalsOf({ Rules, Conditions }, values) {
  return Object.values(Rules)
    .filter(({ RuleCondition }) => !RuleCondition || evaluated(RuleCondition, values, Conditions))
    .flatMap(({ Assertions }) => Assertions.filter(({ Assert }) => !evaluated(Assert, values, Conditions)))
    .map(({ AssertDescription }) => AssertDescription);
}

// The template without what its conditions leave out. CloudFormation's conditions take no value of another resource, such as the
// ARN of a key of the same app.
function chosen({ Rules, Conditions, Metadata, ...template }, conditions) {
  const isLeftOut = (node) => node?.Ref === "AWS::NoValue";
  const walk = (node) => {
    if (node === null || typeof node !== "object") return node;
    if (Array.isArray(node)) return node.map(walk).filter((each) => !isLeftOut(each));
    if (node["Fn::If"]) return walk(node["Fn::If"][conditions[node["Fn::If"][0]] ? 1 : 2]);
    return Object.fromEntries(Object.entries(node).map(([key, each]) => [key, walk(each)]).filter(([, each]) => !isLeftOut(each)));
  };
  for (const section of ["Resources", "Outputs"]) {
    const there = Object.entries(template[section]).filter(([, { Condition }]) => conditions[Condition] ?? true);
    template[section] = Object.fromEntries(there.map(([name, { Condition, ...rest }]) => [name, rest]));
  }
  return walk(template);
}

module.exports = { Dynashard };
