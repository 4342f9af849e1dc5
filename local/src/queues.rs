//! The queues of the template: in memory, for people to read.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use serde::Serialize;

use crate::clock::{SharedClock, epoch_millis};
use crate::ids;

/// The queues by their logical ids. Messages stay until the stack ends, or until newer ones take
/// their place.
#[derive(Debug)]
pub(crate) struct Queues {
    clock: SharedClock,
    queues: BTreeMap<String, Mutex<Queue>>,
}

/// What a queue holds, as `GET /_dynashard/queues/<logical id>` tells it.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Queue {
    /// How many messages were dropped because there were more than [`MAX_MESSAGES`].
    pub(crate) dropped: u64,
    /// The oldest first.
    pub(crate) messages: VecDeque<Message>,
}

/// A message, with the names that `ReceiveMessage` of the SQS API gives its parts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Message {
    #[serde(rename = "MessageId")]
    pub(crate) id: String,
    /// Milliseconds since the Unix epoch.
    pub(crate) sent_timestamp: u64,
    pub(crate) body: String,
}

impl Queues {
    pub(crate) fn new(names: &[String], clock: &SharedClock) -> Self {
        let queues = names.iter().map(|name| (name.clone(), Mutex::default()));
        Self { clock: Arc::clone(clock), queues: queues.collect() }
    }

    /// Appends a message. The loader has checked that the template has the queue; a message to
    /// another one is lost.
    pub(crate) fn send(&self, queue: &str, body: String) {
        let Some(mut queue) = self.queues.get(queue).map(Mutex::lock) else {
            tracing::error!(queue, "a message is lost: the template has no such queue");
            return;
        };
        if queue.messages.len() == MAX_MESSAGES {
            queue.messages.pop_front();
            queue.dropped += 1;
        }
        let sent_timestamp = epoch_millis(self.clock.now());
        queue.messages.push_back(Message { id: ids::uuid(), sent_timestamp, body });
    }

    /// What a queue holds now.
    pub(crate) fn contents(&self, queue: &str) -> Option<Queue> {
        self.queues.get(queue).map(|queue| queue.lock().clone())
    }
}

/// More failures than anybody reads one by one; of more, the newest are kept.
pub(crate) const MAX_MESSAGES: usize = 1000;

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use serde_json::json;

    use super::*;
    use crate::clock::manual::ManualClock;

    #[test]
    fn messages_are_kept_in_order_up_to_the_limit() {
        let clock = ManualClock::at(SystemTime::UNIX_EPOCH + Duration::from_millis(1_500));
        let shared: SharedClock = clock;
        let queues = Queues::new(&["Failures".to_owned()], &shared);
        queues.send("Failures", "first".to_owned());
        queues.send("Nothing", "lost".to_owned());
        assert!(queues.contents("Nothing").is_none());
        let contents = queues.contents("Failures").expect("a queue");
        let id = &contents.messages[0].id;
        assert_eq!(
            json!(contents),
            json!({
                "dropped": 0,
                "messages": [{ "MessageId": id, "SentTimestamp": 1500, "Body": "first" }],
            })
        );
        for message in 0..MAX_MESSAGES {
            queues.send("Failures", message.to_string());
        }
        let contents = queues.contents("Failures").expect("a queue");
        assert_eq!((contents.messages.len(), contents.dropped), (MAX_MESSAGES, 1));
        assert_eq!(contents.messages[0].body, "0");
    }
}
