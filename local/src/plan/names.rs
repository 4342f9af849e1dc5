//! The account and the region that the stack plays, and the ARNs of what is in them.

/// The account that the stack says it runs in: the one of AWS's own examples.
pub(crate) const ACCOUNT_ID: &str = "123456789012";

/// The region that the stack says it runs in.
pub(crate) const REGION: &str = "us-east-1";

/// The ARN of a function, in the shape that Lambda gives it.
pub(crate) fn function_arn(name: &str) -> String {
    format!("arn:aws:lambda:{REGION}:{ACCOUNT_ID}:function:{name}")
}

/// The ARN of a route, as permissions name it.
pub(crate) fn execute_api_arn(api: &str, method: &str, path: &str) -> String {
    format!("arn:aws:execute-api:{REGION}:{ACCOUNT_ID}:{api}/$default/{method}{path}")
}

/// The ARN of a table's stream; its label is the time at which the stream was enabled.
pub(crate) fn stream_arn(table: &str, label: &str) -> String {
    format!("arn:aws:dynamodb:{REGION}:{ACCOUNT_ID}:table/{table}/stream/{label}")
}
