//! What DynamoDB's answers mean to the core.

use dynashard_aws::error::is_throttle;
use dynashard_aws_operator::RawError;
use dynashard_core::Throttle;
use dynashard_core::ports::StoreError;
use serde_json::Value;

use crate::call::Answer;
use crate::document::Members;

/// What an answer means.
pub(crate) enum Outcome {
    /// It was carried out.
    Done(Answer),
    /// A condition did not hold.
    Refused(Answer),
    /// Nothing happened, and sending it again may help.
    Again(StoreError, Answer),
    /// It is the client's: DynamoDB calls the request wrong, or does not know what became of it.
    Passed(Answer),
}

impl Outcome {
    /// What this answer means.
    pub(crate) fn of(answer: Answer) -> Self {
        if answer.is_success() {
            return Self::Done(answer);
        }
        let members = if answer.status == 400 { answer.members() } else { Members::new() };
        let kind = members.get("__type").and_then(Value::as_str).unwrap_or_default();
        match kind.rsplit_once('#').map_or(kind, |(_, kind)| kind) {
            "ConditionalCheckFailedException" => Self::Refused(answer),
            "TransactionConflictException" => Self::Again(StoreError::Conflict, answer),
            kind if is_throttle(kind) => {
                Self::Again(StoreError::Throttled(throttle(&members)), answer)
            }
            _ => Self::Passed(answer),
        }
    }
}

/// The limit that refused a request as a whole, if one did.
pub(crate) fn refused_by_limit(answer: &Answer) -> Option<Throttle> {
    let members = if answer.status == 400 { answer.members() } else { Members::new() };
    let kind = members.get("__type").and_then(Value::as_str).unwrap_or_default();
    is_throttle(kind.rsplit_once('#').map_or(kind, |(_, kind)| kind)).then(|| throttle(&members))
}

/// The limit that refused a request, as far as DynamoDB has said.
fn throttle(members: &Members) -> Throttle {
    // DynamoDB spells the member of a `ThrottlingException` otherwise than those of the other two.
    let reasons = members.get("ThrottlingReasons").or_else(|| members.get("throttlingReasons"));
    let reason = reasons.and_then(|reasons| reasons.get(0));
    let text = |name: &str| Some(reason?.get(name)?.as_str()?.to_owned());
    let of_reason = |reason: String| Throttle::from_reason(&reason, text("resource"));
    text("reason").map_or_else(Throttle::unknown, of_reason)
}

/// What it means to a write that it was not answered.
pub(crate) fn unanswered_write(error: RawError) -> StoreError {
    match error {
        RawError::LeaseExpired => StoreError::LeaseExpired,
        RawError::NotSent(why) => StoreError::Unavailable(why),
        RawError::NoAnswer(why) => StoreError::OutcomeUnknown(why),
    }
}

/// What it means to a read, which changes nothing.
pub(crate) fn unanswered_read(error: RawError) -> StoreError {
    match unanswered_write(error) {
        StoreError::OutcomeUnknown(why) => StoreError::Unavailable(why),
        error => error,
    }
}

/// Has DynamoDB report what a request consumes. Whether the client has asked for that, too.
pub(crate) fn ask_for_units(body: &mut Members) -> bool {
    let asked = body.get(CAPACITY);
    if asked.is_some_and(|asked| asked != "NONE") {
        return true;
    }
    body.insert(CAPACITY.to_owned(), "TOTAL".into());
    false
}

/// The units that a request consumed. They are taken out of what the client is answered if it has not asked for them.
pub(crate) fn take_units(members: &mut Members, asked: bool) -> f64 {
    let consumed = members.get("ConsumedCapacity");
    let units = consumed.and_then(|consumed| consumed.get("CapacityUnits")?.as_f64());
    if !asked {
        members.remove("ConsumedCapacity");
    }
    units.unwrap_or_default()
}

const CAPACITY: &str = "ReturnConsumedCapacity";
