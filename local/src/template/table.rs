//! Tables.

use serde_json::json;

use super::named::Named;
use super::resource::Resource;
use super::yaml::Problem;
use crate::plan::{InsightsMode, Table};

/// What goes into the request as it is.
const PASSED_ON: &str = "AttributeDefinitions BillingMode DeletionProtectionEnabled GlobalSecondaryIndexes \
    KeySchema LocalSecondaryIndexes";

/// What the stack acts on, and what is without effect: items do not expire on one machine, its endpoint refuses nobody, and
/// all of its tables are as warm as its limits say.
const OTHERS: &str = "ContributorInsightsSpecification PointInTimeRecoverySpecification ProvisionedThroughput \
    ResourcePolicy SSESpecification StreamSpecification Tags TimeToLiveSpecification \
    WarmThroughput";

pub(super) fn table(resource: &Resource) -> Result<Table, Problem> {
    let properties = resource.properties(&[PASSED_ON, OTHERS].join(" "))?;
    let mut request = json!({ "TableName": resource.id });
    for name in PASSED_ON.split(' ') {
        if let Some(property) = properties.get(name) {
            request[name] = property.node.to_json();
        }
    }
    if let Some(throughput) = properties.optional("ProvisionedThroughput", capacity)? {
        request["ProvisionedThroughput"] = throughput;
    }
    if let Some(stream) = properties.get("StreamSpecification") {
        stream.node.entries(&stream.what)?;
        let mut stream = stream.node.to_json();
        // CreateTable requires it; CloudFormation infers it from the view type.
        stream["StreamEnabled"] = true.into();
        request["StreamSpecification"] = stream;
    }
    let insights = properties.optional("ContributorInsightsSpecification", insights_mode)?;
    Ok(Table { name: resource.id.clone(), create_request: request, insights: insights.flatten() })
}

/// The units, which are text where they are values of parameters.
fn capacity(throughput: &Named<'_>) -> Result<serde_json::Value, Problem> {
    const UNITS: &str = "ReadCapacityUnits WriteCapacityUnits";
    let throughput = throughput.only(UNITS)?;
    let mut capacity = json!({});
    for name in UNITS.split(' ') {
        capacity[name] = throughput.require(name)?.number_in(1..=i32::MAX)?.into();
    }
    Ok(capacity)
}

/// Without a mode, `CloudFormation` reports every key, as DynamoDB does.
fn insights_mode(specification: &Named<'_>) -> Result<Option<InsightsMode>, Problem> {
    let specification = specification.only("Enabled Mode")?;
    let mode = specification.optional("Mode", |node| node.choice(InsightsMode::NAMES))?;
    let mode = mode.unwrap_or(InsightsMode::AccessedAndThrottledKeys);
    Ok(specification.require("Enabled")?.flag()?.then_some(mode))
}
