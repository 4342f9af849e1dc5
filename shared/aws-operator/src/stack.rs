//! The resources and parameters of a CloudFormation stack.
//!
//! The two requests are built here from the SDK's own parts for signing, sending and reading: the
//! SDK's crate for CloudFormation takes as long to compile as the one for DynamoDB.

use std::collections::BTreeMap;
use std::time::Duration;

use aws_smithy_runtime_api::client::http::HttpConnector;
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::byte_stream::ByteStream;
use aws_smithy_xml::decode::{Document, ScopedDecoder, XmlDecodeError, try_data};

use crate::client::connector;
use crate::credentials::ConnectError;
use crate::operator::{Operator, proxies_to};
use crate::signing::RequestSigner;
use dynashard_aws::error::{causes, is_throttle, remedied};
use dynashard_core::ports::Clock;

/// A stack as CloudFormation describes it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stack {
    /// Physical names by logical ids.
    pub resources: BTreeMap<String, String>,
    /// The values of its parameters, those left at their defaults included.
    pub parameters: BTreeMap<String, String>,
    /// The values of its outputs.
    pub outputs: BTreeMap<String, String>,
    /// What CloudFormation is doing with it, or has done, in its word: `UPDATE_COMPLETE`.
    pub status: String,
}

/// The version of CloudFormation's API.
const VERSION: &str = "2010-05-15";

impl Stack {
    /// Asks CloudFormation what a stack consists of.
    pub async fn find(operator: &Operator, name: &str) -> Result<Self, ConnectError> {
        let stacks = ask(operator, "DescribeStacks", name).await?;
        let resources = ask(operator, "DescribeStackResources", name).await?;
        let read = |text: &str, name: &str, value: &str| {
            pairs(text, name, value).map_err(|error| unreadable(&error))
        };
        Ok(Self {
            parameters: read(&stacks, "ParameterKey", "ParameterValue")?,
            outputs: read(&stacks, "OutputKey", "OutputValue")?,
            resources: read(&resources, "LogicalResourceId", "PhysicalResourceId")?,
            status: read(&stacks, "StackName", "StackStatus")?
                .pop_first()
                .map_or_else(String::new, |(_, status)| status),
        })
    }

    /// The names of the stacks of this account and region that have an output of this name.
    pub async fn names(operator: &Operator, output: &str) -> Result<Vec<String>, ConnectError> {
        let (mut names, mut next) = (Vec::new(), None::<String>);
        loop {
            let asked = next.take();
            let token = asked.as_deref().map(|token| ("NextToken", token));
            let page = send(operator, "DescribeStacks", token).await?;
            page_of(&page, output, &mut names, &mut next).map_err(|error| unreadable(&error))?;
            if next.is_none() {
                return Ok(names);
            }
        }
    }
}

fn unreadable(error: &XmlDecodeError) -> ConnectError {
    ConnectError(format!("the answer of CloudFormation cannot be read: {error}"))
}

async fn ask(operator: &Operator, action: &str, stack: &str) -> Result<String, ConnectError> {
    send(operator, action, Some(("StackName", stack))).await
}

/// For how long CloudFormation is asked again that throttles or fails, as it does during deployments.
const WHILE_BUSY: Duration = Duration::from_mins(1);

/// For how long it is asked again that cannot be reached. A wrong address stays wrong.
const WHILE_UNREACHABLE: Duration = Duration::from_secs(3);

/// The first pause before it is asked again, which doubles.
const FIRST_PAUSE: Duration = Duration::from_millis(500);

/// No answer, and for how long it is worth while to ask again.
struct Unanswered(ConnectError, Duration);

impl From<ConnectError> for Unanswered {
    fn from(why: ConnectError) -> Self {
        Self(why, Duration::ZERO)
    }
}

/// Sends a request until it is answered, or refused for good.
async fn send(
    operator: &Operator,
    action: &str,
    parameter: Option<(&str, &str)>,
) -> Result<String, ConnectError> {
    let clock = operator.clock();
    let (began, mut pause) = (clock.now().boot, FIRST_PAUSE);
    loop {
        match Box::pin(send_once(operator, action, parameter)).await {
            Ok(answer) => return Ok(answer),
            Err(Unanswered(why, patience)) if clock.now().boot + pause > began + patience => {
                return Err(why);
            }
            Err(_) => clock.sleep(pause).await,
        }
        pause *= 2;
    }
}

