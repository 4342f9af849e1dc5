//! Burst capacity: what a partition keeps of what it was not asked for.
//!
//! "Best Practices for Tables", ["Use Burst Capacity
//! Sparingly"](https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/burst-adaptive-capacity.html): up to five
//! minutes of it, which DynamoDB may also use itself without notice.

/// For how long DynamoDB keeps unused capacity, in seconds.
pub const KEPT_SECONDS: f64 = 300.0;

/// For how many seconds a partition that was idle carries `demand` units a second, of which its `part` is less. None if its
/// part is enough, or if the demand is above `most`, which no burst exceeds.
pub fn seconds(part: f64, demand: f64, most: f64) -> Option<f64> {
    (part < demand && demand <= most).then(|| KEPT_SECONDS * part / (demand - part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_lasts_as_long_as_what_was_kept() {
        // 20 write units a second for five minutes are 6,000, of which 100 a second take 80.
        assert_eq!(seconds(20.0, 100.0, 1_000.0), Some(75.0));
        assert_eq!(seconds(20.0, 20.0, 1_000.0), None);
        assert_eq!(seconds(500.0, 1_000.0, 1_000.0), Some(300.0));
        assert_eq!(seconds(500.0, 1_001.0, 1_000.0), None, "above what a partition gives at most");
    }
}
