//! Roles and bindings compiled into a policy that a request can be held against.

use super::Attributes;
use crate::authn::User;
use pintle_meta::object;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Default)]
pub struct Policy {
    /// The rules of each role, gathered; keyed by namespace (none for cluster roles) and name.
    roles: BTreeMap<(String, String), Arc<[Rule]>>,
    everywhere: Vec<Grant>,
    by_namespace: BTreeMap<String, Vec<Grant>>,
}

struct Grant {
    subjects: Vec<Subject>,
    rules: Arc<[Rule]>,
}

enum Subject {
    User(String),
    Group(String),
}

/// One rule of a role.
#[derive(Clone, Debug, Default)]
pub struct Rule {
    pub verbs: Vec<String>,
    pub groups: Vec<String>,
    pub resources: Vec<String>,
    pub names: Vec<String>,
    pub paths: Vec<String>,
}

impl Policy {
    pub fn build(cluster_roles: &[Value], cluster_bindings: &[Value], roles: &[Value], bindings: &[Value]) -> Self {
        let cluster: BTreeMap<&str, Arc<[Rule]>> =
            cluster_roles.iter().map(|r| (object::name(r), rules_of(r, cluster_roles))).collect();
        let local: BTreeMap<(&str, &str), Arc<[Rule]>> =
            roles.iter().map(|r| ((object::namespace(r), object::name(r)), rules_of(r, &[]))).collect();
        let named = cluster
            .iter()
            .map(|(name, rules)| (("", *name), rules))
            .chain(local.iter().map(|(key, rules)| (*key, rules)));
        let mut policy = Policy {
            roles: named
                .map(|((namespace, name), rules)| ((namespace.to_owned(), name.to_owned()), rules.clone()))
                .collect(),
            ..Policy::default()
        };
        for binding in cluster_bindings {
            if let Some(rules) = cluster.get(object::text(binding, &["roleRef", "name"])) {
                policy.everywhere.push(Grant { subjects: subjects(binding), rules: rules.clone() });
            }
        }
        for binding in bindings {
            let namespace = object::namespace(binding);
            let name = object::text(binding, &["roleRef", "name"]);
            let rules = match object::text(binding, &["roleRef", "kind"]) {
                "ClusterRole" => cluster.get(name),
                _ => local.get(&(namespace, name)),
            };
            if let Some(rules) = rules {
                let grant = Grant { subjects: subjects(binding), rules: rules.clone() };
                policy.by_namespace.entry(namespace.to_owned()).or_default().push(grant);
            }
        }
        policy
    }

    /// What a role allows; the empty namespace names a cluster role.
    pub fn role(&self, namespace: &str, name: &str) -> Option<Arc<[Rule]>> {
        self.roles.get(&(namespace.to_owned(), name.to_owned())).cloned()
    }

    pub fn allows(&self, user: &User, attributes: &Attributes<'_>) -> bool {
        self.rules_for(user, attributes.namespace).any(|rule| rule.allows(attributes))
    }

    /// Every rule that applies to a user in a namespace (none: at the cluster scope).
    pub fn rules_for<'a>(&'a self, user: &'a User, namespace: &str) -> impl Iterator<Item = &'a Rule> {
        let local = self.by_namespace.get(namespace).into_iter().flatten();
        self.everywhere.iter().chain(local).filter(|g| g.speaks_of(user)).flat_map(|g| g.rules.iter())
    }
}

impl Grant {
    fn speaks_of(&self, user: &User) -> bool {
        self.subjects.iter().any(|subject| match subject {
            Subject::User(name) => *name == user.name,
            Subject::Group(name) => user.is_in(name),
        })
    }
}

impl Rule {
    pub fn from_value(value: &Value) -> Self {
        let words =
            |key: &str| object::list(value, &[key]).iter().filter_map(|v| v.as_str().map(str::to_owned)).collect();
        Rule {
            verbs: words("verbs"),
            groups: words("apiGroups"),
            resources: words("resources"),
            names: words("resourceNames"),
            paths: words("nonResourceURLs"),
        }
    }

    pub fn allows(&self, attributes: &Attributes<'_>) -> bool {
        if !self.verbs.iter().any(|v| v == "*" || v == attributes.verb) {
            return false;
        }
        match attributes.path {
            Some(path) => self.paths.iter().any(|p| path_matches(p, path)),
            None => {
                self.groups.iter().any(|g| g == "*" || g == attributes.group)
                    && self.resources.iter().any(|r| resource_matches(r, attributes))
                    && (self.names.is_empty() || self.names.iter().any(|n| n == attributes.name))
            }
        }
    }

    /// Does this rule allow everything that `other` allows? Used to stop people from granting more than they have.
    pub fn covers(&self, other: &Rule) -> bool {
        let all = |mine: &[String], theirs: &[String]| {
            mine.iter().any(|m| m == "*") || theirs.iter().all(|t| mine.contains(t))
        };
        all(&self.verbs, &other.verbs)
            && all(&self.groups, &other.groups)
            && (self.resources.iter().any(|r| r == "*")
                || other.resources.iter().all(|t| {
                    self.resources.contains(t)
                        || t.split_once('/').is_some_and(|(_, sub)| self.resources.contains(&format!("*/{sub}")))
                }))
            && (self.names.is_empty()
                || (!other.names.is_empty() && other.names.iter().all(|n| self.names.contains(n))))
            && other.paths.iter().all(|t| self.paths.iter().any(|p| p == t || path_matches(p, t)))
    }
}

