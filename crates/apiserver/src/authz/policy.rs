//! Roles and bindings as a policy that a call can be held against. It changes by the object that changed, and a call looks only
//! at the bindings that name its user or one of its groups.

use super::rule::Rule;
use crate::authn::User;
use crate::call::Call;
use crate::codec;
use crate::follow::Followed;
use crate::keys;
use imbl::{OrdMap, OrdSet};
use pintle_meta::labels::Selector;
use pintle_meta::object;
use pintle_store::Entry;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

pub const PREFIXES: &[&str] = &[keys::CLUSTER_ROLES, keys::CLUSTER_ROLE_BINDINGS, keys::ROLES, keys::ROLE_BINDINGS];

#[derive(Clone, Default)]
pub struct Policy {
    cluster_roles: OrdMap<String, Arc<Role>>,
    /// By `namespace/name`.
    roles: OrdMap<String, Arc<Role>>,
    everywhere: Bindings,
    by_namespace: OrdMap<String, Bindings>,
    /// The rules of each aggregating role, with those of the roles that it selects.
    gathered: OrdMap<String, Arc<[Rule]>>,
    /// A change may have touched what aggregating roles select.
    stale: bool,
}

struct Role {
    rules: Arc<[Rule]>,
    labels: Value,
    selectors: Vec<Selector>,
}

#[derive(Clone, Default)]
struct Bindings {
    by_name: OrdMap<String, Arc<Binding>>,
    by_subject: OrdMap<Subject, OrdSet<String>>,
}

/// Who has which role.
struct Binding {
    name: String,
    /// Empty for a binding that counts everywhere.
    namespace: String,
    cluster_role: bool,
    role: String,
    subjects: Vec<Subject>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Subject {
    User(String),
    Group(String),
    /// Namespace and name.
    Account(String, String),
}

impl Followed for Policy {
    fn change(&mut self, key: &str, entry: Option<&Entry>) {
        let object = entry.map(|entry| codec::decode(&entry.value));
        self.set(key, object.as_ref());
    }

    fn settle(&mut self) {
        if !std::mem::take(&mut self.stale) {
            return;
        }
        let aggregating = self.cluster_roles.iter().filter(|(_, role)| !role.selectors.is_empty());
        let gathered = aggregating.map(|(name, role)| (name.clone(), self.gather(name, role)));
        self.gathered = gathered.collect();
    }
}

impl Policy {
    fn set(&mut self, key: &str, object: Option<&Value>) {
        if let Some(name) = keys::rest(key, keys::CLUSTER_ROLES) {
            let old = self.cluster_roles.get(name).cloned();
            let new = object.map(|object| Arc::new(Role::of(object)));
            self.stale |= old.iter().chain(&new).any(|role| self.concerns_aggregation(role));
            put(&mut self.cluster_roles, name, new);
        } else if let Some(name) = keys::rest(key, keys::ROLES) {
            put(&mut self.roles, name, object.map(|object| Arc::new(Role::of(object))));
        } else if let Some(name) = keys::rest(key, keys::CLUSTER_ROLE_BINDINGS) {
            self.everywhere.set(name, object.map(Binding::of));
        } else if let Some((namespace, name)) =
            keys::rest(key, keys::ROLE_BINDINGS).and_then(|rest| rest.split_once('/'))
        {
            let mut bindings = self.by_namespace.get(namespace).cloned().unwrap_or_default();
            bindings.set(name, object.map(Binding::of));
            let left = Some(bindings).filter(|bindings| !bindings.by_name.is_empty());
            put(&mut self.by_namespace, namespace, left);
        }
    }

    /// Does a change of this role change what an aggregating role has?
    fn concerns_aggregation(&self, role: &Role) -> bool {
        let selects = |other: &Role| other.selectors.iter().any(|selector| selector.matches_labels(Some(&role.labels)));
        !role.selectors.is_empty()
            || self.gathered.keys().any(|name| self.cluster_roles.get(name).is_some_and(|r| selects(r)))
    }

