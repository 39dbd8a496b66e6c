//! The small part of kubectl's JSONPath that printer columns use: `.spec.x`, `[0]`, `['a.b']`, `[?(@.type=="Ready")]`.

use serde_json::Value;

/// A path that was understood.
#[derive(Clone, Debug)]
pub struct JsonPath(Vec<Step>);

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Key(String),
    Index(i64),
    All,
    /// `@.key == "value"`
    Where(Vec<String>, String),
}

impl JsonPath {
    pub fn parse(text: &str) -> Option<Self> {
        let mut rest = text.trim().trim_start_matches('$');
        let mut steps = Vec::new();
        while !rest.is_empty() {
            if let Some(after) = rest.strip_prefix('.') {
                let (key, end) = key(after);
                if !key.is_empty() {
                    steps.push(if key == "*" { Step::All } else { Step::Key(key) });
                }
                rest = &after[end..];
            } else {
                let inner = rest.strip_prefix('[')?;
                let close = closing(inner)?;
                steps.push(bracket(&inner[..close])?);
                rest = &inner[close + 1..];
            }
        }
        Some(JsonPath(steps))
    }

    /// Everything the path finds, in order.
    pub fn find<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        let mut found = vec![value];
        for step in &self.0 {
            found = found.into_iter().flat_map(|v| follow(step, v)).collect();
        }
        found
    }
}

fn follow<'a>(step: &Step, value: &'a Value) -> Vec<&'a Value> {
    match step {
        Step::Key(key) => value.get(key).into_iter().collect(),
        Step::Index(index) => {
            let list = value.as_array().map(Vec::as_slice).unwrap_or_default();
            let at = if *index < 0 { list.len() as i64 + index } else { *index };
            usize::try_from(at).ok().and_then(|at| list.get(at)).into_iter().collect()
        }
        Step::All => match value {
            Value::Array(list) => list.iter().collect(),
            Value::Object(map) => map.values().collect(),
            _ => Vec::new(),
        },
        Step::Where(path, wanted) => {
            let list = value.as_array().map(Vec::as_slice).unwrap_or_default();
            let matches = |item: &&Value| {
                let found = path.iter().try_fold(*item, |v, key| v.get(key));
                found.is_some_and(|v| v.as_str().map_or_else(|| v.to_string(), str::to_owned) == *wanted)
            };
            list.iter().filter(matches).collect()
        }
    }
}

/// A key up to the next dot or bracket; a backslash makes the next character plain.
fn key(text: &str) -> (String, usize) {
    let mut key = String::new();
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            '\\' if !escaped => escaped = true,
            '.' | '[' if !escaped => return (key, at),
            _ => {
                key.push(c);
                escaped = false;
            }
        }
    }
    (key, text.len())
}

/// Where the bracket closes, quotes left alone.
fn closing(text: &str) -> Option<usize> {
    let mut quote = None;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (None, '\'' | '"') => quote = Some(c),
            (Some(open), c) if c == open => quote = None,
            (None, ']') => return Some(at),
            _ => {}
        }
    }
    None
}

fn bracket(inner: &str) -> Option<Step> {
    let inner = inner.trim();
    if inner == "*" {
        return Some(Step::All);
    }
    if let Some(condition) = inner.strip_prefix("?(").and_then(|c| c.strip_suffix(')')) {
        let (left, right) = condition.split_once("==")?;
        let path = left.trim().strip_prefix("@.")?.split('.').map(str::to_owned).collect();
        return Some(Step::Where(path, unquote(right.trim()).to_owned()));
    }
    if inner.starts_with(['\'', '"']) {
        return Some(Step::Key(unquote(inner).to_owned()));
    }
    inner.parse().ok().map(Step::Index)
}

fn unquote(text: &str) -> &str {
    text.trim_matches(['\'', '"'])
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn columns_find_what_they_name() {
        let object = json!({"spec": {"n": 3, "l": ["a", "b"]}, "metadata": {"labels": {"a.b/c": "x"}},
            "status": {"conditions": [{"type": "Other", "status": "False"}, {"type": "Ready", "status": "True"}]}});
        for (path, expected) in [
            (".spec.n", vec![json!(3)]),
            (".spec.l[1]", vec![json!("b")]),
            (".spec.l[-1]", vec![json!("b")]),
            (".spec.l[*]", vec![json!("a"), json!("b")]),
            (".metadata.labels.a\\.b/c", vec![json!("x")]),
            (".metadata.labels['a.b/c']", vec![json!("x")]),
            (".status.conditions[?(@.type==\"Ready\")].status", vec![json!("True")]),
            (".absent.x", vec![]),
        ] {
            let found: Vec<Value> = JsonPath::parse(path).unwrap().find(&object).into_iter().cloned().collect();
            assert_eq!(found, expected, "{path}");
        }
        assert!(JsonPath::parse(".a[").is_none());
        assert!(JsonPath::parse("[?(x)]").is_none());
    }
}