impl Rule {
    /// The rule as rules of one verb on one resource (or path) each, which is how rights are compared.
    pub fn parts(&self) -> Vec<Rule> {
        let mut parts = Vec::new();
        for verb in &self.verbs {
            for path in &self.paths {
                parts.push(Rule { verbs: vec![verb.clone()], paths: vec![path.clone()], ..Rule::default() });
            }
            for group in &self.groups {
                for resource in &self.resources {
                    parts.push(Rule {
                        verbs: vec![verb.clone()],
                        groups: vec![group.clone()],
                        resources: vec![resource.clone()],
                        names: self.names.clone(),
                        paths: Vec::new(),
                    });
                }
            }
        }
        parts
    }
}

impl std::fmt::Display for Rule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let words = |list: &[String]| list.iter().map(|w| format!("{w:?}")).collect::<Vec<_>>().join(" ");
        let parts = [
            ("APIGroups", &self.groups),
            ("Resources", &self.resources),
            ("ResourceNames", &self.names),
            ("NonResourceURLs", &self.paths),
            ("Verbs", &self.verbs),
        ];
        let shown: Vec<String> = parts
            .iter()
            .filter(|(_, list)| !list.is_empty())
            .map(|(name, list)| format!("{name}:[{}]", words(list)))
            .collect();
        write!(f, "{{{}}}", shown.join(", "))
    }
}

fn resource_matches(pattern: &str, attributes: &Attributes<'_>) -> bool {
    match (pattern, attributes.subresource) {
        ("*", _) => true,
        (pattern, "") => pattern == attributes.resource,
        (pattern, subresource) => {
            pattern.split_once('/').is_some_and(|(r, s)| s == subresource && (r == "*" || r == attributes.resource))
        }
    }
}

fn path_matches(pattern: &str, path: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => path.starts_with(start),
        None => pattern == path,
    }
}

/// The rules of a role; those of an aggregating role are gathered from the roles its selectors choose.
fn rules_of(role: &Value, all: &[Value]) -> Arc<[Rule]> {
    let mut rules = Vec::new();
    gather(role, all, &mut Vec::new(), &mut rules);
    rules.into()
}

/// An aggregating role may select another one (`edit` has all of `view`); each role counts once.
fn gather<'a>(role: &'a Value, all: &'a [Value], seen: &mut Vec<&'a str>, rules: &mut Vec<Rule>) {
    if seen.contains(&object::name(role)) {
        return;
    }
    seen.push(object::name(role));
    rules.extend(object::list(role, &["rules"]).iter().map(Rule::from_value));
    for selector in object::list(role, &["aggregationRule", "clusterRoleSelectors"]) {
        let Some(selector) = pintle_meta::labels::Selector::from_label_selector(Some(selector)) else { continue };
        for other in all.iter().filter(|r| selector.matches_labels(object::at(r, &["metadata", "labels"]))) {
            gather(other, all, seen, rules);
        }
    }
}

fn subjects(binding: &Value) -> Vec<Subject> {
    let subject = |s: &Value| {
        let name = object::text(s, &["name"]);
        match object::text(s, &["kind"]) {
            "User" => Some(Subject::User(name.to_owned())),
            "Group" => Some(Subject::Group(name.to_owned())),
            "ServiceAccount" => {
                let namespace = match object::text(s, &["namespace"]) {
                    "" => object::namespace(binding),
                    given => given,
                };
                Some(Subject::User(format!("system:serviceaccount:{namespace}:{name}")))
            }
            _ => None,
        }
    };
    object::list(binding, &["subjects"]).iter().filter_map(subject).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_role_allows_what_it_says_where_it_is_bound() {
        let roles = [json!({"metadata": {"name": "reader", "namespace": "a"}, "rules": [
            {"apiGroups": [""], "resources": ["pods", "pods/log"], "verbs": ["get", "list"]}]})];
        let bindings =
            [json!({"metadata": {"name": "b", "namespace": "a"}, "roleRef": {"kind": "Role", "name": "reader"},
            "subjects": [{"kind": "ServiceAccount", "name": "s"}]})];
        let policy = Policy::build(&[], &[], &roles, &bindings);
        let user = User::new("system:serviceaccount:a:s", &[]);
        let ask = |verb, namespace, resource, subresource| {
            policy.allows(&user, &Attributes { verb, namespace, resource, subresource, ..Default::default() })
        };
        assert!(ask("get", "a", "pods", ""));
        assert!(ask("get", "a", "pods", "log"));
        assert!(!ask("delete", "a", "pods", ""));
        assert!(!ask("get", "b", "pods", ""));
        assert!(!ask("get", "a", "secrets", ""));
        assert!(!ask("get", "a", "pods", "exec"));
    }

    #[test]
    fn an_aggregated_role_has_the_rules_of_the_roles_it_selects() {
        let roles = [
            json!({"metadata": {"name": "all"}, "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"x": "y"}}]}}),
            json!({"metadata": {"name": "part", "labels": {"x": "y"}}, "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get"]}]}),
        ];
        let bindings = [
            json!({"metadata": {"name": "b"}, "roleRef": {"kind": "ClusterRole", "name": "all"}, "subjects": [{"kind": "User", "name": "u"}]}),
        ];
        let policy = Policy::build(&roles, &bindings, &[], &[]);
        assert!(
            policy.allows(&User::new("u", &[]), &Attributes { verb: "get", resource: "pods", ..Default::default() })
        );
    }
}
