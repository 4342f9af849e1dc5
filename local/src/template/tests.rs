mod alarms;
mod damage;
mod roles;

use std::time::Duration;

use serde_json::json;

use super::*;
use crate::plan::{
    Authorization, EventPolicy, InsightsMode, JwtAuthorizer, LogLevel, RetryPolicy, Schedule,
    StartingPosition,
};

/// The template that is deployed.
fn shipped() -> TemplateSource {
    TemplateSource::Path(PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../template.yaml")))
}

fn overrides(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    let pairs = pairs.iter();
    pairs.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn load(text: &str) -> Result<Plan, StartError> {
    load_with(text, &[])
}

fn load_with(text: &str, pairs: &[(&str, &str)]) -> Result<Plan, StartError> {
    let source = TemplateSource::Text { name: "t.yaml".to_owned(), text: text.to_owned() };
    load_template(&source, &overrides(pairs))
}

/// A small template with `resources` for its section of that name.
fn with_resources(resources: &str) -> String {
    format!("Transform: AWS::Serverless-2016-10-31\nResources:\n{resources}")
}

fn problem(text: &str) -> String {
    load(text).expect_err("a problem").to_string()
}

#[test]
fn the_shipped_template_gives_the_tables_functions_and_routes_of_the_contract() {
    let template = load_template(&shipped(), &[]).expect("the shipped template");
    let tables: Vec<_> = template.tables.iter().map(|table| table.name.as_str()).collect();
    assert_eq!(tables, ["MainTable", "MetadataTable"]);
    let functions: Vec<_> =
        template.functions.iter().map(|function| function.name.as_str()).collect();
    assert_eq!(functions, ["WriteFunction", "ReadFunction", "ScaleFunction", "RebalanceFunction"]);
    let routes: Vec<_> = template
        .functions
        .iter()
        .flat_map(|function| function.routes.iter().map(move |route| (function, route)))
        .map(|(function, route)| format!("{} {} {}", function.name, route.method, route.path))
        .collect();
    assert_eq!(
        routes,
        [
            "WriteFunction PUT /item",
            "WriteFunction PATCH /item",
            "WriteFunction DELETE /item",
            "WriteFunction POST /item/put",
            "WriteFunction POST /item/patch",
            "WriteFunction POST /item/delete",
            "WriteFunction POST /batch-write",
            "WriteFunction POST /counter",
            "WriteFunction DELETE /counter",
            "ReadFunction GET /item",
            "ReadFunction HEAD /item",
            "ReadFunction POST /item/get",
            "ReadFunction POST /batch-get",
            "ReadFunction GET /query",
            "ReadFunction POST /query",
            "ReadFunction GET /counter",
            "ReadFunction GET /collection",
            "ScaleFunction PUT /collection",
            "ScaleFunction POST /collection/scale",
        ]
    );
    let write = &template.functions[0];
    assert_eq!(write.binary, "dynashard-write");
    assert_eq!(write.timeout, Duration::from_secs(29));
    assert_eq!(write.memory_mb, 512);
    assert!(template.functions.iter().all(|function| function.reserved_concurrency.is_none()));
    assert_eq!(write.log_format, "JSON");
    assert_eq!(write.environment["MAIN_TABLE"], "MainTable");
    assert_eq!(write.environment["METADATA_TABLE"], "MetadataTable");
    assert_eq!(write.environment["SEPARATOR"], "#~");
    assert_eq!(write.environment["SCALING_MODE"], "on");
    assert_eq!(write.environment["SHRINK_MODE"], "off");
    assert_eq!(template.lifetime_and_age(), Some([960, 0].map(Duration::from_secs)));
}

/// On AWS the rule of the template refuses it. Here the endpoint executes no older request.
#[test]
fn rules_guard_accounts_and_not_this_machine() {
    let short = load_template(&shipped(), &overrides(&[("RequestLifetimeSecs", "5")]));
    let short = short.expect("the shipped template");
    assert_eq!(short.lifetime_and_age(), Some([5, 0].map(Duration::from_secs)));
    assert_eq!(short.functions[0].environment["REQUEST_LIFETIME_VERIFIED"], "no");
}

#[test]
fn the_shipped_template_makes_the_tables_with_the_keys_of_its_parameters() {
    let given =
        overrides(&[("PartitionKeyName", "user"), ("SortKeyName", "at"), ("SortKeyType", "N")]);
    let template = load_template(&shipped(), &given).expect("the shipped template");
    let [main, metadata] = template.tables.as_slice() else {
        panic!("two tables");
    };
    assert_eq!(
        main.create_request,
        json!({
            "TableName": "MainTable",
            "BillingMode": "PAY_PER_REQUEST",
            "DeletionProtectionEnabled": true,
            "AttributeDefinitions": [
                { "AttributeName": "user", "AttributeType": "S" },
                { "AttributeName": "at", "AttributeType": "N" },
            ],
            "KeySchema": [
                { "AttributeName": "user", "KeyType": "HASH" },
                { "AttributeName": "at", "KeyType": "RANGE" },
            ],
        })
    );
    assert_eq!(main.insights, Some(InsightsMode::ThrottledKeys));
    assert_eq!(metadata.insights, None);
    let metadata = &metadata.create_request;
    assert_eq!(metadata["DeletionProtectionEnabled"], true);
    assert_eq!(
        metadata["StreamSpecification"],
        json!({ "StreamViewType": "NEW_AND_OLD_IMAGES", "StreamEnabled": true })
    );
    // A partition key of the table may be too long for the sort key of an index.
    for (index, (name, key)) in
        [("active", "_ds_active"), ("decisions", "_ds_decisions")].iter().enumerate()
    {
        let index = &metadata["GlobalSecondaryIndexes"][index];
        assert_eq!(index["IndexName"], *name);
        assert_eq!(index["KeySchema"], json!([{ "AttributeName": key, "KeyType": "HASH" }]));
    }
}

#[test]
fn the_shipped_template_makes_a_table_with_a_capacity_where_it_is_asked_to() {
    let given = [
        ("BillingMode", "PROVISIONED"),
        ("WriteCapacityUnits", "50"),
        ("CapacityScaling", "auto-scaling"),
    ];
    let template = load_template(&shipped(), &overrides(&given)).expect("the shipped template");
    let main = &template.tables[0].create_request;
    assert_eq!(main["BillingMode"], "PROVISIONED");
    let units = json!({ "ReadCapacityUnits": 5, "WriteCapacityUnits": 50 });
    assert_eq!(main["ProvisionedThroughput"], units);
    assert_eq!(template.alarms.len(), 2, "auto scaling has its own");
}

#[test]
fn a_capacity_is_a_positive_number_of_units() {
    let table = |throughput: &str| {
        let kind = "  T:\n    Type: AWS::DynamoDB::Table\n    Properties:\n";
        with_resources(&format!("{kind}      ProvisionedThroughput: {throughput}\n"))
    };
    for (throughput, expected) in [
        (
            "{ ReadCapacityUnits: 1, WriteCapacityUnits: 0 }",
            "t.yaml:6: WriteCapacityUnits of ProvisionedThroughput of T",
        ),
        ("{ ReadCapacityUnits: many, WriteCapacityUnits: 1 }", "must be a whole number from 1"),
        (
            "{ ReadCapacityUnits: 1 }",
            "ProvisionedThroughput of T, a AWS::DynamoDB::Table has no WriteCapacityUnits",
        ),
        (
            "{ ReadCapacityUnits: 1, WriteCapacityUnits: 1, Mode: warm }",
            "does not know the property Mode of ProvisionedThroughput",
        ),
    ] {
        let error = problem(&table(throughput));
        assert!(error.contains(expected), "{throughput}: {error}");
    }
}

#[test]
fn the_shipped_template_leads_reshards_and_the_time_to_the_rebalance_function() {
    let template = load_template(&shipped(), &[]).expect("the shipped template");
    assert_eq!(template.queues, ["RebalanceFailures"]);
    let rebalance = &template.functions[3];
    assert_eq!(rebalance.binary, "dynashard-rebalance");
    assert_eq!(rebalance.timeout, Duration::from_mins(1));
    assert!(rebalance.routes.is_empty());

    let [moves, beginnings] = &rebalance.streams[..] else { panic!("two mappings") };
    for (mapping, batch_size) in [(beginnings, 100), (moves, 10)] {
        assert_eq!(mapping.table, "MetadataTable");
        assert_eq!(mapping.start, StartingPosition::TrimHorizon);
        assert_eq!((mapping.batch_size, mapping.window), (batch_size, Duration::ZERO));
        assert_eq!(mapping.on_failure.as_deref(), Some("RebalanceFailures"));
        assert!(mapping.reports_failures);
        let max_age = Duration::from_hours(1);
        assert_eq!(mapping.retry, RetryPolicy { max_retries: Some(3), max_age, bisect: true });
    }
    let passes = |record: serde_json::Value| {
        [beginnings, moves].map(|mapping| {
            mapping.filters.iter().any(|filter| filter.matches(&json!({ "dynamodb": record })))
        })
    };
    let phases = [("stable", [false, false]), ("forward", [true, false]), ("move", [false, true])];
    for (phase, expected) in phases {
        let image = json!({ "phase": { "S": phase } });
        assert_eq!(passes(json!({ "NewImage": image })), expected, "{phase}");
        assert_eq!(passes(json!({ "OldImage": image })), [false, false], "the collection is gone");
    }
    for (slice, expected) in [("yielded", true), ("running", false)] {
        let image = json!({ "slice": { "S": slice } });
        assert_eq!(passes(json!({ "NewImage": image })), [false, expected], "{slice}");
    }

    let interval = Duration::from_mins(1);
    let sweep = Schedule { id: "RebalanceFunctionSweep".to_owned(), interval };
    assert_eq!(rebalance.schedules, [sweep]);
    let others = &template.functions[..3];
    assert!(others.iter().all(|function| function.streams.is_empty()));
    let scheduled = others.iter().filter(|function| !function.schedules.is_empty());
    let scheduled = scheduled.map(|function| function.name.as_str()).collect::<Vec<_>>();
    assert_eq!(scheduled, ["ScaleFunction"], "it looks whether its alarm is raised");
}

#[test]
fn an_override_that_is_unknown_or_not_allowed_is_refused_with_what_is_allowed() {
    for (name, value, expected) in [
        ("Placment", "jump", "it has Placement, PartitionKeyName,"),
        ("Placement", "md5", "\"md5\" is not allowed; it takes one of xxh64 jump random"),
        ("LeaseSecs", "61", "it takes a number from 1 to 60"),
        ("LeaseSecs", "0", "it takes a number from 1 to 60"),
        ("LeaseSecs", "soon", "it takes a number from 1 to 60"),
        ("LeaseSecs", "NaN", "it takes a number from 1 to 60"),
        ("LeaseSecs", "", "it takes a number from 1 to 60"),
        ("Separator", "##", "it takes one of #~ # _ . - :"),
        ("PartitionKeyName", "_ds_pk", "begins with a letter"),
        ("SortKeyName", "", "begins with a letter"),
    ] {
        let error = load_template(&shipped(), &overrides(&[(name, value)])).expect_err(value);
        let error = error.to_string();
        assert!(error.starts_with(&format!("parameter {name}: ")), "{error}");
        assert!(error.contains(expected), "{error}");
        assert!(!error.contains('\n'), "{error}");
    }
    let given = overrides(&[("LeaseSecs", "1"), ("LeaseSecs", "2")]);
    let template = load_template(&shipped(), &given).expect("the last one counts");
    assert_eq!(template.parameter("LeaseSecs"), Some("2"));
}

#[test]
fn a_template_that_cannot_be_read_is_named() {
    let source = TemplateSource::Path(PathBuf::from("no/such/template.yaml"));
    let error = load_template(&source, &[]).expect_err("no file").to_string();
    assert!(error.starts_with("no/such/template.yaml: cannot be read"), "{error}");
}

#[test]
fn text_that_is_not_a_template_is_refused_with_its_line() {
    for (text, expected) in [
        ("", "t.yaml: the template is empty"),
        ("# nothing\n", "t.yaml: the template is empty"),
        ("a: [1,\nb: 2", "t.yaml:"),
        ("a: \"open", "t.yaml:"),
        ("- a\n- b\n", "t.yaml:1: the template must be a mapping"),
        ("Resources: {}\n", "t.yaml:1: the template has no Transform"),
        ("Resources: {}\nResources: {}\n", "t.yaml:2: the entry Resources is here a second time"),
        ("Resourcez: {}\n", "does not know the property Resourcez of the template"),
        ("a: &x 1\nb: *x\n", "t.yaml:2: the local stack does not know YAML aliases"),
        ("a: 1\n---\nb: 2\n", "a second YAML document"),
        ("? [a]\n: b\n", "the name of an entry must be a string"),
    ] {
        let error = problem(text);
        assert!(error.contains(expected), "{text:?}: {error}");
        assert!(!error.contains('\n'), "{error}");
    }
    let deep = format!(
        "a:
  {}b",
        "- ".repeat(1000)
    );
    assert!(problem(&deep).contains("nested too deeply"));
}

#[test]
fn unsupported_parts_of_a_template_are_refused_with_their_line() {
    for (resources, expected) in [
        (
            "  Topic:\n    Type: AWS::SNS::Topic\n",
            "t.yaml:4: the local stack does not know the resource type AWS::SNS::Topic of Topic",
        ),
        (
            "  Queue:\n    Type: AWS::SQS::Queue\n    Properties:\n      FifoQueue: true\n",
            "t.yaml:6: the local stack does not know the property FifoQueue of Queue",
        ),
        ("  Table:\n    Properties: {}\n", "t.yaml:4: Table has no Type"),
        (
            "  Table:\n    Type: AWS::DynamoDB::Table\n    Properties:\n      TableClass: STANDARD\n",
            "t.yaml:6: the local stack does not know the property TableClass of Table",
        ),
        (
            "  Table:\n    Type: AWS::DynamoDB::Table\n    Properties:\n      BillingMode: !Select [0, [a]]\n",
            "t.yaml:6: the local stack does not know the intrinsic !Select",
        ),
        (
            "  Table:\n    Type: AWS::DynamoDB::Table\n    Properties:\n      BillingMode: { \"Fn::Select\": [0, [a]] }\n",
            "t.yaml:6: the local stack does not know the intrinsic Fn::Select",
        ),
        (
            "  Table:\n    Type: AWS::DynamoDB::Table\n    Properties:\n      BillingMode: !Ref Nothing\n",
            "t.yaml:6: Nothing is not a parameter, resource or pseudo parameter",
        ),
        (
            "  Table:\n    Type: AWS::DynamoDB::Table\n    Properties:\n      BillingMode: !GetAtt Table.TableId\n",
            "does not know the attribute TableId of Table",
        ),
        (
            "  Table:\n    Type: AWS::DynamoDB::Table\n    Properties:\n      BillingMode: !FindInMap [Modes, a, b]\n",
            "t.yaml:6: Mappings has no Modes where Fn::FindInMap looks for it",
        ),
        (
            "  Table:\n    Type: AWS::DynamoDB::Table\n    Properties:\n      BillingMode: !FindInMap [Modes, a]\n",
            "t.yaml:6: Fn::FindInMap takes a map and two keys",
        ),
        (
            "  Table:\n    Type: AWS::DynamoDB::Table\n    Properties:\n      BillingMode: !Split [\"\", a]\n",
            "t.yaml:6: Fn::Split takes a separator and a text",
        ),
        (
            "  Table:\n    Type: AWS::DynamoDB::Table\n    Condition: Never\n",
            "the template has no condition Never",
        ),
        (
            "  Role:\n    Type: AWS::IAM::Role\n    CreationPolicy: {}\n",
            "does not know the property CreationPolicy of Role",
        ),
        ("  F:\n    Type: AWS::Serverless::Function\n", "has no Runtime"),
        (
            "  F:\n    Type: AWS::Serverless::Function\n    Properties: { Runtime: python3.13 }\n",
            "must be provided.al2023 here, not python3.13",
        ),
        (
            "  F:\n    Type: AWS::Serverless::Function\n    Properties: { Runtime: provided.al2023 }\n",
            "Metadata of F, a AWS::Serverless::Function has no BuildMethod",
        ),
    ] {
        let error = problem(&with_resources(resources));
        assert!(error.contains(expected), "{resources}: {error}");
    }
}

#[test]
fn contributor_insights_are_read_as_cloudformation_reads_them() {
    let table = |specification: &str| {
        with_resources(&format!(
            "  Table:\n    Type: AWS::DynamoDB::Table\n    Properties:\n      \
             ContributorInsightsSpecification: {specification}\n"
        ))
    };
    for (specification, expected) in [
        ("{ Enabled: true, Mode: THROTTLED_KEYS }", Some(InsightsMode::ThrottledKeys)),
        ("{ Enabled: true }", Some(InsightsMode::AccessedAndThrottledKeys)),
        ("{ Enabled: false, Mode: THROTTLED_KEYS }", None),
    ] {
        let template = load(&table(specification)).expect(specification);
        assert_eq!(template.tables[0].insights, expected, "{specification}");
    }
    for (specification, expected) in [
        ("{ Mode: THROTTLED_KEYS }", "has no Enabled"),
        ("{ Enabled: maybe }", "Enabled"),
        (
            "{ Enabled: true, Mode: ALL }",
            "ACCESSED_AND_THROTTLED_KEYS or THROTTLED_KEYS here, not ALL",
        ),
        ("{ Enabled: true, Keys: 2 }", "the property Keys"),
    ] {
        let error = problem(&table(specification));
        assert!(error.contains("t.yaml:6: ") && error.contains(expected), "{error}");
    }
}

/// A function `F` behind an API, with a route `GET /a`. A test replaces parts of it.
const WITH_API: &str = "  F:
    Type: AWS::Serverless::Function
    Metadata: { BuildMethod: rust-cargolambda, BuildProperties: { Binary: f } }
    Properties: { Runtime: provided.al2023 }
  Api: { Type: AWS::ApiGatewayV2::Api, Properties: { Name: a, ProtocolType: HTTP } }
  Stage: { Type: AWS::ApiGatewayV2::Stage, Properties: { ApiId: !Ref Api, StageName: $default, AutoDeploy: true } }
  May: { Type: AWS::Lambda::Permission, Properties: { Action: lambda:InvokeFunction, FunctionName: !Ref F, Principal: apigateway.amazonaws.com, SourceArn: !Sub 'arn:aws:execute-api:${AWS::Region}:${AWS::AccountId}:${Api}/*' } }
  Calls: { Type: AWS::ApiGatewayV2::Integration, Properties: { ApiId: !Ref Api, IntegrationType: AWS_PROXY, IntegrationUri: !GetAtt F.Arn, PayloadFormatVersion: '2.0' } }
  A: { Type: AWS::ApiGatewayV2::Route, Properties: { ApiId: !Ref Api, RouteKey: GET /a, Target: !Sub 'integrations/${Calls}' } }
";

/// An API with another resource on line 12.
fn api_and(resource: &str) -> String {
    with_resources(&format!("{WITH_API}  B: {resource}\n"))
}

#[test]
fn routes_lead_to_functions_and_say_whom_they_let_in() {
    let route = "{ Type: AWS::ApiGatewayV2::Route, Properties: { ApiId: !Ref Api, RouteKey: POST /a, \
                 Target: !Sub 'integrations/${Calls}', AuthorizationType: JWT, AuthorizerId: !Ref Tokens } }
  Tokens: { Type: AWS::ApiGatewayV2::Authorizer, Properties: { ApiId: !Ref Api, Name: t, AuthorizerType: JWT, \
                 IdentitySource: [$request.header.Authorization], \
                 JwtConfiguration: { Issuer: https://i, Audience: !Split [',', 'a,b'] } } }";
    let plan = load(&api_and(route)).expect("two routes");
    let [get, post] = &plan.functions[0].routes[..] else { panic!("two routes") };
    assert_eq!((get.method.as_str(), get.path.as_str()), ("GET", "/a"));
    assert_eq!((get.timeout, &get.authorization), (Duration::from_secs(30), &Authorization::None));
    let audiences = vec!["a".to_owned(), "b".to_owned()];
    let authorizer = JwtAuthorizer { issuer: "https://i".to_owned(), audiences };
    assert_eq!(post.authorization, Authorization::Jwt(authorizer));
}

#[test]
fn unsupported_routes_are_refused_with_their_line() {
    let route = |key: &str, more: &str| {
        format!(
            "{{ Type: AWS::ApiGatewayV2::Route, Properties: {{ ApiId: !Ref Api, RouteKey: {key}, Target: integrations/Calls{more} }} }}"
        )
    };
    for (resource, expected) in [
        (route("GET /a", ""), "t.yaml:12: two routes are GET /a"),
        (route("ANY /a", ""), "not ANY /a"),
        (route("$default", ""), "not $default"),
        (route("\"GET /{proxy+}\"", ""), "not GET /{proxy+}"),
        (route("GET /b", ", Cors: {}"), "does not know the property Cors"),
        (route("GET /b", ", AuthorizationType: CUSTOM"), "must be NONE, AWS_IAM or JWT here, not CUSTOM"),
        (route("GET /b", ", AuthorizationType: JWT"), "has no AuthorizerId"),
        (route("GET /b", ", AuthorizationType: JWT, AuthorizerId: Calls"), "must be an authorizer here"),
        (route("GET /b", "").replace("/Calls", "/Api"), "Target of B, a AWS::ApiGatewayV2::Route must be"),
        (route("GET /b", "").replace("!Ref Api", "other"), "is other, which is not the API here"),
        (
            "{ Type: AWS::ApiGatewayV2::Api, Properties: { Name: b, ProtocolType: HTTP } }".to_owned(),
            "serves one HTTP API, and not B",
        ),
        (
            "{ Type: AWS::ApiGatewayV2::Stage, Properties: { ApiId: !Ref Api, StageName: $default } }".to_owned(),
            "must have AutoDeploy",
        ),
        ("{ Type: AWS::ApiGatewayV2::VpcLink, Properties: {} }".to_owned(), "does not know the resource type"),
    ] {
        let error = problem(&api_and(&resource));
        assert!(error.contains(expected), "{resource}: {error}");
    }
    for (part, other, expected) in [
        (
            "ProtocolType: HTTP",
            "ProtocolType: WEBSOCKET",
            "t.yaml:7: ProtocolType of Api, a AWS::ApiGatewayV2::Api must be HTTP here",
        ),
        ("StageName: $default", "StageName: v1", "must be $default here, not v1"),
        ("PayloadFormatVersion: '2.0'", "PayloadFormatVersion: '1.0'", "must be 2.0 here"),
        (
            "IntegrationUri: !GetAtt F.Arn",
            "IntegrationUri: http://a",
            "must be !GetAtt Function.Arn",
        ),
        ("'2.0' }", "'2.0', TimeoutInMillis: long }", "must be a whole number"),
        (
            "Principal: apigateway.amazonaws.com",
            "Principal: s3.amazonaws.com",
            "no AWS::Lambda::Permission lets",
        ),
        (":${Api}/*'", ":other/*'", "no AWS::Lambda::Permission lets"),
    ] {
        assert!(WITH_API.contains(part), "{part}");
        let error = problem(&with_resources(&WITH_API.replace(part, other)));
        assert!(error.contains(expected), "{other}: {error}");
    }
    let without_stage = WITH_API.lines().filter(|line| !line.contains("Stage:"));
    let error = problem(&with_resources(&without_stage.collect::<Vec<_>>().join("\n")));
    assert!(error.contains("Api has no AWS::ApiGatewayV2::Stage"), "{error}");
}

#[test]
fn the_shipped_template_lets_in_whom_auth_mode_says() {
    // Of the routes that change shard counts, and of the others.
    let of = |pairs: &[(&str, &str)]| {
        let plan = load_template(&shipped(), &overrides(pairs)).expect("the shipped template");
        let routes = plan.functions.iter().flat_map(|function| &function.routes);
        let (control, others) = routes.partition::<Vec<_>, _>(|route| {
            let method = route.method.as_str();
            route.path.starts_with("/collection") && method != "GET"
        });
        assert_eq!((control.len(), others.len()), (2, 17));
        [control, others].map(|routes| {
            let first = routes[0].authorization.clone();
            assert!(routes.iter().all(|route| route.authorization == first), "{pairs:?}");
            first
        })
    };
    assert_eq!(of(&[]), [Authorization::Iam, Authorization::Iam]);
    assert_eq!(of(&[("AuthMode", "none")]), [Authorization::Iam, Authorization::None]);
    let jwt = Authorization::Jwt(JwtAuthorizer {
        issuer: "https://issuer.example".to_owned(),
        audiences: vec!["one".to_owned(), "two".to_owned()],
    });
    let tokens =
        [("AuthMode", "jwt"), ("JwtIssuer", "https://issuer.example"), ("JwtAudience", "one,two")];
    assert_eq!(of(&tokens), [Authorization::Iam, jwt.clone()]);
    for (mode, tokens, expected) in [
        ("iam", &[][..], Authorization::Iam),
        ("none", &[], Authorization::None),
        ("jwt", &tokens[1..], jwt),
    ] {
        let pairs = [&[("AuthMode", mode), ("ControlAuth", "auth-mode")], tokens].concat();
        assert_eq!(of(&pairs), [expected.clone(), expected]);
    }
    let error = load_template(&shipped(), &overrides(&tokens[..2])).expect_err("no audience");
    assert!(error.to_string().contains("needs an issuer and an audience"), "{error}");
}

/// A function with a table, a queue and one event on line 9.
fn with_event(event: &str) -> String {
    with_resources(&format!(
        "  F:
    Type: AWS::Serverless::Function
    Metadata: {{ BuildMethod: rust-cargolambda, BuildProperties: {{ Binary: f }} }}
    Properties:
      Runtime: provided.al2023
      Events:
        First: {event}
  Table:
    Type: AWS::DynamoDB::Table
    Properties: {{ StreamSpecification: {{ StreamViewType: KEYS_ONLY }} }}
  Still: {{ Type: AWS::DynamoDB::Table }}
  Queue: {{ Type: AWS::SQS::Queue, Properties: {{ SqsManagedSseEnabled: true }} }}
"
    ))
}

/// A stream event with these further properties.
fn stream_with(properties: &str) -> String {
    format!(
        "{{ Type: DynamoDB, Properties: {{ Stream: !GetAtt Table.StreamArn, \
         StartingPosition: LATEST{properties} }} }}"
    )
}

#[test]
fn a_stream_mapping_has_the_defaults_of_lambda() {
    let template = load(&with_event(&stream_with(""))).expect("a mapping");
    let [mapping] = &template.functions[0].streams[..] else { panic!("one stream") };
    assert_eq!(mapping.table, "Table");
    assert_eq!(mapping.start, StartingPosition::Latest);
    assert_eq!((mapping.batch_size, mapping.window, mapping.lanes), (100, Duration::ZERO, 1));
    let day = Duration::from_hours(24);
    assert_eq!(mapping.retry, RetryPolicy { max_retries: None, max_age: day, bisect: false });
    assert!(!mapping.reports_failures && mapping.on_failure.is_none());
    assert!(mapping.filters.is_empty());

    let disabled = load(&with_event(&stream_with(", Enabled: false"))).expect("a mapping");
    assert!(disabled.functions[0].streams.is_empty());
    // Records are gone from the stream after a day.
    let old = stream_with(", MaximumRecordAgeInSeconds: 604800, ParallelizationFactor: 10");
    let template = load(&with_event(&old)).expect("a mapping");
    assert_eq!(template.functions[0].streams[0].retry.max_age, day);
    assert_eq!(template.functions[0].streams[0].lanes, 10);
}

#[test]
fn unsupported_stream_mappings_are_refused_with_their_line() {
    let with = |properties: &str| stream_with(&format!(", {properties}"));
    for (event, expected) in [
        (
            "{ Type: DynamoDB, Properties: { Stream: !GetAtt Table.Arn, StartingPosition: LATEST } }".to_owned(),
            "t.yaml:9: Stream of event First of F must be !GetAtt Table.StreamArn",
        ),
        (
            "{ Type: DynamoDB, Properties: { Stream: !GetAtt Still.StreamArn, StartingPosition: LATEST } }".to_owned(),
            "t.yaml:9: Still is not a table with a StreamSpecification",
        ),
        (
            "{ Type: DynamoDB, Properties: { Stream: !GetAtt Table.StreamArn } }".to_owned(),
            "has no StartingPosition",
        ),
        (
            "{ Type: DynamoDB, Properties: { Stream: !GetAtt Table.StreamArn, StartingPosition: AT_TIMESTAMP } }".to_owned(),
            "must be TRIM_HORIZON or LATEST here, not AT_TIMESTAMP",
        ),
        (with("TumblingWindowInSeconds: 5"), "does not know the property TumblingWindowInSeconds"),
        (with("BatchSize: 0"), "BatchSize of event First of F must be a whole number from 1 to 10000"),
        (with("BatchSize: many"), "a whole number from 1 to 10000"),
        (with("MaximumBatchingWindowInSeconds: 301"), "a whole number from 0 to 300"),
        (with("MaximumRetryAttempts: -2"), "a whole number from -1 to 10000"),
        (with("MaximumRecordAgeInSeconds: 604801"), "a whole number from -1 to 604800"),
        (with("ParallelizationFactor: 11"), "a whole number from 1 to 10"),
        (with("BisectBatchOnFunctionError: 1"), "must be true or false"),
        (with("FunctionResponseTypes: [All]"), "must be ReportBatchItemFailures here, not All"),
        (with("FilterCriteria: { Filters: [{ Pattern: no }] }"), "t.yaml:9: FilterCriteria of event First of F: not valid JSON"),
        (
            with("FilterCriteria: { Filters: [{ Pattern: '{\"a\":[{\"numeric\":[\"=\",1]}]}' }] }"),
            "does not know the operator numeric",
        ),
        (with("DestinationConfig: { OnFailure: { Destination: here } }"), "must be !GetAtt Queue.Arn"),
        (
            with("DestinationConfig: { OnFailure: { Destination: !Sub 'arn:aws:sqs:${AWS::Region}:${AWS::AccountId}:Q' } }"),
            "t.yaml:9: the template has no queue Q",
        ),
        (with("DestinationConfig: { OnSuccess: {} }"), "does not know the property OnSuccess"),
    ] {
        let error = problem(&with_event(&event));
        assert!(error.contains(expected), "{event}: {error}");
    }
}

/// A second mapping of the stream that this template's function reads.
fn with_second_mapping(by: &str) -> String {
    with_event(&stream_with("")).replace(
        "  Queue: {",
        &format!(
            "  A:
    Type: AWS::Lambda::Alias
    Properties: {{ Name: second, FunctionName: !Ref F, FunctionVersion: $LATEST }}
  Second:
    Type: AWS::Lambda::EventSourceMapping
    Properties: {{ FunctionName: !Ref {by}, EventSourceArn: !GetAtt Table.StreamArn, StartingPosition: LATEST }}
  Queue: {{"
        ),
    )
}

/// `CreateEventSourceMapping` answers `ResourceConflictException`, so that nobody could have deployed the template that had two.
#[test]
fn regression_a_function_had_two_mappings_of_one_stream_by_one_name() {
    let template = load(&with_second_mapping("A")).expect("a mapping by an alias");
    assert_eq!(template.functions[0].streams.len(), 2);
    let disabled =
        with_second_mapping("F").replace("LATEST }\n  Queue", "LATEST, Enabled: false }\n  Queue");
    assert_ne!(disabled, with_second_mapping("F"));
    for template in [with_second_mapping("F"), disabled] {
        let error = problem(&template);
        assert!(error.contains("F has two mappings of the stream of Table"), "{error}");
    }
    let error = problem(&with_second_mapping("Table"));
    assert!(error.contains("the template has no function Table"), "{error}");
}

#[test]
fn a_schedule_is_a_rate_and_anything_else_is_named_with_its_line() {
    for (rate, secs) in
        [("rate(1 minute)", 60), ("rate(5 minutes)", 300), ("rate(12 hours)", 43_200)]
    {
        let event = format!("{{ Type: Schedule, Properties: {{ Schedule: {rate} }} }}");
        let template = load(&with_event(&event)).expect("a schedule");
        let schedule = Schedule { id: "FFirst".to_owned(), interval: Duration::from_secs(secs) };
        assert_eq!(template.functions[0].schedules, [schedule]);
    }
    for wrong in ["rate(1 minutes)", "rate(0 minutes)", "rate(2 weeks)", "cron(0 4 * * ? *)"] {
        let event = format!("{{ Type: Schedule, Properties: {{ Schedule: '{wrong}' }} }}");
        let error = problem(&with_event(&event));
        assert!(error.contains("t.yaml:9: Schedule of event First of F: "), "{error}");
        assert!(error.contains("knows rates only") && error.ends_with(wrong), "{error}");
    }
    for (event, expected) in [
        ("{ Type: Schedule, Properties: {} }", "event First of F has no Schedule"),
        (
            "{ Type: Schedule, Properties: { Schedule: rate(1 hour), State: DISABLED } }",
            "does not know the property State",
        ),
        (
            "{ Type: ScheduleV2, Properties: { ScheduleExpression: rate(1 hour) } }",
            "t.yaml:9: the local stack does not know the event type ScheduleV2",
        ),
    ] {
        let error = problem(&with_event(event));
        assert!(error.contains(expected), "{event}: {error}");
    }
}

#[test]
fn intrinsics_have_the_values_that_aws_would_give_them() {
    let text = "
Transform: AWS::Serverless-2016-10-31
Parameters:
  Stage: { Type: String, Default: dev, AllowedValues: [dev, prod] }
Mappings:
  Sizes: { dev: { Name: small }, prod: { Name: large } }
Conditions:
  IsProd: !Equals [!Ref Stage, prod]
  IsNotProd: !Not [!Condition IsProd]
  IsEither: !Or [!Condition IsProd, !Condition IsNotProd]
  IsBoth: !And [!Condition IsProd, !Condition IsNotProd]
Globals:
  Function:
    Runtime: provided.al2023
    Timeout: 7
    Environment:
      Variables: { SHARED: global, KEPT: global }
Resources:
  Logs: { Type: AWS::Logs::LogGroup, Condition: IsProd }
  Table:
    Type: AWS::DynamoDB::Table
    Condition: IsProd
  Queue: { Type: AWS::SQS::Queue }
  F:
    Type: AWS::Serverless::Function
    Metadata: { BuildMethod: rust-cargolambda, BuildProperties: { Binary: f } }
    Properties:
      Timeout: !If [IsProd, 20, !Ref AWS::NoValue]
      MemorySize: !If [IsNotProd, 256, 512]
      ReservedConcurrentExecutions: !If [IsNotProd, 3, !Ref AWS::NoValue]
      Environment:
        Variables:
          SHARED: own
          NUMBER: 0123
          FLAG: true
          REF: !Ref Table
          ARN: !GetAtt Table.Arn
          STREAM: !GetAtt Table.StreamArn
          QUEUE: !Ref Queue
          QUEUE_ARN: !GetAtt Queue.Arn
          QUEUE_NAME: !GetAtt Queue.QueueName
          LONG: { \"Fn::GetAtt\": [F, Arn] }
          SUB: !Sub \"${Stage}-${AWS::Region}-${Table.Arn}-${!Literal}\"
          IF: !If [IsNotProd, yes, no]
          OR: !If [IsEither, yes, no]
          AND: !If [IsBoth, yes, no]
          MAP: !FindInMap [Sizes, !Ref Stage, Name]
Outputs:
  Name: { Value: !Ref Table }
";
    let template = load(text).expect("a template");
    assert!(template.tables.is_empty(), "the condition does not hold");
    let function = &template.functions[0];
    assert_eq!(function.timeout, Duration::from_secs(7));
    assert_eq!(function.memory_mb, 256);
    assert_eq!(function.reserved_concurrency, Some(3));
    let arn = "arn:aws:dynamodb:us-east-1:123456789012:table/Table";
    for (name, value) in [
        ("SHARED", "own"),
        ("KEPT", "global"),
        ("NUMBER", "0123"),
        ("FLAG", "true"),
        ("REF", "Table"),
        ("ARN", arn),
        ("STREAM", &format!("{arn}/stream/local")),
        ("QUEUE", "https://sqs.us-east-1.amazonaws.com/123456789012/Queue"),
        ("QUEUE_ARN", "arn:aws:sqs:us-east-1:123456789012:Queue"),
        ("QUEUE_NAME", "Queue"),
        ("LONG", "arn:aws:lambda:us-east-1:123456789012:function:F"),
        ("SUB", &format!("dev-us-east-1-{arn}-${{Literal}}")),
        ("IF", "yes"),
        ("OR", "yes"),
        ("AND", "no"),
        ("MAP", "small"),
    ] {
        assert_eq!(function.environment[name], value, "{name}");
    }
    let prod = load_with(text, &[("Stage", "prod")]).expect("a template");
    assert_eq!(prod.tables.len(), 1);
    assert_eq!(prod.functions[0].timeout, Duration::from_secs(20));
}

#[test]
fn the_shipped_template_runs_with_what_has_no_effect_on_one_machine() {
    let operators = "arn:aws:iam::123456789012:role/a,arn:aws:iam::123456789012:role/b";
    let chosen = [
        ("EncryptionKey", "arn:aws:kms:us-east-1:123456789012:key/a"),
        ("DenyOtherWriters", "on"),
        ("OperatorRoleArns", operators),
        ("Architecture", "x86_64"),
        ("LogRetentionDays", "1"),
        ("WriteReservedConcurrency", "7"),
    ];
    let plan = load_template(&shipped(), &overrides(&chosen)).expect("the shipped template");
    assert_eq!(plan.functions[0].reserved_concurrency, Some(7));
}

/// After a shortage of environments, hours of looks came at once.
#[test]
fn regression_looks_of_schedules_queued_for_hours() {
    let plan = load_template(&shipped(), &[]).expect("the shipped template");
    for function in plan.functions.iter().filter(|function| !function.schedules.is_empty()) {
        let policy = EventPolicy { max_retries: 0, max_age: Duration::from_mins(1) };
        assert_eq!(function.events, policy, "{}", function.name);
    }
}

/// Lambda took the lines of metrics for `INFO`, and dropped them at `WARN` and `ERROR`.
#[test]
fn regression_lambda_filtered_by_the_log_level_what_the_functions_filter_themselves() {
    for level in ["DEBUG", "INFO", "WARN", "ERROR"] {
        let plan = load_template(&shipped(), &overrides(&[("LogLevel", level)])).expect("a plan");
        for function in &plan.functions {
            assert_eq!(function.log_level, Some(LogLevel::Trace), "{} at {level}", function.name);
            assert_eq!(function.environment["LOG_LEVEL"], level);
        }
    }
}

#[test]
fn conditions_that_refer_to_each_other_in_a_circle_are_refused() {
    let text = "
Transform: AWS::Serverless-2016-10-31
Conditions:
  A: !Not [!Condition B]
  B: !Not [!Condition A]
Resources:
  Logs: { Type: AWS::Logs::LogGroup, Condition: A }
";
    assert!(problem(text).contains("in a circle"));
}

#[test]
fn parameters_that_make_no_sense_are_refused() {
    for (parameter, expected) in [
        ("{ Type: CommaDelimitedList }", "does not know the type CommaDelimitedList"),
        ("{ Default: a }", "parameter P has no Type"),
        ("{ Type: Number, Default: a }", "the default \"a\" of parameter P is not allowed"),
        (
            "{ Type: String, Default: abc, MaxLength: 2 }",
            "it takes a string of at most 2 characters",
        ),
        ("{ Type: String, Default: abc, AllowedPattern: \"[a-b]*\" }", "matches ^(?:[a-b]*)$"),
        ("{ Type: String, Default: a, AllowedPattern: \"[\" }", "AllowedPattern of parameter P"),
        ("{ Type: Number, Default: 1, MinValue: low }", "MinValue of parameter P must be a number"),
        ("{ Type: String, Secret: true }", "does not know the property Secret of parameter P"),
        (
            "{ Type: String, MinLength: 3 }",
            "it has no default; set it to a string of at least 3 characters",
        ),
    ] {
        let text = format!(
            "Transform: AWS::Serverless-2016-10-31\nParameters:\n  P: {parameter}\nResources: {{}}\n"
        );
        let error = problem(&text);
        assert!(error.contains(expected), "{parameter}: {error}");
    }
}
