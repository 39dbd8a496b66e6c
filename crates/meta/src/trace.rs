//! W3C trace context: which trace a request or an object belongs to, as `traceparent` writes it.
//!
//! ```text
//! 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
//! version    trace id                       span id      flags
//! ```

use std::fmt;

/// The request header.
pub const HEADER: &str = "traceparent";

/// Where an object carries the trace of the write that last asked for something, as KEP-5915 proposes.
pub const ANNOTATION: &str = "tracing.k8s.io/traceparent";

const LENGTH: usize = 55;
const SAMPLED: u8 = 1;

/// One span of one trace, and whether somebody records it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TraceParent {
    trace: u128,
    span: u64,
    flags: u8,
}

impl TraceParent {
    /// The first span of a new trace. Identifiers of zero are invalid, so they become one.
    pub fn root(trace: u128, span: u64) -> Self {
        TraceParent { trace: trace.max(1), span: span.max(1), flags: SAMPLED }
    }

    /// Reads the header's value. Later versions are read as this one, as the specification asks.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        let is_later = bytes.get(..2).is_some_and(|version| version != b"00" && version != b"ff");
        let ends_well = match bytes.get(LENGTH) {
            None => true,
            Some(next) => is_later && *next == b'-',
        };
        let dashes = [2, 35, 52].iter().all(|at| bytes.get(*at) == Some(&b'-'));
        if bytes.len() < LENGTH || !dashes || !ends_well || bytes.starts_with(b"ff") {
            return None;
        }
        hex(&bytes[..2])?;
        let trace = hex(&bytes[3..35])?;
        let span = u64::try_from(hex(&bytes[36..52])?).ok()?;
        let flags = u8::try_from(hex(&bytes[53..LENGTH])?).ok()?;
        (trace != 0 && span != 0).then_some(TraceParent { trace, span, flags })
    }

    /// Another span of the same trace.
    #[must_use]
    pub fn child(self, span: u64) -> Self {
        TraceParent { span: span.max(1), ..self }
    }

    /// 32 hexadecimal digits.
    pub fn trace_id(self) -> String {
        format!("{:032x}", self.trace)
    }

    /// 16 hexadecimal digits.
    pub fn span_id(self) -> String {
        format!("{:016x}", self.span)
    }

    /// Whether the caller records this trace.
    pub fn is_sampled(self) -> bool {
        self.flags & SAMPLED != 0
    }
}

impl fmt::Display for TraceParent {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "00-{:032x}-{:016x}-{:02x}", self.trace, self.span, self.flags & SAMPLED)
    }
}

/// Lower-case digits alone.
fn hex(digits: &[u8]) -> Option<u128> {
    digits.iter().try_fold(0, |number, digit| {
        let value = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        Some(number << 4 | u128::from(value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_trace_is_passed_on_as_it_came() {
        let trace = TraceParent::parse(SENT).unwrap();
        assert_eq!(trace.to_string(), SENT);
        assert!(trace.is_sampled());
        let child = trace.child(0xAB);
        assert_eq!(child.to_string(), "00-4bf92f3577b34da6a3ce929d0e0e4736-00000000000000ab-01");
        assert_eq!((child.trace_id(), child.span_id().len()), (trace.trace_id(), 16));
        let later = format!("01{}-more", &SENT[2..]);
        assert_eq!(TraceParent::parse(&later), Some(trace));
        assert!(TraceParent::parse(&TraceParent::root(0, 0).to_string()).is_some(), "zeros are no identifiers");
    }

    #[test]
    fn what_is_no_trace_starts_none() {
        let zeros = "00-00000000000000000000000000000000-00f067aa0ba902b7-01";
        let no_span = "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01";
        let longer = format!("{SENT}-more");
        let capitals = SENT.to_uppercase();
        let reserved = format!("ff{}", &SENT[2..]);
        for text in ["", "00", zeros, no_span, &longer, &capitals, &reserved, &SENT[..54], &SENT.replace('-', "_"), "é"]
        {
            assert_eq!(TraceParent::parse(text), None, "{text}");
        }
    }
}
