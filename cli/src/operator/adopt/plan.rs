//! What to do with a table that can be adopted.

use dynashard_core::TableSchema;
use dynashard_keys::{Separator, SortKeyType};
use serde::{Serialize, Serializer};

use super::super::shell::{flags, quoted};

/// The parameters to deploy the template with, in its order. One that nobody could see is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Parameters(Vec<(&'static str, String)>);

/// What to do, and in which order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Plan {
    pub(super) parameters: Parameters,
    /// The command that deploys the template with them, for a shell.
    pub(super) deploy: String,
    pub(super) steps: Vec<String>,
}

impl Serialize for Parameters {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

/// Those that say which table a stack adopts, and what its keys are.
pub(in super::super) fn named(table: &str, schema: &TableSchema) -> [(&'static str, String); 4] {
    let sort_key_type = match schema.sort_key_type {
        SortKeyType::String => "S",
        SortKeyType::Number => "N",
    };
    [
        ("ExistingMainTable", table.to_owned()),
        ("PartitionKeyName", schema.partition_key_name.clone()),
        ("SortKeyName", schema.sort_key_name.clone()),
        ("SortKeyType", sort_key_type.to_owned()),
    ]
}

/// Nothing grows until all writers are known.
pub(in super::super) const AT_FIRST: (&str, &str) = ("ScalingMode", "off");

impl Parameters {
    /// Those of a table with these keys, whose items expire by this attribute: empty for none.
    pub(super) fn new(
        table: &str,
        schema: &TableSchema,
        separator: Separator,
        ttl_attribute: Option<String>,
        grow_keys: String,
    ) -> Self {
        let mut parameters = Vec::from(named(table, schema));
        parameters.push(("Separator", separator.to_string()));
        parameters.extend(ttl_attribute.map(|name| ("TtlAttribute", name)));
        parameters.push(("GrowKeys", grow_keys));
        parameters.push((AT_FIRST.0, AT_FIRST.1.to_owned()));
        Self(parameters)
    }

    /// The value of a parameter, unless nobody could see it.
    fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(other, _)| *other == name);
        found.map(|(_, value)| value.as_str())
    }

    /// The arguments of `sam deploy` for a shell.
    fn overrides(&self) -> String {
        // What is empty is the template's own default, and nothing that a shell would have to carry.
        let set = self.0.iter().filter(|(_, value)| !value.is_empty()).map(|(name, value)| {
            // SAM takes a value in double quotes where it has spaces or quotes.
            let is_plain = !value.contains([' ', '"', '\\', '\'']);
            let value = if is_plain {
                value.clone()
            } else {
                format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
            };
            quoted(&format!("{name}={value}"))
        });
        set.collect::<Vec<_>>().join(" ")
    }
}

impl Plan {
    /// The plan for a table with its ARN. `stack` is its name, if it is known, `policy` the file of the
    /// policy, and `caller` the flags that say who asks, and where.
    pub(super) fn new(
        parameters: Parameters,
        (table, table_arn): (&str, &str),
        stack: Option<&str>,
        policy: &str,
        caller: &str,
    ) -> Self {
        let of_stack = flags(&[("--stack-name", stack)]);
        let deploy =
            format!("sam deploy{of_stack} --parameter-overrides {}", parameters.overrides());
        let which = match parameters.get("GrowKeys").unwrap_or_default() {
            "*" => "all keys".to_owned(),
            patterns => format!("the keys of GrowKeys ({patterns})"),
        };
        let (table, file) = (quoted(table), quoted(policy));
        let url = quoted(&format!("file://{policy}"));
        let stack = stack.map_or_else(|| "NAME".to_owned(), quoted);
        let mut steps = vec![
            format!("deploy with ScalingMode=off: {deploy}"),
            format!(
                "move the clients' writes of {which} to the API. Reads by plain clients see everything \
                 until a collection grows"
            ),
            format!(
                "deny other writers: `dynashard adopt --table {table} --stack-name {stack} --skip-scan \
                 --policy {file}{caller}` writes the policy with the roles of the stack (and exits with 2, as it \
                 leaves out the items), and `aws dynamodb put-resource-policy --resource-arn {table_arn} \
                 --policy {url}{caller}` applies it. Run this check once more with --stack-name: what was \
                 written meanwhile is to fit, too"
            ),
            "let it grow: deploy with ScalingMode=on. Reads of what grows go to the API by then"
                .to_owned(),
        ];
        if parameters.get("TtlAttribute").is_none() {
            steps.insert(
                0,
                "find out by which attribute items expire, if they do, and set TtlAttribute"
                    .to_owned(),
            );
        }
        Self { parameters, deploy, steps }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameters(ttl: Option<&str>, grow_keys: &str) -> Parameters {
        let schema = TableSchema { sort_key_name: "at".to_owned(), ..TableSchema::default() };
        let (table, ttl) = ("Orders", ttl.map(str::to_owned));
        Parameters::new(table, &schema, Separator::HashTilde, ttl, grow_keys.to_owned())
    }

    fn plan(ttl: Option<&str>, grow_keys: &str) -> Plan {
        Plan::new(
            parameters(ttl, grow_keys),
            ("Orders", "arn"),
            None,
            "policy.json",
            " --region 'r'",
        )
    }

    #[test]
    fn regression_the_command_of_the_json_plan_let_collections_grow() {
        let json = serde_json::to_value(plan(None, "*")).expect("JSON");
        assert_eq!(json["parameters"]["ScalingMode"], "off");
        assert!(json["deploy"].as_str().is_some_and(|deploy| deploy.contains("ScalingMode=off")));
    }

    #[test]
    fn regression_the_plan_applied_a_policy_before_it_had_the_roles() {
        let steps = plan(Some(""), "*").steps;
        let makes = "`dynashard adopt --table 'Orders' --stack-name NAME --skip-scan --policy \
                     'policy.json' --region 'r'`";
        let made = steps[2].find(makes).expect("the policy is made");
        assert!(steps[2].find("put-resource-policy").is_some_and(|applied| applied > made));
    }

    #[test]
    fn the_command_deploys_with_the_parameters() {
        let plan = plan(Some("expires"), "USER#*,EWR");
        assert_eq!(
            plan.deploy,
            "sam deploy --parameter-overrides 'ExistingMainTable=Orders' 'PartitionKeyName=pk' \
             'SortKeyName=at' 'SortKeyType=S' 'Separator=#~' 'TtlAttribute=expires' \
             'GrowKeys=USER#*,EWR' 'ScalingMode=off'"
        );
        assert_eq!(plan.steps.len(), 4);
        let json = serde_json::to_value(&plan).expect("JSON");
        assert_eq!(json["parameters"]["ExistingMainTable"], "Orders");
        assert_eq!(json["parameters"]["TtlAttribute"], "expires");
    }

    #[test]
    fn what_is_empty_is_left_out_and_what_is_unknown_is_a_step() {
        let none = plan(Some(""), "*");
        assert!(!none.deploy.contains("TtlAttribute") && none.steps.len() == 4);
        let unknown = plan(None, "*");
        assert!(unknown.steps[0].contains("TtlAttribute") && unknown.steps.len() == 5);
    }

    #[test]
    fn a_shell_gets_each_value_as_it_is() {
        let overrides = parameters(Some(""), "it's $HOME").overrides();
        assert!(overrides.contains("'GrowKeys=\"it'\\''s $HOME\"' "), "{overrides}");
    }
}
