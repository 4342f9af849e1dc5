//! The resource-based policy that keeps writers out of a table which dynashard writes to.

use dynashard_core::GrowKeys;
use dynashard_keys::Separator;
use serde_json::{Value, json};

/// What writes items. Transactions are authorised by the actions of their parts (AWS, "Using IAM with
/// DynamoDB transactions"); `ConditionCheckItem` writes nothing.
const WRITES: [&str; 7] = [
    "dynamodb:BatchWriteItem",
    "dynamodb:DeleteItem",
    "dynamodb:PartiQLDelete",
    "dynamodb:PartiQLInsert",
    "dynamodb:PartiQLUpdate",
    // And [`BULK_PUT`], where DynamoDB knows it: it refuses a policy with the name of an action that it does not know.
    "dynamodb:*PutItem*",
    "dynamodb:UpdateItem",
];

/// It names no keys, but files that hold items of any key.
const BULK_PUT: &str = "dynamodb:StartBulkPutItems";

/// The most that DynamoDB takes, white space included (AWS, "Resource-based policy considerations").
const MOST_BYTES: usize = 20 * 1_024;

/// Denies writes to everybody but these roles: of the keys that the patterns name in any shard, or of all.
/// AWS's own services, such as the one that lets items expire, are left alone.
pub(super) fn policy(
    table_arn: &str,
    roles: &[String],
    patterns: &GrowKeys,
    separator: Separator,
) -> Value {
    let condition = json!({
        "ArnNotLike": { "aws:PrincipalArn": roles },
        "Bool": { "aws:PrincipalIsAWSService": "false" },
    });
    let statement = |sid: &str, actions: &[&str], condition: Value| {
        json!({
            "Sid": sid,
            "Effect": "Deny",
            "Principal": "*",
            "Action": actions,
            "Resource": table_arn,
            "Condition": condition,
        })
    };
    let mut statements = Vec::new();
    let mut of_writes = condition.clone();
    if !patterns.are_all() {
        of_writes["ForAnyValue:StringLike"] =
            json!({ "dynamodb:LeadingKeys": leading_keys(patterns, separator) });
        statements.push(statement("BulkPutsNameNoKeys", &[BULK_PUT], condition));
    }
    statements.insert(0, statement("WritesGoThroughDynashard", &WRITES, of_writes));
    json!({ "Version": "2012-10-17", "Statement": statements })
}

/// A policy as text, and whether DynamoDB takes that much.
pub(super) fn text(policy: &Value) -> (String, bool) {
    // What is serialized here are texts, which cannot fail.
    let pretty = serde_json::to_string_pretty(policy).unwrap_or_default();
    if pretty.len() <= MOST_BYTES {
        return (pretty, true);
    }
    let compact = policy.to_string();
    let fits = compact.len() <= MOST_BYTES;
    (compact, fits)
}

/// Reads `--operator-role`.
pub(super) fn operator_role(text: &str) -> Result<String, String> {
    let parts = text.splitn(6, ':').collect::<Vec<_>>();
    let is_role = match parts.as_slice() {
        ["arn", partition, "iam", "", account, role] => {
            !partition.is_empty()
                && account.len() == 12
                && account.bytes().all(|byte| byte.is_ascii_digit())
                && role.strip_prefix("role/").is_some_and(|name| !name.is_empty())
        }
        _ => false,
    };
    let why = "it must be the ARN of a role, as in arn:aws:iam::123456789012:role/Operator";
    if is_role { Ok(text.to_owned()) } else { Err(why.to_owned()) }
}

