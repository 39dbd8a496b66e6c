//! Label and field selectors: `app=web,tier in (a,b),!old` and `metadata.name=x,status.phase!=Running`.

use serde_json::Value;
use std::fmt;

/// Everything in it must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    requirements: Vec<Requirement>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    Exists,
    Absent,
    In(Vec<String>),
    NotIn(Vec<String>),
    Greater(i64),
    Less(i64),
}

/// Why a selector cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SelectorError(pub String);

impl Selector {
    pub fn everything() -> Self {
        Selector::default()
    }

    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty()
    }

    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        Parser { tokens: tokens(text), position: 0 }.selector()
    }

    /// From a LabelSelector object (`matchLabels`, `matchExpressions`). `None` selects nothing.
    pub fn from_label_selector(selector: Option<&Value>) -> Option<Self> {
        let selector = selector.filter(|s| !s.is_null())?;
        let mut requirements = Vec::new();
        for (key, value) in selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten() {
            let value = value.as_str().unwrap_or_default().to_owned();
            requirements.push(Requirement { key: key.clone(), test: Test::In(vec![value]) });
        }
        for expression in crate::object::list(selector, &["matchExpressions"]) {
            let values = || {
                crate::object::list(expression, &["values"])
                    .iter()
                    .filter_map(|v| v.as_str().map(str::to_owned))
                    .collect()
            };
            let test = match crate::object::text(expression, &["operator"]) {
                "In" => Test::In(values()),
                "NotIn" => Test::NotIn(values()),
                "Exists" => Test::Exists,
                "DoesNotExist" => Test::Absent,
                _ => return None,
            };
            requirements.push(Requirement { key: crate::object::text(expression, &["key"]).to_owned(), test });
        }
        Some(Selector { requirements })
    }

    /// From a list of requirements: those that can be read, and what is wrong with the others. All must hold, so that one that is
    /// left out selects more, never less.
    pub fn from_expressions(expressions: &[Value]) -> (Self, Vec<SelectorError>) {
        let (mut requirements, mut errors) = (Vec::new(), Vec::new());
        for expression in expressions {
            let operator = crate::object::text(expression, &["operator"]);
            let is_known = matches!(operator, "In" | "NotIn" | "Exists" | "DoesNotExist");
            let one = serde_json::json!({"matchExpressions": [expression]});
            match Selector::from_label_selector(Some(&one)).filter(|_| is_known) {
                Some(selector) => requirements.extend(selector.requirements),
                None => errors.push(SelectorError(format!("{operator:?} is not a valid label selector operator"))),
            }
        }
        (Selector { requirements }, errors)
    }

    /// Each requirement as objects write it: key, operator and values. Comparisons of numbers have no such form.
    pub fn expressions(&self) -> impl Iterator<Item = (&str, &'static str, &[String])> {
        self.requirements.iter().filter_map(|requirement| {
            let (operator, values): (_, &[String]) = match &requirement.test {
                Test::Exists => ("Exists", &[]),
                Test::Absent => ("DoesNotExist", &[]),
                Test::In(values) => ("In", values),
                Test::NotIn(values) => ("NotIn", values),
                Test::Greater(_) | Test::Less(_) => return None,
            };
            Some((requirement.key.as_str(), operator, values))
        })
    }

    pub fn matches<'a>(&self, get: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.requirements.iter().all(|requirement| {
            let value = get(&requirement.key);
            match &requirement.test {
                Test::Exists => value.is_some(),
                Test::Absent => value.is_none(),
                Test::In(values) => value.is_some_and(|v| values.iter().any(|x| x == v)),
                Test::NotIn(values) => value.is_none_or(|v| !values.iter().any(|x| x == v)),
                Test::Greater(bound) => value.and_then(|v| v.parse::<i64>().ok()).is_some_and(|v| v > *bound),
                Test::Less(bound) => value.and_then(|v| v.parse::<i64>().ok()).is_some_and(|v| v < *bound),
            }
        })
    }

    /// Does it select an object with these labels (a JSON map, or nothing)?
    pub fn matches_labels(&self, labels: Option<&Value>) -> bool {
        self.matches(|key| labels.and_then(|l| l.get(key)).and_then(Value::as_str))
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, requirement) in self.requirements.iter().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            let key = &requirement.key;
            match &requirement.test {
                Test::Exists => write!(f, "{key}")?,
                Test::Absent => write!(f, "!{key}")?,
                Test::In(values) if values.len() == 1 => write!(f, "{key}={}", values[0])?,
                Test::In(values) => write!(f, "{key} in ({})", values.join(","))?,
                Test::NotIn(values) if values.len() == 1 => write!(f, "{key}!={}", values[0])?,
                Test::NotIn(values) => write!(f, "{key} notin ({})", values.join(","))?,
                Test::Greater(bound) => write!(f, "{key}>{bound}")?,
                Test::Less(bound) => write!(f, "{key}<{bound}")?,
            }
        }
        Ok(())
    }
}

