//! The notation in which Prometheus reads metrics.

use std::fmt::Write as _;

use jiff::Timestamp;

/// One value of a family, with the labels that tell it from the others.
#[derive(Debug)]
pub(super) struct Sample {
    labels: String,
    value: String,
    at: Option<Timestamp>,
}

impl Sample {
    pub(super) fn new(labels: &[(&str, &str)], value: impl ToString) -> Self {
        let each = labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value)));
        let labels = match labels.is_empty() {
            true => String::new(),
            false => format!("{{{}}}", each.collect::<Vec<_>>().join(",")),
        };
        Sample { labels, value: value.to_string(), at: None }
    }

    /// With the moment at which it was measured.
    pub(super) fn at(self, at: Timestamp) -> Self {
        Sample { at: Some(at), ..self }
    }
}

/// Families of metrics, one after the other.
#[derive(Debug, Default)]
pub(super) struct Exposition(String);

impl Exposition {
    /// A family without a value is not mentioned.
    pub(super) fn family(&mut self, name: &str, kind: &str, help: &str, samples: impl Iterator<Item = Sample>) {
        let mut samples = samples.peekable();
        if samples.peek().is_none() {
            return;
        }
        // Writing to a string does not fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for Sample { labels, value, at } in samples {
            let _ = match at {
                Some(at) => writeln!(self.0, "{name}{labels} {value} {}", at.as_millisecond()),
                None => writeln!(self.0, "{name}{labels} {value}"),
            };
        }
    }

    pub(super) fn gauge(&mut self, name: &str, help: &str, value: impl ToString) {
        self.family(name, "gauge", help, std::iter::once(Sample::new(&[], value)));
    }

    pub(super) fn counter(&mut self, name: &str, help: &str, value: impl ToString) {
        self.family(name, "counter", help, std::iter::once(Sample::new(&[], value)));
    }

    pub(super) fn into_text(self) -> String {
        self.0
    }
}

/// Seconds, to the nanosecond.
pub(super) fn seconds(nanoseconds: u64) -> String {
    format!("{}.{:09}", nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000)
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_prometheus_reads_is_written_as_it_wants_it() {
        let mut text = Exposition::default();
        let at = Timestamp::from_millisecond(1500).unwrap();
        let samples = [Sample::new(&[("a", "x\"y\\z\n"), ("b", "")], 1), Sample::new(&[], "2.5").at(at)];
        text.family("m_total", "counter", "Some help", samples.into_iter());
        text.family("none", "gauge", "Nothing", std::iter::empty());
        text.gauge("g", "One", 7);
        assert_eq!(
            text.into_text(),
            "# HELP m_total Some help\n# TYPE m_total counter\nm_total{a=\"x\\\"y\\\\z\\n\",b=\"\"} 1\nm_total 2.5 1500\n\
             # HELP g One\n# TYPE g gauge\ng 7\n"
        );
        assert_eq!(seconds(1_500_000_000), "1.500000000");
    }
}