    /// An aggregating role may select another one (`edit` has all of `view`); each role counts once. What is written in an
    /// aggregating role itself is what a loop has gathered before, and counts for nothing.
    fn gather(&self, name: &str, role: &Role) -> Arc<[Rule]> {
        let mut seen = BTreeSet::from([name.to_owned()]);
        let mut rules = Vec::new();
        let mut selectors: Vec<&Selector> = role.selectors.iter().collect();
        while let Some(selector) = selectors.pop() {
            let matches = self.cluster_roles.iter().filter(|(_, r)| selector.matches_labels(Some(&r.labels)));
            for (name, other) in matches {
                if !seen.insert(name.clone()) {
                    continue;
                }
                match other.selectors.as_slice() {
                    [] => rules.extend_from_slice(&other.rules),
                    more => selectors.extend(more),
                }
            }
        }
        rules.into()
    }

    /// What a role allows; the empty namespace names a cluster role.
    pub fn role(&self, namespace: &str, name: &str) -> Option<Arc<[Rule]>> {
        if namespace.is_empty() {
            let gathered = self.gathered.get(name).cloned();
            return gathered.or_else(|| self.cluster_roles.get(name).map(|role| role.rules.clone()));
        }
        self.roles.get(&format!("{namespace}/{name}")).map(|role| role.rules.clone())
    }

    /// By which binding a call is allowed, if by any; else the bindings of its user whose role is not there.
    pub fn judge(&self, call: &Call) -> Result<String, Vec<String>> {
        let mut missing = Vec::new();
        for binding in self.bindings_of(&call.user, &call.path.namespace) {
            match self.rules_of(binding) {
                Some(rules) if rules.iter().any(|rule| rule.allows(call)) => {
                    return Ok(binding.described(&call.user));
                }
                Some(_) => {}
                None => missing.push(binding.without_role()),
            }
        }
        Err(missing)
    }

    /// Every rule that applies to a user in a namespace (none: at the cluster scope).
    pub fn rules_for(&self, user: &User, namespace: &str) -> Vec<Rule> {
        let rules = self.bindings_of(user, namespace).filter_map(|binding| self.rules_of(binding));
        rules.flat_map(|rules| rules.to_vec()).collect()
    }

    fn rules_of(&self, binding: &Binding) -> Option<Arc<[Rule]>> {
        self.role(if binding.cluster_role { "" } else { &binding.namespace }, &binding.role)
    }

    fn bindings_of<'a>(&'a self, user: &User, namespace: &str) -> impl Iterator<Item = &'a Binding> {
        let subjects = Subject::of_user(user);
        let local = self.by_namespace.get(namespace).map(|bindings| bindings.of(&subjects));
        self.everywhere.of(&subjects).into_iter().chain(local.into_iter().flatten())
    }
}

fn put<T: Clone>(map: &mut OrdMap<String, T>, name: &str, value: Option<T>) {
    match value {
        Some(value) => map.insert(name.to_owned(), value),
        None => map.remove(name),
    };
}

impl Role {
    fn of(role: &Value) -> Self {
        let selectors = object::list(role, &["aggregationRule", "clusterRoleSelectors"]).iter();
        Role {
            rules: object::list(role, &["rules"]).iter().map(Rule::from_value).collect(),
            labels: object::at(role, &["metadata", "labels"]).cloned().unwrap_or_default(),
            selectors: selectors.filter_map(|selector| Selector::from_label_selector(Some(selector))).collect(),
        }
    }
}

impl Bindings {
    fn set(&mut self, name: &str, binding: Option<Binding>) {
        if let Some(old) = self.by_name.remove(name) {
            for subject in &old.subjects {
                let mut names = self.by_subject.remove(subject).unwrap_or_default();
                names.remove(name);
                if !names.is_empty() {
                    self.by_subject.insert(subject.clone(), names);
                }
            }
        }
        let Some(binding) = binding else { return };
        for subject in &binding.subjects {
            self.by_subject.entry(subject.clone()).or_default().insert(name.to_owned());
        }
        self.by_name.insert(name.to_owned(), Arc::new(binding));
    }

