//! What a table on demand has to take as a whole, whatever its shards: they share what it takes.

use serde::Serialize;

use crate::bulk_load::BulkLoad;
use crate::capacity::Throughput;
use crate::stage::Stage;

/// What a new table on demand takes at once, which is its warm throughput
/// ([initial throughput](https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/on-demand-capacity-mode.html)).
pub const NEW_TABLE: Throughput = Throughput { read_units: 12_000.0, write_units: 4_000.0 };

/// What an account allows one table by default
/// ([quotas](https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/ServiceQuotas.html)).
pub const DEFAULT_QUOTA: Throughput = Throughput { read_units: 40_000.0, write_units: 40_000.0 };

/// What a workload needs of a table on demand.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct TableNeeds {
    /// The warm throughput with which the present peak and the bulk load are not throttled. That of later months comes by
    /// itself: DynamoDB takes up to twice the peak that a table had before.
    pub warm: Throughput,
    /// The account's quota for the table with which the last month is not throttled either.
    pub quota: Throughput,
}

impl TableNeeds {
    pub(crate) fn of(now: &Stage, later: &Stage, bulk_load: Option<&BulkLoad>) -> Self {
        let loading = bulk_load.map_or(0, |load| load.write_units_per_second);
        let loading = Throughput { read_units: 0.0, write_units: crate::float(loading) };
        let present = now.peak.whole().max(loading);
        Self {
            warm: present.max(NEW_TABLE),
            quota: present.max(later.peak.whole()).max(DEFAULT_QUOTA),
        }
    }

    /// Whether a new table takes less at once.
    pub fn is_more_than_a_new_table_takes(&self) -> bool {
        self.warm != NEW_TABLE
    }

    /// Whether an account allows a table less by default.
    pub fn is_above_the_default_quota(&self) -> bool {
        self.quota != DEFAULT_QUOTA
    }
}
