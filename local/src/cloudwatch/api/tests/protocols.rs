//! One operation in both protocols, to the letter.

use std::io::Write;

use aws_smithy_cbor::Encoder;
use aws_smithy_types::DateTime;
use flate2::Compression;
use flate2::write::GzEncoder;

use super::*;

const CBOR: &[(&str, &str)] =
    &[("smithy-protocol", "rpc-v2-cbor"), ("content-type", "application/cbor")];
const FORM: &[(&str, &str)] =
    &[("content-type", "application/x-www-form-urlencoded; charset=utf-8")];

fn cbor_path(operation: &str) -> String {
    format!("/service/GraniteServiceVersion20100801/operation/{operation}")
}

/// A value in CBOR. An object with the one member `time` is a timestamp.
fn cbor(value: &Value) -> Vec<u8> {
    fn encode(value: &Value, encoder: &mut Encoder) {
        match value {
            Value::Object(members) if members.contains_key("time") => {
                let secs = members["time"].as_f64().expect("seconds");
                encoder.timestamp(&DateTime::from_secs_f64(secs));
            }
            Value::Object(members) => {
                encoder.map(members.len());
                for (name, value) in members {
                    encode(value, encoder.str(name));
                }
            }
            Value::Array(items) => {
                encoder.array(items.len());
                for item in items {
                    encode(item, encoder);
                }
            }
            Value::String(text) => drop(encoder.str(text)),
            Value::Number(number) => match number.as_i64() {
                Some(number) => drop(encoder.long(number)),
                None => drop(encoder.double(number.as_f64().expect("a number"))),
            },
            other => panic!("no request has {other}"),
        }
    }
    let mut encoder = Encoder::new(Vec::new());
    encode(value, &mut encoder);
    encoder.into_writer()
}

fn put_in_cbor() -> Vec<u8> {
    let datum = json!({ "MetricName": "Sold", "Timestamp": { "time": NOW }, "Values": [1.5, 2] });
    cbor(&json!({ "Namespace": "Shop", "MetricData": [datum] }))
}

fn read_in_cbor() -> Vec<u8> {
    cbor(&json!({
        "MetricDataQueries": [sold(60, "Sum")],
        "StartTime": { "time": NOW },
        "EndTime": { "time": Duration::from_millis(NOW * 1000 + 59_500).as_secs_f64() },
    }))
}

#[tokio::test]
async fn smithy_rpc_v2_cbor() {
    let served = Served::start().await;
    let (parts, body) = served.exchange(&cbor_path("PutMetricData"), CBOR, put_in_cbor()).await;
    assert_eq!(parts.status, StatusCode::OK, "{body:?}");
    assert_eq!(parts.headers["smithy-protocol"], "rpc-v2-cbor");
    assert_eq!(parts.headers["content-type"], "application/cbor");
    assert_eq!(parts.headers["x-amzn-requestid"].len(), 36);

    let (_, body) = served.exchange(&cbor_path("GetMetricData"), CBOR, read_in_cbor()).await;
    for (name, value) in [
        ("Id", json!("sold")),
        ("Label", json!("Sold")),
        ("Timestamps", json!([{ "time": NOW }])),
        ("Values", json!([3.5])),
        ("StatusCode", json!("Complete")),
    ] {
        let member = [cbor(&json!(name)), cbor(&value)].concat();
        let is_there = body.windows(member.len()).any(|bytes| bytes == member);
        assert!(is_there, "{name} in {body:?}");
    }
    served.stop().await;
}