    /// The bindings that name one of these, by name.
    fn of(&self, subjects: &[Subject]) -> Vec<&Binding> {
        let names: BTreeSet<&String> = subjects.iter().filter_map(|s| self.by_subject.get(s)).flatten().collect();
        names.into_iter().filter_map(|name| self.by_name.get(name)).map(|binding| &**binding).collect()
    }
}

impl Binding {
    fn of(binding: &Value) -> Self {
        let namespace = object::namespace(binding);
        let subjects = object::list(binding, &["subjects"]).iter();
        Binding {
            name: object::name(binding).to_owned(),
            namespace: namespace.to_owned(),
            cluster_role: object::text(binding, &["roleRef", "kind"]) == "ClusterRole",
            role: object::text(binding, &["roleRef", "name"]).to_owned(),
            subjects: subjects.filter_map(|subject| Subject::of(subject, namespace)).collect(),
        }
    }

    fn described(&self, user: &User) -> String {
        let (kind, name) = match self.namespace.as_str() {
            "" => ("ClusterRoleBinding", self.name.clone()),
            namespace => ("RoleBinding", format!("{}/{namespace}", self.name)),
        };
        let role = if self.cluster_role { "ClusterRole" } else { "Role" };
        let meant = Subject::of_user(user);
        let subject = self.subjects.iter().find(|subject| meant.contains(subject));
        let subject = subject.map(ToString::to_string).unwrap_or_default();
        format!("{kind} {name:?} of {role} {:?} to {subject}", self.role)
    }

    fn without_role(&self) -> String {
        let kind = if self.cluster_role { "clusterrole" } else { "role" };
        format!("{kind}.rbac.authorization.k8s.io {:?} not found", self.role)
    }
}

impl Subject {
    fn of(subject: &Value, namespace: &str) -> Option<Self> {
        let name = object::text(subject, &["name"]).to_owned();
        match object::text(subject, &["kind"]) {
            "User" => Some(Subject::User(name)),
            "Group" => Some(Subject::Group(name)),
            "ServiceAccount" => {
                let given = object::text(subject, &["namespace"]);
                let namespace = if given.is_empty() { namespace } else { given };
                Some(Subject::Account(namespace.to_owned(), name))
            }
            _ => None,
        }
    }

