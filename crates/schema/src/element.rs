//! One step of a path into an object, as `managedFields` writes it: `f:spec`, `k:{"name":"a"}`, `v:"x"`, `i:0`.

use serde_json::{Map, Value};
use std::cmp::Ordering;
use std::fmt;

/// One step. The order of the variants and of their values is the order in which sets are written.
#[derive(Clone, Debug)]
pub enum Element {
    /// A field of an object or a key of a map.
    Field(Box<str>),
    /// The item of a list that has these keys.
    Key(Map<String, Value>),
    /// The item of a set.
    Value(Value),
    Index(i64),
}

impl Element {
    pub fn field(name: &str) -> Element {
        Element::Field(name.into())
    }

    /// Reads a step. Steps of an unknown kind are nothing, for a later version to know.
    pub fn parse(text: &str) -> Result<Option<Element>, String> {
        let Some((kind, rest)) = text.split_once(':') else { return Err(format!("missing colon: {text}")) };
        match kind {
            "f" => Ok(Some(Element::field(rest))),
            "v" => {
                serde_json::from_str(rest).map(|value| Some(Element::Value(value))).map_err(|error| error.to_string())
            }
            "k" => serde_json::from_str(rest).map(|keys| Some(Element::Key(keys))).map_err(|error| error.to_string()),
            "i" => rest.parse().map(|index| Some(Element::Index(index))).map_err(|_| format!("bad index: {text}")),
            _ => Ok(None),
        }
    }

    /// The step as a key of a set.
    pub fn serialized(&self) -> String {
        match self {
            Element::Field(name) => format!("f:{name}"),
            Element::Key(keys) => format!("k:{}", html_safe(&Value::Object(keys.clone()))),
            Element::Value(value) => format!("v:{}", html_safe(value)),
            Element::Index(index) => format!("i:{index}"),
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Element::Field(_) => 0,
            Element::Key(_) => 1,
            Element::Value(_) => 2,
            Element::Index(_) => 3,
        }
    }
}

/// The path as conflict messages show it: `.spec.containers[name="a"].image`.
impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Element::Field(name) => write!(f, ".{name}"),
            Element::Key(keys) => {
                let shown: Vec<String> = keys.iter().map(|(name, value)| format!("{name}={value}")).collect();
                write!(f, "[{}]", shown.join(","))
            }
            Element::Value(value) => write!(f, "[={value}]"),
            Element::Index(index) => write!(f, "[{index}]"),
        }
    }
}

impl Ord for Element {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Element::Field(left), Element::Field(right)) => left.cmp(right),
            (Element::Key(left), Element::Key(right)) => compare_keys(left, right),
            (Element::Value(left), Element::Value(right)) => compare(left, right),
            (Element::Index(left), Element::Index(right)) => left.cmp(right),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for Element {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Element {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Element {}

fn compare_keys(left: &Map<String, Value>, right: &Map<String, Value>) -> Ordering {
    for ((left_name, left_value), (right_name, right_value)) in left.iter().zip(right) {
        let order = left_name.cmp(right_name).then_with(|| compare(left_value, right_value));
        if order.is_ne() {
            return order;
        }
    }
    left.len().cmp(&right.len())
}

/// Orders values: numbers, strings, booleans, null; numbers compare by value, so that `1` is `1.0`.
pub(crate) fn compare(left: &Value, right: &Value) -> Ordering {
    let rank = |value: &Value| match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    };
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => match (left.as_i64(), right.as_i64()) {
            (Some(left), Some(right)) => left.cmp(&right),
            _ => left.as_f64().unwrap_or(0.0).total_cmp(&right.as_f64().unwrap_or(0.0)),
        },
        (Value::String(left), Value::String(right)) => left.cmp(right),
        (Value::Bool(left), Value::Bool(right)) => left.cmp(right),
        (Value::Array(left), Value::Array(right)) => {
            let unequal = left.iter().zip(right).map(|(left, right)| compare(left, right)).find(|order| order.is_ne());
            unequal.unwrap_or_else(|| left.len().cmp(&right.len()))
        }
        (Value::Object(left), Value::Object(right)) => compare_keys(left, right),
        _ => rank(left).cmp(&rank(right)),
    }
}

/// JSON with `<`, `>` and `&` escaped, as the API writes keys.
fn html_safe(value: &Value) -> String {
    let text = value.to_string();
    if text.contains(['<', '>', '&', '\u{2028}', '\u{2029}']) {
        text.replace('<', "\\u003c")
            .replace('>', "\\u003e")
            .replace('&', "\\u0026")
            .replace('\u{2028}', "\\u2028")
            .replace('\u{2029}', "\\u2029")
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn steps_are_written_as_they_were_read() {
        let cases = ["f:spec", "f:a:b", "k:{\"containerPort\":80,\"protocol\":\"TCP\"}", "v:\"example.com/f\"", "i:3"];
        for text in cases {
            let element = Element::parse(text).expect("a sound step").expect("a known kind");
            assert_eq!(element.serialized(), text);
        }
        assert_eq!(Element::parse("x:later"), Ok(None));
        assert!(Element::parse("nonsense").is_err());
        assert!(Element::parse("k:[").is_err());
    }

    #[test]
    fn numbers_are_one_key_however_written() {
        assert_eq!(Element::Value(json!(1)), Element::Value(json!(1.0)));
        assert_ne!(Element::Value(json!(1)), Element::Value(json!("1")));
    }
}
