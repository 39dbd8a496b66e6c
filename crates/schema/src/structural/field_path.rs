//! Paths into the objects of a schema, as selectable fields and the rules of a definition name them: `.spec.port`,
//! `.spec.ports['http']`.

use super::Props;
use serde_json::Value;

/// Why a path leads nowhere.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FieldPathError {
    #[error("does not refer to a valid field")]
    NoSuchField,
    #[error("array notation is not allowed")]
    ArrayNotation,
    #[error("unexpected end of JSON path")]
    End,
    #[error("expected single quoted string but got {0}")]
    NotQuoted(String),
    #[error("expected ] but got {0}")]
    NotClosed(String),
    #[error("expected [ or . but got: {0}")]
    NoStep(String),
}

/// A field that a path leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found<'a> {
    /// The names on the way.
    pub names: Vec<String>,
    /// The JSON type that its schema declares; empty where it declares none.
    pub value_type: &'a str,
}

/// The field at the end of a path that has dots alone.
pub fn at_field_path<'a>(schema: &'a Value, path: &str) -> Result<Found<'a>, FieldPathError> {
    let props = Props::of(schema).ok_or(FieldPathError::NoSuchField)?;
    let (names, found) = find(props, path, false)?;
    Ok(Found { names, value_type: found.map(|found| found.text("type")).unwrap_or_default() })
}

pub(super) fn find<'a>(
    schema: Props<'a>,
    path: &str,
    brackets: bool,
) -> Result<(Vec<String>, Option<Props<'a>>), FieldPathError> {
    let mut tokens = tokens(path).into_iter();
    let mut next = || tokens.next();
    let (mut names, mut here) = (Vec::new(), Some(schema));
    while let Some(token) = next() {
        let name = match token {
            "[" if !brackets => return Err(FieldPathError::ArrayNotation),
            "[" => {
                let quoted = next().ok_or(FieldPathError::End)?;
                let name = quoted.strip_prefix('\'').and_then(|name| name.strip_suffix('\''));
                let name = name.ok_or_else(|| FieldPathError::NotQuoted(quoted.to_owned()))?;
                let close = next().ok_or(FieldPathError::End)?;
                if close != "]" {
                    return Err(FieldPathError::NotClosed(close.to_owned()));
                }
                name.replace("\\'", "'").replace("\\\\", "\\")
            }
            "." => next().ok_or(FieldPathError::End)?.to_owned(),
            other => return Err(FieldPathError::NoStep(other.to_owned())),
        };
        let parent = here.ok_or(FieldPathError::NoSuchField)?;
        here = if parent.properties().next().is_some() {
            Some(parent.property(&name).ok_or(FieldPathError::NoSuchField)?)
        } else if parent.has("additionalProperties") {
            parent.schema("additionalProperties")
        } else {
            return Err(FieldPathError::NoSuchField);
        };
        names.push(name);
    }
    Ok((names, here))
}

/// Cuts a path at its delimiters, which are tokens themselves, but not inside of quotes.
fn tokens(path: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        let length = if rest.starts_with('\'') {
            let end = rest.char_indices().skip(1).find(|(at, c)| *c == '\'' && !rest[..*at].ends_with('\\'));
            end.map_or(rest.len(), |(at, _)| at + 1)
        } else {
            rest.find(['.', '[', ']']).unwrap_or(rest.len()).max(1)
        };
        let (token, after) = rest.split_at(length);
        tokens.push(token);
        rest = after;
    }
    tokens
}
