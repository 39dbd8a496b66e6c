//! One request on its way through the verbs: what was asked, who asks, and what to remark in the answer.

use crate::authn::User;
use crate::catalogue::Resource;
use crate::causes;
use crate::fence::Fence;
use crate::incoming::FieldValidation;
use crate::registry::{Origin, Registry, Write};
use crate::request::{Query, ResourcePath};
use crate::response::Wanted;
use bytes::Bytes;
use http::HeaderMap;
use pintle_meta::{Status, field};
use serde_json::Value;
use std::sync::Arc;

/// The longest name of a field manager, in bytes.
const MAX_MANAGER_BYTES: usize = 128;

pub struct Exchange {
    pub verb: &'static str,
    pub path: ResourcePath,
    pub resource: Arc<Resource>,
    pub query: Query,
    pub headers: HeaderMap,
    pub body: Bytes,
    pub user: User,
    /// Under which Lease the writer believes to act.
    pub fence: Option<Fence>,
    pub wanted: Wanted,
    pub warnings: Vec<String>,
    /// Taken by what hands the connection over to another protocol.
    pub upgrade: Option<hyper::upgrade::OnUpgrade>,
}

impl Exchange {
    pub fn field_validation(&self) -> Result<FieldValidation, Status> {
        FieldValidation::from(&self.query)
    }

    /// Who owns the fields that this request sets: what it says, or the program's name from its user agent.
    pub fn manager(&self) -> Result<String, Status> {
        let options = match self.verb {
            "create" => Some("CreateOptions"),
            "update" => Some("UpdateOptions"),
            "patch" => Some("PatchOptions"),
            // A deletion owns nothing: only its agent is noted.
            _ => None,
        };
        if let Some(options) = options {
            let said = self.query.get("fieldManager");
            let errors = manager_problems(said);
            if !errors.is_empty() {
                return Err(Status::invalid("meta.k8s.io", options, "", &errors));
            }
            if !said.is_empty() {
                return Ok(said.to_owned());
            }
        }
        let agent = self.headers.get(http::header::USER_AGENT).map(|v| String::from_utf8_lossy(v.as_bytes()));
        Ok(manager_of_agent(agent.as_deref().unwrap_or("unknown")))
    }

    pub fn write<'a>(&'a self, stored: &'a Arc<Resource>, manager: &'a str) -> Result<Write<'a>, Status> {
        Ok(Write {
            resource: stored,
            namespace: if stored.namespaced { &self.path.namespace } else { "" },
            subresource: &self.path.subresource,
            user: &self.user,
            manager,
            dry_run: self.query.dry_run()?,
            origin: Origin { verb: self.verb, cause: self.headers.get(causes::HEADER), fence: self.fence.as_ref() },
        })
    }

    /// The body as an object of this resource, in the stored version.
    pub fn object(&mut self, registry: &Registry) -> Result<Value, Status> {
        let validation = self.field_validation()?;
        let parsed = crate::incoming::read(&self.headers, &self.body, &self.resource.kind, self.resource.custom)?;
        let mut value = crate::incoming::accept(&self.resource, parsed, validation, &mut self.warnings)?;
        registry.to_stored(&self.resource, &mut value);
        Ok(value)
    }

    /// The namespace for objects of this resource: none for cluster-wide ones.
    pub fn namespace(&self) -> &str {
        if self.resource.namespaced { &self.path.namespace } else { "" }
    }
}

/// What is wrong with the name of a field manager.
pub fn manager_problems(name: &str) -> field::Errors {
    let path = field::Path::new("fieldManager");
    let mut errors = Vec::new();
    if name.len() > MAX_MANAGER_BYTES {
        errors.push(field::Error::too_long(&path, MAX_MANAGER_BYTES));
    }
    // One is enough to say: each repeats the whole name.
    if let Some((at, odd)) = name.char_indices().find(|(_, c)| !is_printable(*c)) {
        let shown: String = name.chars().take(MAX_MANAGER_BYTES).collect();
        let detail = format!("invalid character U+{:04X} (at position {at})", u32::from(odd));
        errors.push(field::Error::invalid(&path, shown, detail));
    }
    errors
}

/// The program's name: what stands before the version, without what cannot be printed.
fn manager_of_agent(agent: &str) -> String {
    let name = agent.split('/').next().unwrap_or_default();
    let mut manager = String::new();
    for letter in name.chars().filter(|c| is_printable(*c)) {
        if manager.len() + letter.len_utf8() > MAX_MANAGER_BYTES {
            break;
        }
        manager.push(letter);
    }
    manager
}

/// Letters, marks, numbers, punctuation, symbols, and of all spaces only the plain one.
fn is_printable(letter: char) -> bool {
    let format = matches!(letter, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}');
    let private = matches!(letter, '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..);
    letter == ' ' || !(letter.is_control() || letter.is_whitespace() || format || private)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manager_has_a_name_that_people_can_read() {
        for (name, problems) in [
            ("kubectl-client-side-apply", 0),
            ("größer als", 0),
            (&"a".repeat(128), 0),
            (&"a".repeat(129), 1),
            ("a\u{0}b", 1),
            ("a\nb", 1),
            ("a\u{200b}b", 1),
            (&"\u{7f}".repeat(60_000), 2),
        ] {
            assert_eq!(manager_problems(name).len(), problems, "{name:?}");
        }
        assert_eq!(manager_of_agent("kubectl/v1.36 (linux)"), "kubectl");
        assert_eq!(manager_of_agent("my tool\t/1"), "my tool");
        assert_eq!(manager_of_agent(&"é".repeat(100)).len(), 128);
    }
}
