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

/// The ARN of a table.
pub(crate) fn table_arn(table: &str) -> String {
    format!("arn:aws:dynamodb:{REGION}:{ACCOUNT_ID}:table/{table}")
}

/// The ARN of a role.
pub(crate) fn role_arn(role: &str) -> String {
    format!("arn:aws:iam::{ACCOUNT_ID}:role/{role}")
}

/// The ARN of an alarm.
pub(crate) fn alarm_arn(alarm: &str) -> String {
    format!("arn:aws:cloudwatch:{REGION}:{ACCOUNT_ID}:alarm:{alarm}")
}

/// The ARN of an insight rule.
pub(crate) fn insight_rule_arn(rule: &str) -> String {
    format!("arn:aws:cloudwatch:{REGION}:{ACCOUNT_ID}:insight-rule/{rule}")
}

/// The ARN of a queue.
pub(crate) fn queue_arn(queue: &str) -> String {
    format!("arn:aws:sqs:{REGION}:{ACCOUNT_ID}:{queue}")
}

/// The label of a stream in the ARNs of a template, where the true one is not known yet.
pub(crate) const TEMPLATE_LABEL: &str = "local";

/// The ARN of a table's stream; its label is the time at which the stream was enabled.
pub(crate) fn stream_arn(table: &str, label: &str) -> String {
    format!("{}/stream/{label}", table_arn(table))
}
