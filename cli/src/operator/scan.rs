//! Pages of a whole table, asked for again while they are throttled.

use std::time::Duration;

use dynashard_aws::{Operator, ScanPage, ScanSegment};
use dynashard_core::Attributes;
use dynashard_core::ports::{Clock, StoreError};
use tokio::time::sleep;

use super::{Failure, PATIENCE};

/// Pauses after refusals.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// One page of a segment of a table.
pub(super) async fn page(
    operator: &Operator,
    table: &str,
    segment: ScanSegment,
    after: Option<&Attributes>,
    is_strong: bool,
) -> Result<ScanPage, Failure> {
    let failed = |why: &str| Failure::connection(format!("Scan of table {table}: {why}"));
    let clock = operator.clock();
    let began = clock.now().boot;
    let mut pause = FIRST_PAUSE;
    loop {
        let why = match operator.scan(table, segment, after, None, is_strong).await {
            Ok(page) => return Ok(page),
            Err(StoreError::Throttled(throttle)) => throttle.to_string(),
            Err(StoreError::Unavailable(why)) => why,
            Err(
                StoreError::Misconfigured(why)
                | StoreError::Rejected(why)
                | StoreError::Corrupt(why),
            ) => return Err(failed(&why)),
            Err(error) => return Err(failed(&format!("{error:?}"))),
        };
        if clock.now().boot.saturating_sub(began) > PATIENCE {
            return Err(failed(&why));
        }
        sleep(pause).await;
        pause = (2 * pause).min(LONGEST_PAUSE);
    }
}
