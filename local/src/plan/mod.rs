//! What a template asks for, as plain data: tables, functions and what invokes them, alarms, and the
//! names and ARNs of all of these.

mod alarm;
mod function;
mod metric;
mod names;
mod pattern;
mod permission;
mod role;
mod table;
mod with_names;

pub(crate) use alarm::{Alarm, AlarmActions, AlarmSchedule, Comparison, Fill, MissingData};
#[cfg(test)]
pub(crate) use function::testing;
pub(crate) use function::{
    Authorization, EventPolicy, Function, JwtAuthorizer, LogLevel, RetryPolicy, Route, Schedule,
    StartingPosition, StreamMapping,
};
pub(crate) use metric::{MetricId, Statistic};
pub(crate) use names::{
    ACCOUNT_ID, REGION, TEMPLATE_LABEL, alarm_arn, execute_api_arn, function_arn, insight_rule_arn,
    queue_arn, role_arn, stream_arn, table_arn,
};
pub(crate) use pattern::Pattern;
pub(crate) use permission::{ALARMS, API_GATEWAY, Permission, TextPattern};
pub(crate) use role::{
    Asked, EVERY, Effect, Role, Statement, Verdict, is_known_action, resource_pattern, unchecked,
};
pub(crate) use table::{InsightsMode, Table};
pub(crate) use with_names::{by_name, with_names};

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// What the stack runs: the tables, queues, functions, alarms and API of a SAM template, with the
/// parameters of this run put in.
#[derive(Clone, Debug)]
pub struct Plan {
    pub(crate) parameters: BTreeMap<String, String>,
    pub(crate) tables: Vec<Table>,
    /// The logical ids of the queues, which are also their names.
    pub(crate) queues: Vec<String>,
    pub(crate) functions: Vec<Function>,
    pub(crate) alarms: Vec<Alarm>,
    /// What the functions may do.
    pub(crate) roles: Vec<Role>,
    /// Who may invoke the functions.
    pub(crate) permissions: Vec<Permission>,
}

impl Plan {
    /// The value of a parameter in this run.
    pub(crate) fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.get(name).map(String::as_str)
    }

    /// The names of the binaries that the functions run, each once.
    pub(crate) fn binaries(&self) -> BTreeSet<&str> {
        self.functions.iter().map(|function| function.binary.as_str()).collect()
    }

    /// For how long after its date the functions reckon that a request may execute, the parameters `RequestLifetimeSecs`
    /// and `SignatureAgeSecs`; `None` for a template without the first.
    pub(crate) fn lifetime_and_age(&self) -> Option<[Duration; 2]> {
        let secs = |name| {
            let secs = self.parameter(name)?.parse().ok()?;
            Duration::try_from_secs_f64(secs).ok()
        };
        Some([secs("RequestLifetimeSecs")?, secs("SignatureAgeSecs").unwrap_or_default()])
    }
}