/// Sends one request of the query protocol, and returns the XML that it is answered with.
async fn send_once(
    operator: &Operator,
    action: &str,
    parameter: Option<(&str, &str)>,
) -> Result<String, Unanswered> {
    let about = match parameter {
        Some(("StackName", stack)) => format!("{action} of stack {stack}"),
        _ => action.to_owned(),
    };
    let failed = |why: String| ConnectError(format!("{about}: {why}"));
    let region = operator.config.region().map(AsRef::as_ref).unwrap_or_default();
    let url = match operator.config.endpoint_url() {
        Some(url) => format!("{}/", url.trim_end_matches('/')),
        None if region.starts_with("cn-") => {
            format!("https://cloudformation.{region}.amazonaws.com.cn/")
        }
        None => format!("https://cloudformation.{region}.amazonaws.com/"),
    };
    let body = form_urlencoded::Serializer::new(String::new())
        .append_pair("Action", action)
        .append_pair("Version", VERSION)
        .extend_pairs(parameter)
        .finish();
    let mut headers = vec![(
        "content-type".to_owned(),
        "application/x-www-form-urlencoded; charset=utf-8".to_owned(),
    )];
    let signer = RequestSigner::of(operator, "cloudformation");
    let signature = signer.sign("POST", &url, &headers, body.as_bytes()).await?;
    headers.extend(signature);

    let mut request = HttpRequest::new(SdkBody::from(body));
    let built = request.set_method("POST").and_then(|()| request.set_uri(url.as_str()));
    built.map_err(|e| failed(causes(&e)))?;
    for (name, value) in headers {
        request.headers_mut().try_insert(name, value).map_err(|e| failed(causes(&e)))?;
    }
    let connector = connector(proxies_to(operator.config.endpoint_url()));
    let unreached = |why: String| {
        let why =
            format!("CloudFormation cannot be reached: {why}; check the network and --region");
        Unanswered(failed(why), WHILE_UNREACHABLE)
    };
    let answer = connector.call(request).await.map_err(|e| unreached(causes(&e)))?;
    let (is_success, is_failing) =
        (answer.status().is_success(), answer.status().is_server_error());
    let body = ByteStream::new(answer.into_body()).collect().await;
    let body = body.map_err(|e| unreached(causes(&e)))?.to_vec();
    let body = String::from_utf8(body).map_err(|e| failed(causes(&e)))?;
    if is_success {
        return Ok(body);
    }
    let refusal = pairs(&body, "Code", "Message").unwrap_or_default().pop_first();
    let is_busy = is_failing || refusal.as_ref().is_some_and(|(code, _)| is_throttle(code));
    let why = match refusal {
        Some((code, message)) if code.starts_with("AccessDenied") => format!(
            "{code}: {message}; allow cloudformation:{action}, or name the tables with \
             --main-table and --metadata-table"
        ),
        Some((code, message)) if code == "ValidationError" => {
            format!("{code}: {message}; check --stack-name and --region")
        }
        Some((code, message)) => remedied(&code, &message),
        None => "CloudFormation refused it without a reason".to_owned(),
    };
    Err(Unanswered(failed(why), if is_busy { WHILE_BUSY } else { Duration::ZERO }))
}

/// Adds the stacks of a page that have this output, and says where the next page begins.
fn page_of(
    text: &str,
    output: &str,
    names: &mut Vec<String>,
    next: &mut Option<String>,
) -> Result<(), XmlDecodeError> {
    let mut document = Document::new(text);
    has_output(&mut document.root_element()?, output, names, next).map(|_| ())
}

/// Whether the output stands below this element, in no stack of those that are added.
fn has_output(
    element: &mut ScopedDecoder<'_, '_>,
    output: &str,
    names: &mut Vec<String>,
    next: &mut Option<String>,
) -> Result<bool, XmlDecodeError> {
    let (mut name, mut has) = (None, false);
    while let Some(mut child) = element.next_tag() {
        if child.start_el().matches("StackName") {
            name = Some(try_data(&mut child)?.into_owned());
        } else if child.start_el().matches("OutputKey") {
            has |= try_data(&mut child)? == output;
        } else if child.start_el().matches("NextToken") {
            *next = Some(try_data(&mut child)?.into_owned());
        } else {
            has |= has_output(&mut child, output, names, next)?;
        }
    }
    match name {
        Some(name) if has => {
            names.push(name);
            Ok(false)
        }
        _ => Ok(has),
    }
}

