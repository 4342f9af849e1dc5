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
    pub(crate) source_arn: Option<TextPattern>,
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

/// A text in which `*` stands for any characters and `?` for one.
#[derive(Clone, Debug)]
pub(crate) struct TextPattern {
    pub(crate) text: String,
    /// Nothing where the text is to match as it is, which is most often.
    wildcards: Option<Regex>,
}

impl TextPattern {
    pub(crate) fn new(text: &str) -> Self {
        Self::of(text, &expression(text, "(?s:.)"))
    }

    /// An ARN with wildcards, as the condition `ArnLike` of IAM takes it: neither matches a colon before the last of
    /// the six parts, `arn:partition:service:region:account:resource`. `None` if the text does not have these.
    pub(crate) fn of_arn(text: &str) -> Option<Self> {
        let [arn, partition, service, region, account, resource] =
            text.splitn(6, ':').collect::<Vec<_>>().try_into().ok()?;
        let parts = [arn, partition, service, region, account];
        let parts = parts.map(|part| expression(part, "[^:]")).join(":");
        Some(Self::of(text, &format!("{parts}:{}", expression(resource, "(?s:.)"))))
    }

    fn of(text: &str, expression: &str) -> Self {
        let wildcards = text.contains(['*', '?']).then(|| Regex::new(&format!("^{expression}$")));
        Self { text: text.to_owned(), wildcards: wildcards.and_then(Result::ok) }
    }

    pub(super) fn matches(&self, text: &str) -> bool {
        self.wildcards.as_ref().map_or(self.text == text, |pattern| pattern.is_match(text))
    }
}

/// A part of a pattern as a regular expression, in which its wildcards match what `any` does.
fn expression(part: &str, any: &str) -> String {
    let escaped = |character: char| match character {
        '*' => format!("{any}*"),
        '?' => any.to_owned(),
        other => regex_lite::escape(other.encode_utf8(&mut [0; 4])),
    };
    part.chars().map(escaped).collect()
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
            |arn: &str| Permission { source_arn: TextPattern::of_arn(arn), ..permission() };
        assert!(of_alarm(ARN).allows(ALARMS, ARN, "Scale"));
        assert!(!of_alarm(&format!("{ARN}-too")).allows(ALARMS, ARN, "Scale"));
    }

    #[test]
    fn wildcards_of_an_arn_stay_in_their_part() {
        let matches = |pattern: &str| TextPattern::of_arn(pattern).expect("an ARN").matches(ARN);
        assert!(matches("arn:aws:cloudwatch:*:123456789012:alarm:*"));
        assert!(matches("arn:aws:cloudwatch:us-east-?:123456789012:*throttles"));
        assert!(!matches("arn:aws:*:123456789012:alarm:hot:throttles"));
        assert!(!matches("arn:aws:cloudwatch:us-east-?:123456789012:alarm"));
        assert!(!matches("arn:aws:cloud.atch:us-east-1:123456789012:alarm:*"), "a dot is a dot");
        assert!(TextPattern::of_arn("hot-write-throttles").is_none());
    }
}
