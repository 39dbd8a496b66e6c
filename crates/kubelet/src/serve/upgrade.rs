//! The HTTP exchange after which a connection belongs to another protocol: WebSocket or SPDY/3.1.

use http::{HeaderMap, HeaderName, Request, Response, StatusCode, header};
use tokio::io::DuplexStream;

use super::{Answer, Failure, PIPE, websocket};

const SPDY: &str = "SPDY/3.1";

/// Names the protocols that a client speaks on top of SPDY, or the one that was chosen.
const STREAM_PROTOCOL: HeaderName = HeaderName::from_static("x-stream-protocol-version");

/// A connection that has changed hands: the answer with one end of it, the other end, and the protocol that was agreed on.
pub(super) struct Upgraded<'a> {
    pub(super) answer: Response<Answer>,
    pub(super) connection: DuplexStream,
    pub(super) protocol: &'a str,
}

impl<'a> Upgraded<'a> {
    fn new(head: Response<()>, protocol: &'a str) -> Self {
        let (connection, theirs) = tokio::io::duplex(PIPE);
        Upgraded { answer: head.map(|()| Answer::Upgraded(Box::new(theirs))), connection, protocol }
    }
}

/// Whether a client asks for SPDY.
pub(super) fn is_spdy(headers: &HeaderMap) -> bool {
    is_asked(headers, SPDY)
}

pub(super) fn is_asked(headers: &HeaderMap, protocol: &str) -> bool {
    let has = |name, wanted: &str| listed(headers, name).any(|token| token.eq_ignore_ascii_case(wanted));
    has(header::CONNECTION, "upgrade") && has(header::UPGRADE, protocol)
}

/// What a header says, which may come several times and have several values each time.
pub(super) fn listed(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = &str> {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim).filter(|token| !token.is_empty())
}

/// Opens a SPDY connection with the first of the client's protocols that is one of ours.
pub(super) fn spdy<'a>(headers: &HeaderMap, ours: &[&'a str]) -> Result<Upgraded<'a>, Failure> {
    let theirs: Vec<&str> = listed(headers, STREAM_PROTOCOL).collect();
    if theirs.is_empty() {
        return Err(Failure::bad(format!("{STREAM_PROTOCOL} is missing: it says what the streams of SPDY are for")));
    }
    let Some(protocol) = theirs.iter().find_map(|theirs| ours.iter().find(|ours| *ours == theirs)) else {
        let message = format!("unable to negotiate protocol: the client offers {theirs:?}, this node accepts {ours:?}");
        return Err(Failure(StatusCode::FORBIDDEN, message));
    };
    let head = Response::builder()
        .status(StatusCode::SWITCHING_PROTOCOLS)
        .header(header::CONNECTION, "Upgrade")
        .header(header::UPGRADE, SPDY)
        .header(STREAM_PROTOCOL, *protocol)
        .body(());
    let head = head.map_err(|error| Failure::bad(error.to_string()))?;
    Ok(Upgraded::new(head, protocol))
}

/// Opens a WebSocket with the first of our protocols that the client speaks too.
pub(super) fn websocket<'a>(request: &Request<()>, ours: &[&'a str]) -> Result<Upgraded<'a>, Failure> {
    let headers = request.headers();
    if !websocket::is_asked(headers) {
        let asked = headers.get(header::UPGRADE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let message = match asked {
            "" => "Upgrade request required".to_owned(),
            other => format!("this node speaks WebSocket and {SPDY}, not {other}"),
        };
        return Err(Failure::bad(message));
    }
    let Some(protocol) = websocket::protocol(headers, ours) else {
        let message = format!("unable to negotiate protocol: this node supports {ours:?} over WebSocket here");
        return Err(Failure::bad(message));
    };
    let head = websocket::opened(headers, protocol).ok_or_else(|| Failure::bad("Sec-WebSocket-Key is missing"))?;
    Ok(Upgraded::new(head, protocol))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse::<HeaderName>().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn a_client_gets_the_first_of_its_protocols_that_the_node_speaks() {
        let ours = ["v4.channel.k8s.io", "v3.channel.k8s.io"];
        let chosen = |headers: &HeaderMap| spdy(headers, &ours).map(|opened| (opened.protocol, opened.answer));
        let name = "x-stream-protocol-version";
        let mut asked = headers(&[("connection", "keep-alive, Upgrade"), ("upgrade", "spdy/3.1")]);
        assert!(is_spdy(&asked));
        assert_eq!(chosen(&asked).err().unwrap().0, StatusCode::BAD_REQUEST, "it does not say which it speaks");
        asked.append(name, "v5.channel.k8s.io, v4.channel.k8s.io".parse().unwrap());
        asked.append(name, "v3.channel.k8s.io".parse().unwrap());
        let (protocol, answer) = chosen(&asked).unwrap();
        assert_eq!(protocol, "v4.channel.k8s.io");
        assert_eq!(answer.status(), StatusCode::SWITCHING_PROTOCOLS);
        assert_eq!(answer.headers()[name], "v4.channel.k8s.io");
        let Failure(code, message) = chosen(&headers(&[(name, "v9")])).err().unwrap();
        assert_eq!(code, StatusCode::FORBIDDEN);
        assert!(message.contains("v9") && message.contains("v3.channel.k8s.io"), "{message}");
        assert!(!is_spdy(&headers(&[("upgrade", "SPDY/3.1")])));
    }
}