#[tokio::test]
async fn a_compressed_body_is_unpacked_and_one_that_unpacks_to_too_much_is_refused() {
    let served = Served::start().await;
    let headers = [CBOR, &[("content-encoding", "gzip")]].concat();
    let packed = |body: &[u8]| {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(body).expect("memory");
        encoder.finish().expect("memory")
    };
    let path = cbor_path("PutMetricData");
    let (parts, _) = served.exchange(&path, &headers, packed(&put_in_cbor())).await;
    assert_eq!(parts.status, StatusCode::OK);
    let (parts, _) = served.exchange(&path, &headers, put_in_cbor()).await;
    assert_eq!(parts.status, StatusCode::BAD_REQUEST, "it is not compressed");
    let bomb = packed(&vec![0; MAX_BODY + 1]);
    let (parts, _) = served.exchange(&path, &headers, bomb).await;
    assert_eq!(parts.status, StatusCode::PAYLOAD_TOO_LARGE);
    let (parts, _) = served.exchange(&path, CBOR, vec![0; MAX_BODY + 1]).await;
    assert_eq!(parts.status, StatusCode::PAYLOAD_TOO_LARGE);
    served.stop().await;
}

#[tokio::test]
async fn a_client_of_the_query_protocol_is_told_which_protocols_there_are() {
    let served = Served::start().await;
    let (parts, body) = served.exchange("/", FORM, "Action=ListMetrics&Version=2010-08-01").await;
    assert_eq!(parts.status, StatusCode::BAD_REQUEST);
    assert_eq!(parts.headers["content-type"], "text/xml");
    let text = String::from_utf8_lossy(&body);
    for part in ["<ErrorResponse><Error>", "rpc-v2-cbor", "AWS JSON 1.0"] {
        assert!(text.contains(part), "{text}");
    }
    served.stop().await;
}

#[tokio::test]
async fn an_error_has_the_shape_and_the_name_of_each_protocol() {
    let served = Served::start().await;
    let (parts, body) = served.exchange(&cbor_path("PutMetricData"), CBOR, "").await;
    assert_eq!(parts.status, StatusCode::BAD_REQUEST);
    assert_eq!(parts.headers["x-amzn-query-error"], "MissingParameter;Sender");
    assert_eq!(parts.headers["smithy-protocol"], "rpc-v2-cbor");
    let kind = "com.amazonaws.cloudwatch#MissingRequiredParameterException";
    let message = "The parameter Namespace is required.";
    assert_eq!(body, cbor(&json!({ "__type": kind, "message": message })));

    let (_, error) = served.json("PutMetricData", &json!({})).await;
    assert_eq!(error, json!({ "__type": kind, "message": message }));
    served.stop().await;
}

#[tokio::test]
async fn bodies_that_are_not_requests_of_their_protocol_are_refused() {
    let served = Served::start().await;
    let bad = StatusCode::BAD_REQUEST;
    let path = cbor_path("PutMetricData");
    let whole = put_in_cbor();
    for length in 1..whole.len() {
        let (parts, _) = served.exchange(&path, CBOR, whole[..length].to_vec()).await;
        assert_eq!(parts.status, bad, "cut off after {length}");
    }
    let endless = [0x9b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
    let nested = vec![0x81; 100_000];
    for body in [&endless[..], &nested, &[0xff], b"{}", b"\xc1\x60", b"\xa1\x01\x02"] {
        let (parts, _) = served.exchange(&path, CBOR, body.to_vec()).await;
        assert_eq!(parts.status, bad, "{:?}", &body[..2.min(body.len())]);
    }
    let (parts, _) = served.exchange("/elsewhere", CBOR, whole).await;
    assert_eq!(parts.status, bad, "no operation");
    let other = [("smithy-protocol", "rpc-v2-json")];
    assert_eq!(served.exchange(&path, &other, "{}").await.0.status, bad);
    for target in ["", "PutMetricData", "DynamoDB_20120810.ListTables"] {
        let (parts, _) = served.exchange("/", &[("x-amz-target", target)], "{}").await;
        assert_eq!(parts.status, bad, "{target}");
    }
    let target = [("x-amz-target", "GraniteServiceVersion20100801.ListMetrics")];
    for body in ["{", "[]", "7", &"[".repeat(10_000)] {
        assert_eq!(served.exchange("/", &target, body.to_owned()).await.0.status, bad);
    }
    served.stop().await;
}