/// The physical keys of what the patterns name.
fn leading_keys(patterns: &GrowKeys, separator: Separator) -> Vec<String> {
    let of = |pattern: &str| {
        // `${` begins a variable in IAM (AWS, "IAM policy elements: Variables and tags"). A star and a question mark mean
        // what they do here.
        let escaped = pattern.replace('$', "${$}");
        let in_other_shards = format!("{escaped}{separator}*");
        // What ends in a star has the suffixes in it already.
        let needs_suffix = !pattern.ends_with('*');
        std::iter::once(escaped).chain(needs_suffix.then_some(in_other_shards))
    };
    patterns.patterns().flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ARN: &str = "arn:aws:dynamodb:eu-west-1:123456789012:table/Orders";

    fn roles() -> [String; 3] {
        ["WriteRole", "ReadRole", "RebalanceRole"]
            .map(|role| format!("arn:aws:iam::123456789012:role/dynashard/orders/{role}"))
    }

    #[test]
    fn regression_any_text_was_taken_for_the_arn_of_a_role() {
        for role in
            ["arn:aws:iam::123456789012:role/Operator", "arn:aws-cn:iam::123456789012:role/a/b"]
        {
            assert_eq!(operator_role(role).as_deref(), Ok(role));
        }
        for other in [
            "Operator",
            "arn:aws:iam::1:role/Operator",
            "arn:aws:iam::123456789012:user/Operator",
            "arn:aws:iam::123456789012:role/",
            "arn:aws:sts::123456789012:assumed-role/Operator/me",
        ] {
            assert!(operator_role(other).is_err(), "{other}");
        }
    }

    fn policy_of(patterns: &str) -> Value {
        let roles = roles();
        let patterns = patterns.parse().expect("patterns");
        policy(ARN, &roles, &patterns, Separator::HashTilde)
    }

    #[test]
    fn it_denies_every_write_of_anybody_else() {
        let (text, fits) = text(&policy_of("*"));
        assert!(fits);
        let read = serde_json::from_str::<Value>(&text).expect("JSON");
        assert_eq!(read["Version"], "2012-10-17");
        let statements = read["Statement"].as_array().expect("statements");
        assert_eq!(statements.len(), 1);
        let statement = statements[0].as_object().expect("a statement");
        let mut members = statement.keys().map(String::as_str).collect::<Vec<_>>();
        members.sort_unstable();
        assert_eq!(members, ["Action", "Condition", "Effect", "Principal", "Resource", "Sid"]);
        assert_eq!((&statement["Effect"], &statement["Principal"]), (&json!("Deny"), &json!("*")));
        assert_eq!(statement["Resource"], ARN);
        let sid = statement["Sid"].as_str().expect("a text");
        assert!(sid.bytes().all(|byte| byte.is_ascii_alphanumeric()), "as IAM wants it: {sid}");
        let actions = statement["Action"].as_array().expect("actions");
        for action in actions {
            let action = action.as_str().expect("a text");
            assert!(action.starts_with("dynamodb:"), "{action}");
            let is_read = ["Get", "Query", "Scan", "Select", "Describe"];
            assert!(!is_read.iter().any(|read| action.contains(read)), "{action}");
        }
        assert_eq!(
            statement["Condition"],
            json!({
                "ArnNotLike": { "aws:PrincipalArn": roles() },
                "Bool": { "aws:PrincipalIsAWSService": "false" },
            })
        );
    }

    #[test]
    fn patterns_narrow_it_to_their_keys_in_all_shards() {
        let keys = |patterns| {
            let policy = policy_of(patterns);
            policy["Statement"][0]["Condition"]["ForAnyValue:StringLike"]["dynamodb:LeadingKeys"]
                .clone()
        };
        assert_eq!(keys("*"), Value::Null);
        assert_eq!(keys("EWR"), json!(["EWR", "EWR#~*"]));
        assert_eq!(keys("USER#*,EWR"), json!(["USER#*", "EWR", "EWR#~*"]));
        assert_eq!(keys("*x"), json!(["*x", "*x#~*"]));
        assert_eq!(keys("a?${b}*"), json!(["a?${$}{b}*"]));
    }

    /// A bulk put reads its keys from files, so that a condition on keys does not meet it.
    #[test]
    fn regression_a_bulk_put_passed_by_the_patterns() {
        let bulk = &policy_of("EWR")["Statement"][1];
        assert_eq!(bulk["Action"], json!([BULK_PUT]));
        assert_eq!(bulk["Condition"], policy_of("*")["Statement"][0]["Condition"]);
    }

    /// `DenyOtherWriters` and this command are to keep out the same.
    #[test]
    fn the_template_denies_the_same_writes() {
        const TEMPLATE: &str = include_str!("../../../../template.yaml");
        let policies = TEMPLATE.split("Sid: WritesGoThroughDynashard").skip(1).map(|policy| {
            let lines = policy.lines().map(str::trim).skip_while(|line| *line != "Action:").skip(1);
            lines.map_while(|line| line.strip_prefix("- ")).collect::<Vec<_>>()
        });
        assert_eq!(policies.collect::<Vec<_>>(), [WRITES, WRITES], "of both tables");
    }

    #[test]
    fn what_exceeds_the_limit_is_said() {
        let many = (0..2_000).map(|n| format!("KEY{n}#*")).collect::<Vec<_>>().join(",");
        assert!(!text(&policy_of(&many)).1);
        let some = (0..1_000).map(|n| format!("KEY{n}#*")).collect::<Vec<_>>().join(",");
        let (text, fits) = text(&policy_of(&some));
        assert!(fits && !text.contains('\n'), "white space counts");
    }
}
