//! Tables.

use super::resource::Resource;
use super::yaml::{Node, Problem};
use crate::plan::{InsightsMode, Table};
use serde_json::json;

pub(super) fn table(resource: &Resource) -> Result<Table, Problem> {
    let mut request = json!({ "TableName": resource.id });
    let mut insights = None;
    for (name, node) in resource.properties.entries(&resource.what)? {
        match name.as_str() {
            "AttributeDefinitions"
            | "KeySchema"
            | "BillingMode"
            | "DeletionProtectionEnabled"
            | "GlobalSecondaryIndexes"
            | "LocalSecondaryIndexes" => {
                request[name] = node.to_json();
            }
            "ProvisionedThroughput" => request[name] = capacity(node)?,
            "StreamSpecification" => {
                node.entries(name)?;
                request[name] = node.to_json();
                // CreateTable requires it; CloudFormation infers it from the view type.
                request[name]["StreamEnabled"] = true.into();
            }
            "ContributorInsightsSpecification" => insights = insights_mode(node)?,
            // Items do not expire on one machine, its endpoint refuses nobody, and all of its tables are as warm as its limits say.
            "PointInTimeRecoverySpecification"
            | "ResourcePolicy"
            | "SSESpecification"
            | "Tags"
            | "TimeToLiveSpecification"
            | "WarmThroughput" => {}
            _ => return Err(resource.unknown_property(name, node)),
        }
    }
    Ok(Table { name: resource.id.clone(), create_request: request, insights })
}

/// The units, which are text where they are values of parameters.
fn capacity(throughput: &Node) -> Result<serde_json::Value, Problem> {
    const WHAT: &str = "ProvisionedThroughput";
    const UNITS: [&str; 2] = ["ReadCapacityUnits", "WriteCapacityUnits"];
    throughput.only(WHAT, &UNITS)?;
    let mut capacity = json!({});
    for name in UNITS {
        let units = throughput.require(name, WHAT)?.as_number_in(name, 1..=i32::MAX)?;
        capacity[name] = units.into();
    }
    Ok(capacity)
}

/// Without a mode, `CloudFormation` reports every key, as DynamoDB does.
fn insights_mode(specification: &Node) -> Result<Option<InsightsMode>, Problem> {
    const WHAT: &str = "ContributorInsightsSpecification";
    specification.only(WHAT, &["Enabled", "Mode"])?;
    let mode =
        specification.get("Mode").map_or(Ok(InsightsMode::AccessedAndThrottledKeys), |node| {
            let name = node.as_text("Mode")?;
            InsightsMode::parse(name).ok_or_else(|| {
                let text = format!(
                    "Mode of {WHAT} is ACCESSED_AND_THROTTLED_KEYS or THROTTLED_KEYS, not {name}"
                );
                Problem::at(node.line, text)
            })
        })?;
    let is_enabled = specification.require("Enabled", WHAT)?.as_bool("Enabled")?;
    Ok(is_enabled.then_some(mode))
}