    /// Everything that a binding may call a user.
    fn of_user(user: &User) -> Vec<Self> {
        let mut subjects = vec![Subject::User(user.name.clone())];
        let account = user.name.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':'));
        subjects.extend(account.map(|(namespace, name)| Subject::Account(namespace.to_owned(), name.to_owned())));
        subjects.extend(user.groups.iter().cloned().map(Subject::Group));
        subjects
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Subject::User(name) => write!(f, "User {name:?}"),
            Subject::Group(name) => write!(f, "Group {name:?}"),
            Subject::Account(namespace, name) => write!(f, "ServiceAccount {:?}", format!("{name}/{namespace}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::ResourcePath;
    use crate::verb::Verb;
    use serde_json::json;

    fn policy(objects: &[(&str, Value)]) -> Policy {
        let mut policy = Policy::default();
        for (prefix, object) in objects {
            policy.set(&key(prefix, object), Some(object));
        }
        policy.settle();
        policy
    }

    fn key(prefix: &str, object: &Value) -> String {
        match object::namespace(object) {
            "" => keys::named(prefix, object::name(object)),
            namespace => keys::in_namespace(prefix, namespace, object::name(object)),
        }
    }

    fn ask(policy: &Policy, user: &User, verb: &str, namespace: &str, resource: &str) -> Result<String, Vec<String>> {
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let path = ResourcePath {
            namespace: namespace.into(),
            resource: resource.into(),
            subresource: subresource.into(),
            ..ResourcePath::default()
        };
        policy.judge(&Call::asks(Arc::new(user.clone()), Verb::of(verb), path))
    }

    #[test]
    fn a_role_allows_what_it_says_where_it_is_bound() {
        let policy = policy(&[
            (
                keys::ROLES,
                json!({"metadata": {"name": "reader", "namespace": "a"}, "rules": [
                {"apiGroups": [""], "resources": ["pods", "pods/log"], "verbs": ["get", "list"]}]}),
            ),
            (
                keys::ROLE_BINDINGS,
                json!({"metadata": {"name": "b", "namespace": "a"}, "roleRef": {"kind": "Role", "name": "reader"},
                "subjects": [{"kind": "ServiceAccount", "name": "s"}]}),
            ),
        ]);
        let user = User::new("system:serviceaccount:a:s", &[]);
        let ask = |verb, namespace, resource| ask(&policy, &user, verb, namespace, resource);
        let reason = r#"RoleBinding "b/a" of Role "reader" to ServiceAccount "s/a""#;
        assert_eq!(ask("get", "a", "pods").as_deref(), Ok(reason));
        assert!(ask("get", "a", "pods/log").is_ok());
        for (verb, namespace, resource) in
            [("delete", "a", "pods"), ("get", "b", "pods"), ("get", "a", "secrets"), ("get", "a", "pods/exec")]
        {
            assert_eq!(ask(verb, namespace, resource), Err(vec![]), "{verb} {namespace} {resource}");
        }
    }

    #[test]
    fn an_aggregated_role_has_the_rules_of_the_roles_it_selects_also_of_those_that_come_later() {
        let part = json!({"metadata": {"name": "part", "labels": {"x": "y"}}, "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get"]}]});
        let mut policy = policy(&[
            (
                keys::CLUSTER_ROLES,
                json!({"metadata": {"name": "all"}, "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"x": "y"}}]}}),
            ),
            (
                keys::CLUSTER_ROLE_BINDINGS,
                json!({"metadata": {"name": "b"}, "roleRef": {"kind": "ClusterRole", "name": "all"}, "subjects": [{"kind": "User", "name": "u"}]}),
            ),
        ]);
        let user = User::new("u", &[]);
        assert!(ask(&policy, &user, "get", "", "pods").is_err());
        policy.set(&key(keys::CLUSTER_ROLES, &part), Some(&part));
        policy.settle();
        assert!(ask(&policy, &user, "get", "", "pods").is_ok());
        policy.set(&key(keys::CLUSTER_ROLES, &part), None);
        policy.settle();
        assert!(ask(&policy, &user, "get", "", "pods").is_err());
    }

    #[test]
    fn a_binding_that_is_gone_or_names_others_now_allows_nothing() {
        let role =
            json!({"metadata": {"name": "r"}, "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]});
        let binding = |subject: &str| {
            json!({"metadata": {"name": "b"}, "roleRef": {"kind": "ClusterRole", "name": "r"},
            "subjects": [{"kind": "Group", "name": subject}]})
        };
        let mut policy = policy(&[(keys::CLUSTER_ROLES, role.clone()), (keys::CLUSTER_ROLE_BINDINGS, binding("g"))]);
        let user = User::new("u", &["g"]);
        assert!(ask(&policy, &user, "get", "n", "pods").is_ok());
        policy.set(&key(keys::CLUSTER_ROLES, &role), None);
        let missing = r#"clusterrole.rbac.authorization.k8s.io "r" not found"#;
        assert_eq!(ask(&policy, &user, "get", "n", "pods"), Err(vec![missing.to_owned()]));
        policy.set(&key(keys::CLUSTER_ROLE_BINDINGS, &binding("")), Some(&binding("other")));
        assert_eq!(ask(&policy, &user, "get", "n", "pods"), Err(vec![]));
        assert!(policy.everywhere.by_subject.len() == 1);
        policy.set(&key(keys::CLUSTER_ROLE_BINDINGS, &binding("")), None);
        assert!(policy.everywhere.by_subject.is_empty());
    }
}
