//! Who may invoke a function: the statements of its resource policy.

use regex_lite::Regex;

use super::names::ACCOUNT_ID;

/// A statement that lets a principal invoke a function (`AWS::Lambda::Permission`).
#[derive(Clone, Debug)]
pub(crate) struct Permission {
    /// The function's name.
    pub(crate) function: String,
    pub(crate) principal: String,
    /// Only on behalf of this account.
    pub(crate) source_account: Option<String>,
    /// Only on behalf of such resources.
    pub(crate) source_arn: Option<ArnPattern>,
}

/// The principal that alarms invoke functions as.
pub(crate) const ALARMS: &str = "lambda.alarms.cloudwatch.amazonaws.com";

/// The principal that HTTP APIs invoke functions as.
pub(crate) const API_GATEWAY: &str = "apigateway.amazonaws.com";

impl Permission {
    /// Whether a principal may invoke the function on behalf of the resource of that ARN.
    pub(crate) fn allows(&self, principal: &str, source_arn: &str, function: &str) -> bool {
        self.function == function
            && [principal, "*"].contains(&self.principal.as_str())
            && self.source_account.as_ref().is_none_or(|account| account == ACCOUNT_ID)
            && self.source_arn.as_ref().is_none_or(|arn| arn.matches(source_arn))
    }
}

/// An ARN with wildcards, as the condition `ArnLike` of IAM takes it: `*` matches any characters
/// and `?` one, and neither matches a colon before the last of the six parts.
#[derive(Clone, Debug)]
pub(crate) struct ArnPattern(Regex);

impl ArnPattern {
    /// The pattern, or `None` if the text does not have the six parts of an ARN.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let parts: Vec<_> = text.splitn(ARN_PARTS, ':').collect();
        let [_, _, _, _, _, resource] = parts[..] else {
            return None;
        };
        let mut expression = String::from("^");
        for part in &parts[..ARN_PARTS - 1] {
            push(&mut expression, part, "[^:]");
            expression.push(':');
        }
        push(&mut expression, resource, "(?s:.)");
        expression.push('$');
        Regex::new(&expression).ok().map(Self)
    }

    pub(super) fn matches(&self, arn: &str) -> bool {
        self.0.is_match(arn)
    }
}

/// `arn:partition:service:region:account:resource`.
const ARN_PARTS: usize = 6;

/// Adds a part of a pattern to a regular expression, in which its wildcards match what `any` does.
pub(super) fn push(expression: &mut String, part: &str, any: &str) {
    for character in part.chars() {
        match character {
            '*' => {
                expression.push_str(any);
                expression.push('*');
            }
            '?' => expression.push_str(any),
            other => expression.push_str(&regex_lite::escape(other.encode_utf8(&mut [0; 4]))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ARN: &str = "arn:aws:cloudwatch:us-east-1:123456789012:alarm:hot-write-throttles";

    fn permission() -> Permission {
        Permission {
            function: "Scale".to_owned(),
            principal: ALARMS.to_owned(),
            source_account: None,
            source_arn: None,
        }
    }

    #[test]
    fn a_permission_is_of_one_function_and_one_principal() {
        assert!(permission().allows(ALARMS, ARN, "Scale"));
        assert!(!permission().allows(ALARMS, ARN, "Write"));
        let everyone = Permission { principal: "*".to_owned(), ..permission() };
        assert!(everyone.allows(ALARMS, ARN, "Scale"));
        let events = Permission { principal: "events.amazonaws.com".to_owned(), ..permission() };
        assert!(!events.allows(ALARMS, ARN, "Scale"));
    }

    #[test]
    fn a_permission_ends_at_its_account_and_its_alarm() {
        let of_account =
            |account: &str| Permission { source_account: Some(account.to_owned()), ..permission() };
        assert!(of_account("123456789012").allows(ALARMS, ARN, "Scale"));
        assert!(!of_account("210987654321").allows(ALARMS, ARN, "Scale"));
        let of_alarm =
            |arn: &str| Permission { source_arn: ArnPattern::parse(arn), ..permission() };
        assert!(of_alarm(ARN).allows(ALARMS, ARN, "Scale"));
        assert!(!of_alarm(&format!("{ARN}-too")).allows(ALARMS, ARN, "Scale"));
    }

    #[test]
    fn wildcards_of_an_arn_stay_in_their_part() {
        let matches = |pattern: &str| ArnPattern::parse(pattern).expect("an ARN").matches(ARN);
        assert!(matches("arn:aws:cloudwatch:*:123456789012:alarm:*"));
        assert!(matches("arn:aws:cloudwatch:us-east-?:123456789012:*throttles"));
        assert!(!matches("arn:aws:*:123456789012:alarm:hot:throttles"));
        assert!(!matches("arn:aws:cloudwatch:us-east-?:123456789012:alarm"));
        assert!(!matches("arn:aws:cloud.atch:us-east-1:123456789012:alarm:*"), "a dot is a dot");
        assert!(ArnPattern::parse("hot-write-throttles").is_none());
    }
}
