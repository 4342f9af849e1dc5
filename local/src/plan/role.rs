//! Roles: what the functions that have them may do.

use super::permission::TextPattern;

/// A role of the template, with the statements of all its policies.
#[derive(Clone, Debug)]
pub(crate) struct Role {
    /// The logical id, which is also the role's name.
    pub(crate) name: String,
    pub(crate) statements: Vec<Statement>,
}

/// A statement of a policy.
#[derive(Clone, Debug)]
pub(crate) struct Statement {
    pub(crate) sid: Option<String>,
    pub(crate) effect: Effect,
    pub(crate) actions: Vec<TextPattern>,
    /// Those whose ARNs match, or all by [`EVERY`].
    pub(crate) resources: Vec<TextPattern>,
    /// What each value of `dynamodb:LeadingKeys` has to match one of (`ForAllValues:StringLike`). The
    /// statement applies to a request without such values, too, as on AWS.
    pub(crate) leading_keys: Option<Vec<TextPattern>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    Allow,
    Deny,
}

/// One thing that a request needs the permission for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    /// Such as `dynamodb:PutItem`.
    pub(crate) action: String,
    /// The ARN of the resource, or `*` for an action that takes none.
    pub(crate) resource: String,
    /// The partition keys that it is about, as text.
    pub(crate) leading_keys: Vec<String>,
}

impl Asked {
    /// An action on a resource as a whole.
    pub(crate) fn of(action: String, resource: String) -> Self {
        Self { action, resource, leading_keys: Vec::new() }
    }
}

/// What a role's policies say about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Granted, by the action of this number in the statement of this number.
    Allowed { statement: usize, action: usize },
    /// A statement denies it, whatever others allow.
    Denied,
    /// Nothing allows it.
    NotAllowed,
}

impl Role {
    /// Judges a request by IAM's rule: a deny outweighs every allow, and what nothing allows is
    /// denied ("Policy evaluation logic" in the IAM user guide).
    pub(crate) fn judge(&self, asked: &Asked) -> Verdict {
        let mut verdict = Verdict::NotAllowed;
        for (statement, of) in self.statements.iter().enumerate() {
            let Some(action) = of.action_for(asked) else { continue };
            match of.effect {
                Effect::Deny => return Verdict::Denied,
                Effect::Allow if verdict == Verdict::NotAllowed => {
                    verdict = Verdict::Allowed { statement, action };
                }
                Effect::Allow => {}
            }
        }
        verdict
    }
}

impl Statement {
    /// Which of its actions is the one that is asked for, if the statement applies.
    fn action_for(&self, asked: &Asked) -> Option<usize> {
        let keys_match = self.leading_keys.as_ref().is_none_or(|patterns| {
            let is_known = |key: &String| patterns.iter().any(|pattern| pattern.matches(key));
            asked.leading_keys.iter().all(is_known)
        });
        let applies =
            keys_match && self.resources.iter().any(|pattern| pattern.matches(&asked.resource));
        applies.then(|| self.actions.iter().position(|it| it.matches(&asked.action)))?
    }
}

/// The resources of a statement, or `None` if the text is neither `*` nor has the six parts of an ARN.
pub(crate) fn resource_pattern(text: &str) -> Option<TextPattern> {
    if text == EVERY { Some(TextPattern::new(text)) } else { TextPattern::of_arn(text) }
}

/// Why the stack neither checks nor counts an action that a policy grants; nothing for one that it checks.
pub(crate) fn unchecked(action: &str) -> Option<&'static str> {
    let (service, _) = action.split_once(':')?;
    UNCHECKED.iter().find_map(|(name, reason)| (*name == service).then_some(*reason))
}

/// Whether the stack checks an action, or knows why it does not.
pub(crate) fn is_known_action(action: &str) -> bool {
    let service = action.split_once(':').map_or(action, |(service, _)| service);
    action == EVERY || CHECKED.contains(&service) || unchecked(action).is_some()
}

/// The services whose actions the stack carries out itself.
const CHECKED: [&str; 3] = ["cloudwatch", "dynamodb", "sqs"];

