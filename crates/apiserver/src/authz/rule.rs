//! One rule of a role: what it allows, and what of another rule it covers.

use crate::call::Call;
use pintle_meta::object;
use serde_json::Value;

/// One rule of a role.
#[derive(Clone, Debug, Default)]
pub struct Rule {
    pub verbs: Vec<String>,
    pub groups: Vec<String>,
    pub resources: Vec<String>,
    pub names: Vec<String>,
    pub paths: Vec<String>,
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

    pub fn allows(&self, call: &Call) -> bool {
        if !self.verbs.iter().any(|v| v == "*" || v == call.verb.as_str()) {
            return false;
        }
        if !call.is_of_objects() {
            return self.paths.iter().any(|p| path_matches(p, &call.url));
        }
        self.groups.iter().any(|g| g == "*" || *g == call.path.group)
            && self.resources.iter().any(|r| resource_matches(r, call))
            && (self.names.is_empty() || self.names.iter().any(|n| n == call.name()))
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

fn resource_matches(pattern: &str, call: &Call) -> bool {
    let path = &call.path;
    match (pattern, path.subresource.as_str()) {
        ("*", _) => true,
        (pattern, "") => pattern == path.resource,
        (pattern, subresource) => {
            pattern.split_once('/').is_some_and(|(r, s)| s == subresource && (r == "*" || r == path.resource))
        }
    }
}

fn path_matches(pattern: &str, path: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => path.starts_with(start.trim_end_matches('*')),
        None => pattern == path,
    }
}