/// A field selector: only equality, over the few fields that a kind offers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector {
    pub terms: Vec<FieldTerm>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldTerm {
    pub field: String,
    pub value: String,
    pub equal: bool,
}

impl FieldSelector {
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let mut terms = Vec::new();
        for term in text.split(',').filter(|t| !t.trim().is_empty()) {
            let found = ["!=", "==", "="]
                .iter()
                .filter_map(|op| term.find(op).map(|at| (at, *op)))
                .min_by_key(|(at, op)| (*at, std::cmp::Reverse(op.len())));
            let Some((at, operator)) = found else {
                return Err(SelectorError(format!("invalid selector: '{text}'; can't understand '{term}'")));
            };
            terms.push(FieldTerm {
                field: term[..at].to_owned(),
                value: term[at + operator.len()..].to_owned(),
                equal: operator != "!=",
            });
        }
        Ok(FieldSelector { terms })
    }

    pub fn is_everything(&self) -> bool {
        self.terms.is_empty()
    }

    pub fn matches<'a>(&self, get: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.terms.iter().all(|t| (get(&t.field).unwrap_or_default() == t.value) == t.equal)
    }

    /// The value that `field` must have, if the selector says so.
    pub fn required(&self, field: &str) -> Option<&str> {
        self.terms.iter().find(|t| t.equal && t.field == field).map(|t| t.value.as_str())
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    Symbol(&'static str),
}

fn tokens(text: &str) -> Vec<Token> {
    const SYMBOLS: [&str; 9] = ["!=", "==", "=", "!", "(", ")", ",", ">", "<"];
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        if let Some(symbol) = SYMBOLS.iter().find(|s| rest.starts_with(**s)) {
            tokens.push(Token::Symbol(symbol));
            rest = rest[symbol.len()..].trim_start();
        } else {
            let end = rest.find(|c: char| c.is_whitespace() || "=!(),><".contains(c)).unwrap_or(rest.len());
            tokens.push(Token::Word(rest[..end].to_owned()));
            rest = rest[end..].trim_start();
        }
    }
    tokens
}

struct Parser {
    tokens: Vec<Token>,
    position: usize,
}

impl Parser {
    fn selector(mut self) -> Result<Selector, SelectorError> {
        let mut requirements = Vec::new();
        if self.tokens.is_empty() {
            return Ok(Selector::default());
        }
        loop {
            requirements.push(self.requirement()?);
            match self.next() {
                None => break,
                Some(Token::Symbol(",")) => match self.peek() {
                    Some(Token::Word(_) | Token::Symbol("!")) => {}
                    other => return Err(unexpected(other, "identifier after ','")),
                },
                other => return Err(unexpected(other.as_ref(), "',' or 'end of string'")),
            }
        }
        // Upstream keeps requirements by key; equal keys keep their order.
        requirements.sort_by(|a: &Requirement, b| a.key.cmp(&b.key));
        Ok(Selector { requirements })
    }

    fn requirement(&mut self) -> Result<Requirement, SelectorError> {
        let absent = self.peek() == Some(&Token::Symbol("!"));
        if absent {
            self.position += 1;
        }
        let key = match self.next() {
            Some(Token::Word(word)) => word,
            other => return Err(unexpected(other.as_ref(), "!, identifier, or 'end of string'")),
        };
        check_key(&key)?;
        if absent {
            return Ok(Requirement { key, test: Test::Absent });
        }
        let test = match self.peek().cloned() {
            None | Some(Token::Symbol(",")) => Test::Exists,
            Some(Token::Symbol("=" | "==")) => Test::In(vec![self.exact_value(&key)?]),
            Some(Token::Symbol("!=")) => Test::NotIn(vec![self.exact_value(&key)?]),
            Some(Token::Symbol(">")) => Test::Greater(self.number(&key)?),
            Some(Token::Symbol("<")) => Test::Less(self.number(&key)?),
            Some(Token::Word(word)) if word == "in" => Test::In(self.values(&key)?),
            Some(Token::Word(word)) if word == "notin" => Test::NotIn(self.values(&key)?),
            other => return Err(unexpected(other.as_ref(), "in, notin, =, ==, !=, gt, lt")),
        };
        Ok(Requirement { key, test })
    }

