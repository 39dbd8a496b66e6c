//! Which headers pass a proxy: those about the content do, those about one connection, its user and this server do not.

use http::{HeaderMap, HeaderName, HeaderValue, Uri, header};
use std::net::IpAddr;

/// About one connection, whatever it carries.
const HOP_BY_HOP: [HeaderName; 9] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    HeaderName::from_static("proxy-connection"),
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// For this server, or said again for the next connection.
const ENDS_HERE: [HeaderName; 4] = [header::AUTHORIZATION, header::CONTENT_LENGTH, header::EXPECT, header::HOST];

/// Who somebody is, or acts as, for this server.
const OWN_PREFIXES: [&str; 3] = ["impersonate-", "pintle-", "x-remote-"];

/// Pages behind the proxy do not decide who else may read from this server.
const CROSS_ORIGIN: [HeaderName; 4] = [
    header::ACCESS_CONTROL_ALLOW_CREDENTIALS,
    header::ACCESS_CONTROL_ALLOW_HEADERS,
    header::ACCESS_CONTROL_ALLOW_METHODS,
    header::ACCESS_CONTROL_ALLOW_ORIGIN,
];

/// A token in the place of a WebSocket's subprotocol.
const TOKEN_PROTOCOL: &str = "base64url.bearer.authorization.k8s.io.";

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Whether the client wants another protocol on this connection.
pub fn asks_to_upgrade(headers: &HeaderMap) -> bool {
    let mut values = headers.get_all(header::CONNECTION).iter();
    values.any(|value| String::from_utf8_lossy(value.as_bytes()).to_ascii_lowercase().contains("upgrade"))
}

/// The host that the client asked.
pub fn host(headers: &HeaderMap, uri: &Uri) -> String {
    let header = headers.get(header::HOST).and_then(|value| value.to_str().ok());
    // HTTP/2 has it in the place of a URL's.
    header.or_else(|| uri.authority().map(|authority| authority.as_str())).unwrap_or_default().to_owned()
}

/// The headers of the request that is passed on.
pub fn of_request(headers: &HeaderMap, upgrade: bool, from: Option<IpAddr>) -> HeaderMap {
    let mut passed = headers.clone();
    remove_hop_by_hop(&mut passed);
    ENDS_HERE.iter().for_each(|name| _ = passed.remove(name));
    let own = |name: &&HeaderName| OWN_PREFIXES.iter().any(|prefix| name.as_str().starts_with(prefix));
    let own: Vec<HeaderName> = passed.keys().filter(own).cloned().collect();
    own.iter().for_each(|name| _ = passed.remove(name));
    without_token(&mut passed);
    if headers.get(header::TE).is_some_and(|value| value == "trailers") {
        passed.insert(header::TE, HeaderValue::from_static("trailers"));
    }
    if upgrade {
        passed.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.get_all(header::UPGRADE).iter().for_each(|value| _ = passed.append(header::UPGRADE, value.clone()));
    }
    if let Some(from) = from {
        let before = passed.get_all(FORWARDED_FOR).iter().filter_map(|value| value.to_str().ok());
        let all: Vec<String> = before.map(str::to_owned).chain([from.to_canonical().to_string()]).collect();
        if let Ok(value) = HeaderValue::from_str(&all.join(", ")) {
            passed.insert(FORWARDED_FOR, value);
        }
    }
    passed
}

/// Leaves only those headers of an answer that are for the client.
pub fn of_answer(headers: &mut HeaderMap) {
    remove_hop_by_hop(headers);
    CROSS_ORIGIN.iter().for_each(|name| _ = headers.remove(name));
}

fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let named = headers.get_all(header::CONNECTION).iter().filter_map(|value| value.to_str().ok());
    let named: Vec<String> = named.flat_map(|value| value.split(',')).map(|name| name.trim().to_owned()).collect();
    named.iter().for_each(|name| _ = headers.remove(name.as_str()));
    HOP_BY_HOP.iter().for_each(|name| _ = headers.remove(name));
}

fn without_token(headers: &mut HeaderMap) {
    let offered = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter().filter_map(|value| value.to_str().ok());
    let offered: Vec<&str> = offered.flat_map(|value| value.split(',')).map(str::trim).collect();
    if !offered.iter().any(|protocol| protocol.starts_with(TOKEN_PROTOCOL)) {
        return;
    }
    let kept: Vec<&str> = offered.into_iter().filter(|protocol| !protocol.starts_with(TOKEN_PROTOCOL)).collect();
    match HeaderValue::from_str(&kept.join(", ")) {
        Ok(value) if !kept.is_empty() => _ = headers.insert(header::SEC_WEBSOCKET_PROTOCOL, value),
        _ => _ = headers.remove(header::SEC_WEBSOCKET_PROTOCOL),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pairs = pairs.iter();
        pairs.map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn credentials_stay_here_and_content_passes() {
        let given = headers(&[
            ("authorization", "Bearer secret"),
            ("impersonate-user", "ann"),
            ("x-remote-user", "ann"),
            ("pintle-cause", "c"),
            ("connection", "keep-alive, X-Only-Here"),
            ("x-only-here", "1"),
            ("keep-alive", "5"),
            ("proxy-authorization", "secret"),
            ("transfer-encoding", "chunked"),
            ("te", "trailers"),
            ("expect", "100-continue"),
            ("host", "api"),
            ("accept", "text/html"),
            ("cookie", "session=1"),
            ("x-forwarded-for", "10.0.0.1"),
            ("sec-websocket-protocol", "v4.channel.k8s.io, base64url.bearer.authorization.k8s.io.c2VjcmV0"),
        ]);
        let expected = headers(&[
            ("te", "trailers"),
            ("accept", "text/html"),
            ("cookie", "session=1"),
            ("x-forwarded-for", "10.0.0.1, 10.0.0.2"),
            ("sec-websocket-protocol", "v4.channel.k8s.io"),
        ]);
        assert_eq!(of_request(&given, false, "::ffff:10.0.0.2".parse().ok()), expected);
    }

    #[test]
    fn an_upgrade_is_asked_for_again() {
        let given = headers(&[("connection", "keep-alive, Upgrade"), ("upgrade", "SPDY/3.1"), ("keep-alive", "5")]);
        assert!(asks_to_upgrade(&given));
        assert_eq!(of_request(&given, true, None), headers(&[("connection", "Upgrade"), ("upgrade", "SPDY/3.1")]));
        assert!(!asks_to_upgrade(&headers(&[("connection", "close"), ("upgrade", "h2c")])));
    }

    #[test]
    fn an_answer_does_not_open_this_server_to_other_origins() {
        let mut answer = headers(&[("access-control-allow-origin", "*"), ("connection", "close"), ("etag", "1")]);
        of_answer(&mut answer);
        assert_eq!(answer, headers(&[("etag", "1")]));
    }
}
