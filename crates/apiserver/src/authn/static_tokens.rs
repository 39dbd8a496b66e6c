//! Tokens that stand in a file, each with its user: `token,user,uid,"group1,group2"`.

use super::User;
use crate::memo::{self, Key};
use std::collections::HashMap;
use std::sync::Arc;

/// By the digests of the tokens.
#[derive(Default)]
pub struct StaticTokens(HashMap<Key, Arc<User>>);

/// What is wrong with a file of tokens.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenFileError {
    #[error("line {line} must have at least 3 columns (token, user name, user uid), found {found}")]
    Columns { line: usize, found: usize },
    #[error("line {0}: a quote is not closed, or stands inside a column")]
    Quote(usize),
}

impl StaticTokens {
    pub fn parse(text: &str) -> Result<Self, TokenFileError> {
        let mut tokens = HashMap::new();
        for (line, text) in text.lines().enumerate().filter(|(_, text)| !text.is_empty()) {
            let line = line + 1;
            let columns = columns(text).ok_or(TokenFileError::Quote(line))?;
            let [token, name, uid, rest @ ..] = columns.as_slice() else {
                return Err(TokenFileError::Columns { line, found: columns.len() });
            };
            if token.is_empty() {
                tracing::warn!(line, "an empty token in the file of tokens is skipped");
                continue;
            }
            let groups = rest.first().map(|groups| groups.split(',').map(str::to_owned).collect()).unwrap_or_default();
            let user = User { name: name.clone(), uid: uid.clone(), groups, ..User::default() };
            if tokens.insert(digest(token), Arc::new(user)).is_some() {
                tracing::warn!(line, "a token stands more than once in the file of tokens; the last one counts");
            }
        }
        Ok(StaticTokens(tokens))
    }

    pub(super) fn user(&self, token: &str) -> Option<Arc<User>> {
        self.0.get(&digest(token)).cloned()
    }
}

fn digest(token: &str) -> Key {
    memo::key([token.as_bytes()])
}

/// The columns of a line; `""` inside a quoted one is a quote. None if the quotes make no sense.
fn columns(line: &str) -> Option<Vec<String>> {
    let mut columns = Vec::new();
    let mut rest = line;
    loop {
        let column;
        if let Some(quoted) = rest.strip_prefix('"') {
            let end = end_of_quoted(quoted)?;
            column = quoted[..end].replace("\"\"", "\"");
            rest = &quoted[end + 1..];
        } else {
            let end = rest.find(',').unwrap_or(rest.len());
            column = rest[..end].to_owned();
            rest = &rest[end..];
            if column.contains('"') {
                return None;
            }
        }
        columns.push(column);
        match rest.strip_prefix(',') {
            Some(next) => rest = next,
            None => return rest.is_empty().then_some(columns),
        }
    }
}

fn end_of_quoted(text: &str) -> Option<usize> {
    let mut from = 0;
    loop {
        let at = from + text.get(from..)?.find('"')?;
        match text.get(at + 1..).and_then(|next| next.chars().next()) {
            Some('"') => from = at + 2,
            _ => return Some(at),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_of_the_file_is_its_users_and_another_is_nobodys() {
        let tokens =
            StaticTokens::parse("t1,jane,42,\"devs,ops\"\n\nt2,\"joe \"\"j\"\"\",43\n,nobody,1\nt3,ann,44,devs,more\n")
                .unwrap();
        let user = |token: &str| tokens.user(token).map(|user| (user.name.clone(), user.groups.join(" ")));
        assert_eq!(user("t1"), Some(("jane".into(), "devs ops".into())));
        assert_eq!(user("t2"), Some(("joe \"j\"".into(), String::new())));
        assert_eq!(user("t3"), Some(("ann".into(), "devs".into())));
        for nobody in ["", "t", "t11", "jane", "t1,jane"] {
            assert_eq!(user(nobody), None, "{nobody:?}");
        }
        assert_eq!(tokens.user("t1").unwrap().uid, "42");
        let error = |text: &str| StaticTokens::parse(text).err();
        assert_eq!(error("a,b,c\nt,jane"), Some(TokenFileError::Columns { line: 2, found: 2 }));
        assert_eq!(error("t,jane,\"1"), Some(TokenFileError::Quote(1)));
        assert_eq!(error("t,ja\"ne,1"), Some(TokenFileError::Quote(1)));
    }
}
