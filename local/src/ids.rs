//! Identifiers in the formats of the services that would make them. Nothing depends on their values.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// A request id of Lambda: a random UUID.
pub(crate) fn uuid() -> String {
    let mut bytes: [u8; 16] = random();
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex = hex(&bytes);
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

/// A request id of API Gateway: 15 base64 digits and a padding.
pub(crate) fn gateway_request_id() -> String {
    STANDARD.encode(random::<11>())
}

/// A request id of DynamoDB: 52 letters and digits.
pub(crate) fn dynamodb_request_id() -> String {
    let mut id = hex(&random::<26>());
    id.make_ascii_uppercase();
    id
}

/// A tracing header of X-Ray. Every trace is sampled if any is.
pub(crate) fn trace_header(epoch_secs: u64, is_sampled: bool) -> String {
    let (trace, parent) = (hex(&random::<12>()), hex(&random::<8>()));
    let sampled = u8::from(is_sampled);
    format!("Root=1-{epoch_secs:08x}-{trace};Parent={parent};Sampled={sampled}")
}

fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    // Without randomness the ids repeat, which only logs show.
    if getrandom::fill(&mut bytes).is_err() {
        tracing::warn!("the operating system gave no random bytes");
    }
    bytes
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 0x0f])
        .map(|digit| char::from(DIGITS[usize::from(digit)]))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_have_the_shapes_of_their_services() {
        let id = uuid();
        assert_eq!(id.len(), 36);
        assert_eq!(&id[14..15], "4");
        assert!("89ab".contains(&id[19..20]));
        assert_eq!(gateway_request_id().len(), 16);
        assert!(gateway_request_id().ends_with('='));
        assert_eq!(dynamodb_request_id().len(), 52);
        assert_ne!(uuid(), uuid());
    }
}
