//! What a cluster would keep for ever: access for anyone who finds an old token.

use k8s_openapi::api::core::v1::Secret;
use serde_json::json;

use super::plan::ends_at;

#[test]
fn a_token_ends_when_it_says_and_at_once_if_nobody_can_read_when() {
    let end = |text: &str| {
        let data = k8s_openapi::ByteString(text.as_bytes().to_vec());
        let secret: Secret = serde_json::from_value(json!({"data": {"expiration": data}})).unwrap();
        ends_at(&secret)
    };
    assert_eq!(end("2026-01-01T00:00:00Z").unwrap().to_string(), "2026-01-01T00:00:00Z");
    assert_eq!(end(""), None);
    assert!(end("soon").unwrap() < jiff::Timestamp::UNIX_EPOCH);
    assert_eq!(ends_at(&Secret::default()), None);
}