/// The values of one element by those of another that stands beside it, wherever in the document.
fn pairs(text: &str, name: &str, value: &str) -> Result<BTreeMap<String, String>, XmlDecodeError> {
    let mut document = Document::new(text);
    let mut root = document.root_element()?;
    let mut pairs = BTreeMap::new();
    collect(&mut root, name, value, &mut pairs)?;
    Ok(pairs)
}

fn collect(
    element: &mut ScopedDecoder<'_, '_>,
    name: &str,
    value: &str,
    pairs: &mut BTreeMap<String, String>,
) -> Result<(), XmlDecodeError> {
    let (mut name_found, mut value_found) = (None, None);
    while let Some(mut child) = element.next_tag() {
        if child.start_el().matches(name) {
            name_found = Some(try_data(&mut child)?.into_owned());
        } else if child.start_el().matches(value) {
            value_found = Some(try_data(&mut child)?.into_owned());
        } else {
            collect(&mut child, name, value, pairs)?;
        }
    }
    pairs.extend(name_found.zip(value_found));
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    #[test]
    fn what_stands_side_by_side_is_a_pair() {
        let text = "<A xmlns='x'><B><Stacks><member>\
            <Parameters><member><ParameterKey>Separator</ParameterKey><ParameterValue>#</ParameterValue></member>\
            <member><ParameterKey>Empty</ParameterKey><ParameterValue/></member>\
            <member><ParameterKey>Escaped</ParameterKey><ParameterValue>a&amp;b</ParameterValue></member></Parameters>\
            <Outputs><member><OutputKey>Url</OutputKey><OutputValue>u</OutputValue></member></Outputs>\
            </member></Stacks></B></A>";
        let pairs = pairs(text, "ParameterKey", "ParameterValue").expect("XML");
        let expected = [("Separator", "#"), ("Empty", ""), ("Escaped", "a&b")];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(pairs, BTreeMap::from(expected));
    }

    /// A command that waits for a deployment ended with the first request that CloudFormation throttled.
    #[tokio::test]
    async fn regression_a_throttle_of_cloudformation_ended_the_command() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let error =
            |code: &str| format!("<E><Error><Code>{code}</Code><Message>m</Message></Error></E>");
        let answers = [
            ("400 Bad Request", error("Throttling")),
            ("200 OK", "<A/>".to_owned()),
            ("400 Bad Request", error("ValidationError")),
        ];
        let answering = thread::spawn(move || {
            for (status, body) in answers {
                let (mut stream, _) = listener.accept().expect("a request");
                let asked = stream.read(&mut [0; 4_096]).expect("its head");
                assert!(asked > 0, "a request");
                let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n", body.len());
                write!(stream, "{head}connection: close\r\n\r\n{body}").expect("an answer");
            }
        });
        let operator = Operator::on_this_machine(&url).await;
        let answer = Box::pin(send(&operator, "DescribeStacks", None)).await;
        assert_eq!(answer.expect("it asks again"), "<A/>");
        let refused = Box::pin(send(&operator, "DescribeStacks", None)).await;
        let refused = refused.expect_err("for good").to_string();
        assert!(refused.contains("ValidationError"), "{refused}");
        answering.join().expect("no panic");
    }

    #[test]
    fn the_stacks_with_an_output_are_named_and_where_the_next_page_begins() {
        let stack = |name: &str, output: &str| {
            format!(
                "<member><StackName>{name}</StackName><Outputs><member><OutputKey>{output}</OutputKey>\
                 <OutputValue>v</OutputValue></member></Outputs></member>"
            )
        };
        let text = format!(
            "<A><R><Stacks>{}{}{}</Stacks><NextToken>t</NextToken></R></A>",
            stack("a", "MetadataTableName"),
            stack("b", "Other"),
            stack("c", "MetadataTableName"),
        );
        let (mut names, mut next) = (Vec::new(), None);
        page_of(&text, "MetadataTableName", &mut names, &mut next).expect("XML");
        assert_eq!((names, next.as_deref()), (vec!["a".to_owned(), "c".to_owned()], Some("t")));
    }
}