/// Those that it does not play, and why a function cannot be seen to use them.
const UNCHECKED: [(&str, &str); 3] = [
    ("kms", "DynamoDB uses the key in the function's name, and here nothing is encrypted"),
    ("logs", "Lambda writes what the function prints, and here the stack does, to stderr"),
    ("xray", "the daemon that Lambda runs beside the function sends what that hands over"),
];

/// Every resource, and every action.
pub(crate) const EVERY: &str = "*";

#[cfg(test)]
mod tests {
    use super::*;

    fn statement(effect: Effect, action: &str, resource: &str) -> Statement {
        Statement {
            sid: None,
            effect,
            actions: vec![TextPattern::new(action)],
            resources: vec![resource_pattern(resource).expect("an ARN")],
            leading_keys: None,
        }
    }

    fn judge(statements: &[Statement], action: &str, resource: &str, keys: &[&str]) -> Verdict {
        let role = Role { name: "Role".to_owned(), statements: statements.to_vec() };
        role.judge(&Asked {
            action: action.to_owned(),
            resource: resource.to_owned(),
            leading_keys: keys.iter().map(|key| (*key).to_owned()).collect(),
        })
    }

    const TABLE: &str = "arn:aws:dynamodb:us-east-1:123456789012:table/Main";
    const OTHER: &str = "arn:aws:dynamodb:us-east-1:123456789012:table/Main2";
    const PUT: &str = "dynamodb:PutItem";
    const ALLOWED: Verdict = Verdict::Allowed { statement: 0, action: 0 };

    #[test]
    fn what_nothing_allows_is_denied_and_a_deny_outweighs_an_allow() {
        let allow = statement(Effect::Allow, PUT, TABLE);
        assert_eq!(judge(&[], PUT, TABLE, &[]), Verdict::NotAllowed);
        assert_eq!(judge(std::slice::from_ref(&allow), PUT, TABLE, &[]), ALLOWED);
        assert_eq!(judge(std::slice::from_ref(&allow), PUT, OTHER, &[]), Verdict::NotAllowed);
        let get = "dynamodb:GetItem";
        assert_eq!(judge(std::slice::from_ref(&allow), get, TABLE, &[]), Verdict::NotAllowed);
        let deny = statement(Effect::Deny, "dynamodb:*", "*");
        assert_eq!(judge(&[allow, deny], PUT, TABLE, &[]), Verdict::Denied);
    }

    #[test]
    fn wildcards_match_in_actions_and_in_the_parts_of_resources() {
        let every = statement(Effect::Allow, "*", "*");
        assert_eq!(judge(&[every], PUT, TABLE, &[]), ALLOWED);
        let some = statement(
            Effect::Allow,
            "dynamodb:Put????",
            "arn:aws:dynamodb:*:123456789012:table/Main*",
        );
        assert_eq!(judge(std::slice::from_ref(&some), PUT, OTHER, &[]), ALLOWED);
        let elsewhere = "arn:aws:dynamodb:us-east-1:210987654321:table/Main";
        assert_eq!(judge(&[some], PUT, elsewhere, &[]), Verdict::NotAllowed);
        assert!(resource_pattern("table/Main").is_none());
    }

    #[test]
    fn leading_keys_have_to_match_each() {
        let ledgers = Statement {
            leading_keys: Some(vec![TextPattern::new("heat#*"), TextPattern::new("load")]),
            ..statement(Effect::Allow, PUT, TABLE)
        };
        for (keys, expected) in [
            (&["heat#a"][..], ALLOWED),
            (&["heat#a", "load"], ALLOWED),
            (&["heat#a", "items"], Verdict::NotAllowed),
            (&["loads"], Verdict::NotAllowed),
            // IAM user guide: ForAllValues holds where the request has no such key.
            (&[], ALLOWED),
        ] {
            let verdict = judge(std::slice::from_ref(&ledgers), PUT, TABLE, keys);
            assert_eq!(verdict, expected, "{keys:?}");
        }
    }
}
