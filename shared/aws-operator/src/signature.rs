//! Reads that are signed at a chosen time. They tell how old a signature DynamoDB takes, which bounds
//! when a request that was held up may still execute (protocol: "Assumptions", A2).

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::operation::get_item::GetItemError;
use aws_smithy_async::time::TimeSource;
use dynashard_core::TableSchema;

use dynashard_aws::clock::Clocks;
use dynashard_aws::error::{
    causes, is_signature_expired, is_throttle, is_without_answer, remedied, service_error,
};
use dynashard_aws::pool::http_client;

use crate::answer_watch::{AnswerWatch, Witnessed};
use crate::client::config_of_operator;
use crate::credentials::ConnectError;
use crate::inspection::key_of_nobody;
use crate::operator::Operator;

/// A connection of its own, on which reads are signed as of another time than now. Different
/// connections may reach different hosts of DynamoDB.
#[derive(Debug)]
pub struct SignatureProbe {
    client: Client,
    table: String,
    schema: TableSchema,
    shift: ShiftedTime,
    watch: AnswerWatch,
}

/// What a read told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeAnswer {
    /// What became of the signature.
    pub verdict: SignatureVerdict,
    /// How long the read took. The shorter that was, the better is the clock known.
    pub took: Duration,
    /// By how many seconds the local clock is ahead of the server's; below 0 it is behind. To about a
    /// second, since a `Date` is cut to seconds. `None` without an answer, or without a `Date` in it.
    pub clock_ahead_secs: Option<i64>,
    /// The server that was asked, as `host` or `host:port`.
    pub server: Option<String>,
}

/// What became of a signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SignatureVerdict {
    /// The server took it: it executed the read, or refused it for a reason that it looks at later,
    /// such as a missing permission or a throttle.
    Accepted,
    /// The server refused it for its age. The error usually names the window, in seconds.
    Expired {
        /// The age up to which the error says that signatures are taken.
        window_secs: Option<u64>,
    },
    /// It is not known, for this reason, which says what to do.
    Unknown(String),
    /// There was no answer, for this reason.
    Unanswered(String),
}

impl SignatureProbe {
    /// So many connections to the table, for reads by [`SignatureProbe::read`].
    pub async fn connect(
        operator: &Operator,
        table: &str,
        schema: &TableSchema,
        connections: usize,
    ) -> Result<Vec<Self>, ConnectError> {
        // Resolved once: a provider would be asked by way of each connection.
        let credentials = operator.credentials().await?;
        let probe = || {
            let (shift, watch) = (ShiftedTime::default(), AnswerWatch::default());
            let config = config_of_operator(&operator.config)
                .http_client(http_client())
                .credentials_provider(credentials.clone())
                .time_source(shift.clone())
                .interceptor(watch.clone());
            Self {
                client: Client::from_conf(config.build()),
                table: table.to_owned(),
                schema: schema.clone(),
                shift,
                watch,
            }
        };
        Ok(std::iter::repeat_with(probe).take(connections).collect())
    }
}

impl SignatureProbe {
    /// Reads an item that nobody has, signed as if the local clock were `shift_secs` ahead of what it
    /// is; below 0 the signature is old. The read costs half a read unit, and nothing if it is
    /// refused.
    pub async fn read(&mut self, shift_secs: i64) -> ProbeAnswer {
        self.shift.set(shift_secs);
        let request = self.client.get_item().table_name(&self.table);
        let request = request.set_key(Some(key_of_nobody(&self.schema)));
        let sent = Clocks::now();
        let verdict = match request.send().await {
            Ok(_) => SignatureVerdict::Accepted,
            Err(error) => verdict(&error),
        };
        let received = Clocks::now();
        let Witnessed { server, date_secs } = self.watch.take();
        let clock_ahead_secs = date_secs.map(|date| ahead_secs(sent.wall, received.wall, date));
        let took = received.monotonic.saturating_sub(sent.monotonic);
        ProbeAnswer { verdict, took, clock_ahead_secs, server }
    }
}

/// The machine's wall clock, moved by some seconds.
#[derive(Debug, Clone, Default)]
struct ShiftedTime(Arc<AtomicI64>);

