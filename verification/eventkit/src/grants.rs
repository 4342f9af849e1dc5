//! What holds of every route where tenants are granted their keys.

use dynashard_lambda::Handler;

use crate::{Answer, Call, World};

/// Asserts what holds of every route where `KeyGrants` grants tenants their keys. `calls` makes a request of each route that
/// touches a partition key.
///
/// A key that the caller is not granted is refused, and nothing is read or written for that: another tenant's key, a key of
/// nobody, and any key where there is no caller. The answer does not tell whether the key exists. A key that the caller is
/// granted is served.
#[track_caller]
pub fn assert_granted_keys_alone_are_served<H: Handler>(
    handler: impl Fn(&World) -> H,
    calls: impl Fn(&str) -> Vec<Call>,
) {
    let world = World::of_tenants();
    let handler = handler(&world);
    let before = world.memory.requests();
    for call in calls("EWR") {
        for call in
            [call.clone().with_claim("tenant", "JFK"), call.clone().with_claim("tenant", "*"), call]
        {
            let answer = Answer::of(&handler, &call);
            answer.assert_problem(403, "key_not_granted", &format!("{call:?}"));
        }
    }
    for (there, nowhere) in calls("EWR").into_iter().zip(calls("LGA")) {
        let of = |call: Call| Answer::of(&handler, &call.with_claim("tenant", "JFK")).text;
        assert_eq!(of(there), of(nowhere).replace("LGA", "EWR"));
    }
    assert_eq!(world.memory.requests(), before, "nothing was read or written");
    for call in calls("EWR") {
        let answer = Answer::of(&handler, &call.clone().with_claim("tenant", "EWR"));
        assert_ne!(answer.status, 403, "{call:?}: {}", answer.text);
    }
}
