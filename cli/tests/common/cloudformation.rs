//! A server that stands in for CloudFormation.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};

use super::{LocalStack, Ran, run, without_account};

/// A CloudFormation that has the stack `dynashard`, and `of-the-cdk` without parameters and with more resources than it tells, denies `forbidden`, refuses the time of requests
/// for `late` and their signature for `mismatched`. It ends with the test's process.
pub struct CloudFormation {
    pub url: String,
}

impl CloudFormation {
    pub fn start(parameters: &'static [(&str, &str)]) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("the port that was bound"));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                answer(stream, parameters).expect("a conversation");
            }
        });
        Self { url }
    }

    /// Runs the command with an operator's credentials, against this server and the DynamoDB of a local
    /// stack.
    pub fn run(&self, stack: &LocalStack, args: &[&str]) -> Ran {
        let mut command = without_account(args);
        command
            .env("AWS_ENDPOINT_URL", &self.url)
            .env("AWS_ENDPOINT_URL_DYNAMODB", &stack.dynamodb)
            .env("AWS_ACCESS_KEY_ID", "operator")
            .env("AWS_SECRET_ACCESS_KEY", "secret")
            .env("AWS_REGION", "eu-west-1");
        run(command)
    }
}

/// The roles of the stack that write to the main table.
pub const WRITING_ROLE_ARNS: &str = "arn:aws:iam::123456789012:role/dynashard/dynashard/WriteRole,\
    arn:aws:iam::123456789012:role/dynashard/dynashard/ReadRole,\
    arn:aws:iam::123456789012:role/dynashard/dynashard/RebalanceRole";

fn answer(stream: TcpStream, parameters: &[(&str, &str)]) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    let mut is_signed = false;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let line = line.trim().to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length: ") {
            length = value.parse().expect("a length");
        }
        is_signed |= line.starts_with("authorization: aws4-hmac-sha256 credential=operator/")
            && line.contains("/eu-west-1/cloudformation/aws4_request");
        if line.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let body = String::from_utf8(body).expect("a form");
    let has = |pair: &str| body.split('&').any(|part| part == pair);
    let (status, text) = if !is_signed || !has("Version=2010-05-15") {
        (403, error("MissingAuthenticationToken", "Missing Authentication Token"))
    } else if has("StackName=forbidden") {
        (403, error("AccessDenied", "User operator is not authorized to perform this action"))
    } else if has("StackName=late") {
        let message = "Signature expired: 20261122T080000Z is now earlier than 20261122T080100Z";
        (403, error("SignatureDoesNotMatch", message))
    } else if has("StackName=mismatched") {
        let message = "The signature does not match.\n\nx-amz-security-token:secret-token";
        (403, error("SignatureDoesNotMatch", message))
    } else if !has("StackName=dynashard") && !has("StackName=of-the-cdk") {
        (400, error("ValidationError", "Stack with id absent does not exist"))
    } else if has("Action=DescribeStacks") {
        (200, stacks((!has("StackName=of-the-cdk")).then_some(parameters)))
    } else {
        assert!(has("Action=DescribeStackResources"), "{body}");
        let resource = |id: &str| {
            format!(
                "<member><LogicalResourceId>{id}</LogicalResourceId><PhysicalResourceId>{id}</PhysicalResourceId><ResourceType>AWS::DynamoDB::Table</ResourceType></member>"
            )
        };
        let told: &[_] =
            if has("StackName=of-the-cdk") { &["Queue"] } else { &["MainTable", "MetadataTable"] };
        let resources = told.iter().map(|id| resource(id)).collect::<String>();
        (
            200,
            format!(
                "<DescribeStackResourcesResponse xmlns=\"http://cloudformation.amazonaws.com/doc/2010-05-15/\"><DescribeStackResourcesResult><StackResources>{resources}</StackResources></DescribeStackResourcesResult></DescribeStackResourcesResponse>"
            ),
        )
    };
    let mut stream = reader.into_inner();
    write!(
        stream,
        "HTTP/1.1 {status} .\r\ncontent-type: text/xml\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{text}",
        text.len()
    )
}

fn error(code: &str, message: &str) -> String {
    format!(
        "<ErrorResponse xmlns=\"http://cloudformation.amazonaws.com/doc/2010-05-15/\"><Error><Type>Sender</Type><Code>{code}</Code><Message>{message}</Message></Error><RequestId>1</RequestId></ErrorResponse>"
    )
}

fn stacks(set: Option<&[(&str, &str)]>) -> String {
    let defaults = [
        ("Placement", "xxh64"),
        ("PartitionKeyName", "pk"),
        ("SortKeyName", "sk"),
        ("SortKeyType", "S"),
        ("Separator", "#~"),
        ("ExistingMainTable", ""),
        ("GrowKeys", "*"),
        ("LeaseSecs", "2"),
        ("RequestLifetimeSecs", "960"),
        ("RequestLifetimeVerified", "no"),
        ("CooldownSecs", "60"),
        ("MaxShards", "256"),
        ("MoverWriteUnits", "400"),
        ("ScalingMode", "on"),
        ("ShrinkMode", "off"),
        ("WriterScaling", "on"),
        ("TtlAttribute", ""),
        ("ScaleReservedConcurrency", "0"),
        ("RebalanceReservedConcurrency", "0"),
    ];
    let values = set.map(|set| defaults.into_iter().chain(set.iter().copied()));
    let values = values.into_iter().flatten().collect::<BTreeMap<_, _>>();
    let parameters = values.into_iter().map(|(name, value)| {
        format!("<member><ParameterKey>{name}</ParameterKey><ParameterValue>{value}</ParameterValue></member>")
    });
    let parameters = parameters.collect::<String>();
    let outputs = [
        ("ApiUrl", "https://example.com"),
        ("WritingRoleArns", WRITING_ROLE_ARNS),
        ("MetadataTableName", "MetadataTable"),
    ];
    let main_table = set.is_none().then_some(("MainTableName", "MainTable"));
    let outputs = outputs.into_iter().chain(main_table).map(|(name, value)| {
        format!("<member><OutputKey>{name}</OutputKey><OutputValue>{value}</OutputValue></member>")
    });
    let outputs = outputs.collect::<String>();
    format!(
        "<DescribeStacksResponse xmlns=\"http://cloudformation.amazonaws.com/doc/2010-05-15/\"><DescribeStacksResult><Stacks><member><StackName>dynashard</StackName><StackStatus>UPDATE_COMPLETE</StackStatus><Parameters>{parameters}</Parameters><Outputs>{outputs}</Outputs></member></Stacks></DescribeStacksResult></DescribeStacksResponse>"
    )
}
