//! One request, described once: who asks for what, and how. Made when the user is known, and never changed.
//!
//! Authorization, admission, the registry, metrics and causes all take the [`Call`]. A question that is no request of its own
//! ("may this user escalate?") is a call too: [`Call::asks`].

use crate::authn::User;
use crate::catalogue::Resource;
use crate::incoming::FieldValidation;
use crate::notation::negotiate::not_acceptable;
use crate::request::{Query, ResourcePath, Target};
use crate::response::{Offer, Wanted};
use crate::verb::Verb;
use http::HeaderMap;
use pintle_meta::labels::{FieldSelector, Selector};
use pintle_meta::{Status, field};
use std::sync::Arc;

/// The longest name of a field manager, in bytes.
const MAX_MANAGER_BYTES: usize = 128;

/// The server itself, where it writes objects.
const OWN_NAME: &str = "system:apiserver";

pub struct Call {
    pub verb: Verb,
    pub user: Arc<User>,
    /// Empty for paths that are no objects, such as `/version`.
    pub path: ResourcePath,
    /// The whole path, decoded.
    pub url: String,
    /// None where the path names nothing that is served.
    pub resource: Option<Arc<Resource>>,
    pub query: Query,
    /// The field selector of a list; some may see only what it selects.
    pub fields: FieldSelector,
    /// The label selector of a list, as far as it can be read.
    pub labels: Selector,
    pub headers: HeaderMap,
    /// Does it last until somebody ends it?
    pub is_long_running: bool,
    /// Who lists the one of a name asks for that one.
    selected: Option<String>,
    /// How the answer is to look; none if nothing that is offered is accepted.
    wanted: Option<Wanted>,
}

impl Call {
    pub fn new(target: Target, resource: Option<Arc<Resource>>, user: Arc<User>, headers: HeaderMap) -> Self {
        let is_long_running = target.is_long_running();
        let Target { verb, path, url, query } = target;
        // One that cannot be read selects nothing for sure; the verb says what is wrong with it.
        let fields = FieldSelector::parse(query.get("fieldSelector")).unwrap_or_default();
        let labels = Selector::parse(query.get("labelSelector")).unwrap_or_default();
        let lists = matches!(verb, Verb::List | Verb::Watch | Verb::DeleteCollection);
        let selected = fields.required("metadata.name").filter(|_| lists).map(str::to_owned);
        let offer = resource.as_ref().map_or(Offer::TEXT, |resource| Offer::of(resource));
        let wanted = Wanted::negotiate(&headers, offer).ok();
        Call { verb, user, path, url, resource, query, fields, labels, headers, is_long_running, selected, wanted }
    }

    /// The question whether a user may do something to an object or a collection.
    pub fn asks(user: Arc<User>, verb: Verb, path: ResourcePath) -> Self {
        let target = Target { verb, path, ..Target::default() };
        Call::new(target, None, user, HeaderMap::new())
    }

    /// The same for a path that is no object's.
    pub fn asks_path(user: Arc<User>, verb: Verb, url: &str) -> Self {
        let target = Target { verb, url: url.to_owned(), ..Target::default() };
        Call::new(target, None, user, HeaderMap::new())
    }

    /// A write of the server itself. `manager` owns what it sets.
    pub fn own(verb: Verb, resource: &Arc<Resource>, namespace: &str, name: &str, manager: &str) -> Self {
        let path = ResourcePath {
            group: resource.group.clone(),
            version: resource.version.clone(),
            namespace: namespace.to_owned(),
            in_namespace: resource.namespaced,
            resource: resource.name.clone(),
            name: name.to_owned(),
            ..ResourcePath::default()
        };
        let target = Target { verb, path, query: Query::of("fieldManager", manager), ..Target::default() };
        Call::new(target, Some(resource.clone()), Arc::new(User::internal(OWN_NAME)), HeaderMap::new())
    }

    /// The same through a subresource.
    pub fn through(mut self, subresource: &str) -> Self {
        subresource.clone_into(&mut self.path.subresource);
        self
    }

    /// The same, about one object of the collection.
    pub fn of_object(&self, namespace: &str, name: &str) -> Self {
        let path = ResourcePath { namespace: namespace.to_owned(), name: name.to_owned(), ..self.path.clone() };
        Call {
            verb: self.verb.clone(),
            user: self.user.clone(),
            path,
            url: self.url.clone(),
            resource: self.resource.clone(),
            query: self.query.clone(),
            fields: self.fields.clone(),
            labels: self.labels.clone(),
            headers: self.headers.clone(),
            is_long_running: self.is_long_running,
            selected: self.selected.clone(),
            wanted: self.wanted,
        }
    }

    /// Is it about objects, and not about a path such as `/version`?
    pub fn is_of_objects(&self) -> bool {
        !self.path.resource.is_empty()
    }

    pub fn resource(&self) -> Result<&Arc<Resource>, Status> {
        self.resource.as_ref().ok_or_else(Status::no_such_resource)
    }

    /// The object that is asked for.
    pub fn name(&self) -> &str {
        match self.path.name.as_str() {
            "" => self.selected.as_deref().unwrap_or_default(),
            name => name,
        }
    }

    /// The namespace of the objects: none for cluster-wide ones.
    pub fn namespace(&self) -> &str {
        if self.resource.as_ref().is_some_and(|resource| !resource.namespaced) { "" } else { &self.path.namespace }
    }

    /// Does a Pod or a node answer it, whatever is asked?
    pub fn is_proxied(&self) -> bool {
        self.path.subresource == "proxy"
    }

    /// How the answer is to look.
    pub fn wanted(&self) -> Result<Wanted, Status> {
        self.wanted.ok_or_else(not_acceptable)
    }

    pub fn field_validation(&self) -> Result<FieldValidation, Status> {
        FieldValidation::from(&self.query)
    }

    pub fn dry_run(&self) -> Result<bool, Status> {
        self.query.dry_run()
    }

    /// Who owns the fields that this call sets: what it says, or the program's name from its user agent.
    pub fn manager(&self) -> Result<String, Status> {
        let options = match self.verb {
            Verb::Create => Some("CreateOptions"),
            Verb::Update => Some("UpdateOptions"),
            Verb::Patch => Some("PatchOptions"),
            // A deletion owns nothing: only its agent is noted.
            _ => None,
        };
        let said = self.query.get("fieldManager");
        if let Some(options) = options {
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
}

/// What is wrong with the name of a field manager.
fn manager_problems(name: &str) -> field::Errors {
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