impl ShiftedTime {
    fn set(&self, secs: i64) {
        self.0.store(secs, Ordering::Relaxed);
    }
}

impl TimeSource for ShiftedTime {
    fn now(&self) -> SystemTime {
        let secs = self.0.load(Ordering::Relaxed);
        let shift = Duration::from_secs(secs.unsigned_abs());
        let wall = Clocks::now().wall;
        UNIX_EPOCH + if secs < 0 { wall.saturating_sub(shift) } else { wall + shift }
    }
}

fn verdict<R: std::fmt::Debug + 'static>(error: &SdkError<GetItemError, R>) -> SignatureVerdict {
    let Some((code, message)) = service_error(error) else {
        let why = causes(error);
        return if is_without_answer(error) {
            SignatureVerdict::Unanswered(why)
        } else {
            SignatureVerdict::Unknown(format!("{why}; check --region and --endpoint-url"))
        };
    };
    match code {
        "InvalidSignatureException" if is_signature_expired(message) => {
            SignatureVerdict::Expired { window_secs: named_window_secs(message) }
        }
        "RequestExpired" => SignatureVerdict::Expired { window_secs: None },
        // A server looks at these after the signature.
        "AccessDeniedException" | "ResourceNotFoundException" | "ValidationException" => {
            SignatureVerdict::Accepted
        }
        code if is_throttle(code) => SignatureVerdict::Accepted,
        _ => SignatureVerdict::Unknown(remedied(code, message)),
    }
}

/// The window that the error of an old signature names, in seconds. Of `Signature expired:
/// 20261122T080000Z is now earlier than 20261122T080100Z (20261122T081600Z - 15 min.)` it is 900 (AWS
/// Identity and Access Management User Guide, "Troubleshoot Signature Version 4 signed requests for
/// AWS APIs").
fn named_window_secs(message: &str) -> Option<u64> {
    let (_, span) = message.trim_end().strip_suffix(')')?.rsplit_once(" - ")?;
    let (number, unit) = span.trim_end_matches('.').split_once(' ')?;
    let unit_secs = match unit.trim() {
        "sec" => 1,
        "min" => 60,
        "hour" => 3_600,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(unit_secs)
}

/// By how much a local clock is ahead that showed `sent` and `received` around an answer of
/// `date_secs`. Whatever the way there and back may explain counts as 0.
fn ahead_secs(sent: Duration, received: Duration, date_secs: u64) -> i64 {
    let ahead = sent.as_secs().saturating_sub(date_secs);
    let behind = date_secs.saturating_sub(received.as_secs());
    i64::try_from(ahead).unwrap_or(i64::MAX) - i64::try_from(behind).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_names_the_window() {
        let named = |span: &str| {
            named_window_secs(&format!(
                "Signature expired: 20261122T080000Z is now earlier than 20261122T080100Z \
                 (20261122T081600Z - {span})"
            ))
        };
        assert_eq!(named("15 min."), Some(900));
        assert_eq!(named("5 min."), Some(300));
        assert_eq!(named("1 hour."), Some(3_600));
        assert_eq!(named("90 sec."), Some(90));
        for unreadable in ["fifteen min.", "15 fortnights.", "-1 min.", "18446744073709551615 min."]
        {
            assert_eq!(named(unreadable), None, "{unreadable}");
        }
        for other in ["", ")", "Signature expired", "Signature expired: now (x)", "a - 5 min."] {
            assert_eq!(named_window_secs(other), None, "{other}");
        }
    }

    #[test]
    fn the_way_there_and_back_is_no_error_of_the_clock() {
        let ahead = |sent_millis: u64, received_millis: u64, date_secs| {
            let clock = Duration::from_millis;
            ahead_secs(clock(sent_millis), clock(received_millis), date_secs)
        };
        assert_eq!(ahead(10_900, 11_100, 10), 0);
        assert_eq!(ahead(10_900, 11_100, 11), 0);
        assert_eq!(ahead(10_000, 40_000, 25), 0);
        assert_eq!(ahead(70_500, 70_600, 10), 60);
        assert_eq!(ahead(10_500, 10_600, 70), -60);
    }
}