    fn exact_value(&mut self, key: &str) -> Result<String, SelectorError> {
        self.position += 1;
        let value = match self.peek().cloned() {
            None | Some(Token::Symbol(",")) => String::new(),
            Some(Token::Word(word)) => {
                self.position += 1;
                word
            }
            other => return Err(unexpected(other.as_ref(), "identifier")),
        };
        check_value(key, &value)?;
        Ok(value)
    }

    fn number(&mut self, key: &str) -> Result<i64, SelectorError> {
        let value = self.exact_value(key)?;
        value.parse().map_err(|_| {
            SelectorError(format!(
                "values[0][{key}]: Invalid value: {value:?}: for 'Gt', 'Lt' operators, the value must be an integer"
            ))
        })
    }

    fn values(&mut self, key: &str) -> Result<Vec<String>, SelectorError> {
        self.position += 1;
        match self.next() {
            Some(Token::Symbol("(")) => {}
            other => return Err(unexpected(other.as_ref(), "'('")),
        }
        let mut values = Vec::new();
        loop {
            match self.next() {
                Some(Token::Word(word)) => {
                    check_value(key, &word)?;
                    values.push(word);
                    match self.next() {
                        Some(Token::Symbol(",")) => {}
                        Some(Token::Symbol(")")) => break,
                        other => return Err(unexpected(other.as_ref(), "',' or ')'")),
                    }
                }
                Some(Token::Symbol(",")) => values.push(String::new()),
                Some(Token::Symbol(")")) => {
                    values.push(String::new());
                    break;
                }
                other => return Err(unexpected(other.as_ref(), "',', ')' or identifier")),
            }
        }
        values.sort();
        Ok(values)
    }

    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.position)
    }

    fn next(&mut self) -> Option<Token> {
        let token = self.tokens.get(self.position).cloned();
        self.position += 1;
        token
    }
}

fn unexpected(token: Option<&Token>, wanted: &str) -> SelectorError {
    let found = match token {
        None => "",
        Some(Token::Word(word)) => word.as_str(),
        Some(Token::Symbol(symbol)) => symbol,
    };
    SelectorError(format!("unable to parse requirement: found '{found}', expected: {wanted}"))
}

fn check_key(key: &str) -> Result<(), SelectorError> {
    match crate::rules::qualified_name(key).into_iter().next() {
        None => Ok(()),
        Some(problem) => {
            Err(SelectorError(format!("unable to parse requirement: <nil>: Invalid value: {key:?}: {problem}")))
        }
    }
}

fn check_value(key: &str, value: &str) -> Result<(), SelectorError> {
    match crate::rules::label_value(value).into_iter().next() {
        None => Ok(()),
        Some(problem) => Err(SelectorError(format!(
            "unable to parse requirement: values[0][{key}]: Invalid value: {value:?}: {problem}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn selectors_choose_what_they_say() {
        let labels = json!({"app": "web", "tier": "front", "n": "5"});
        for (text, expected) in [
            ("", true),
            ("app=web", true),
            ("app==web,tier", true),
            ("app!=web", false),
            ("absent!=x", true),
            ("tier in (front,back)", true),
            ("tier notin (front)", false),
            ("!old", true),
            ("!app", false),
            ("n>4,n<6", true),
            ("app in (web), !x", true),
        ] {
            let selector = Selector::parse(text).unwrap();
            assert_eq!(selector.matches_labels(Some(&labels)), expected, "{text}");
        }
    }

    #[test]
    fn a_broken_selector_says_what_is_wrong() {
        let error = Selector::parse("a b c").unwrap_err().to_string();
        assert_eq!(error, "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt");
        assert!(Selector::parse("a in b").is_err());
        assert!(Selector::parse(",").is_err());
        assert!(Selector::parse("a=b,").is_err());
        assert!(Selector::parse("-bad=x").is_err());
    }

    #[test]
    fn label_selectors_of_objects_select_the_same() {
        let selector = json!({"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "c", "operator": "NotIn", "values": ["d"]}]});
        let selector = Selector::from_label_selector(Some(&selector)).unwrap();
        assert!(selector.matches_labels(Some(&json!({"a": "b"}))));
        assert!(!selector.matches_labels(Some(&json!({"a": "b", "c": "d"}))));
        assert!(Selector::from_label_selector(None).is_none());
    }

    #[test]
    fn field_selectors_compare_for_equality() {
        let selector = FieldSelector::parse("metadata.name=x,status.phase!=Running").unwrap();
        assert_eq!(selector.required("metadata.name"), Some("x"));
        assert!(selector.matches(|f| if f == "metadata.name" { Some("x") } else { Some("Pending") }));
        assert!(FieldSelector::parse("x").is_err());
    }
}
