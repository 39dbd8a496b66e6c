//! 100,000 random questions about roles and bindings that change, against an evaluator that is written from RBAC's definition
//! alone: no index, no cache, no order.

use pintle_apiserver::authn::User;
use pintle_apiserver::authz::config::{Authorization, Mode};
use pintle_apiserver::authz::{Authorizer, Verdict};
use pintle_apiserver::call::Call;
use pintle_apiserver::outbound::Outbound;
use pintle_apiserver::request::ResourcePath;
use pintle_apiserver::verb::Verb;
use pintle_apiserver::{codec, keys};
use pintle_meta::{Clock, Random};
use pintle_store::{MemoryStore, Op, Store, Txn};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

const QUESTIONS: usize = 100_000;
const PER_POLICY: usize = 100;

const USERS: [&str; 5] =
    ["ann", "bob", "system:serviceaccount:n1:robot", "system:serviceaccount:n2:robot", "system:anonymous"];
const GROUPS: [&str; 5] =
    ["devs", "ops", "system:authenticated", "system:serviceaccounts:n1", "system:unauthenticated"];
const NAMESPACES: [&str; 4] = ["", "n1", "n2", "n3"];
const API_GROUPS: [&str; 3] = ["", "apps", "x.io"];
const RESOURCES: [&str; 4] = ["pods", "deployments", "secrets", "pod"];
const SUBRESOURCES: [&str; 4] = ["", "status", "scale", "log"];
const VERBS: [&str; 6] = ["get", "list", "watch", "create", "deletecollection", "impersonate"];
const NAMES: [&str; 4] = ["", "a", "b", "c"];
const PATHS: [&str; 6] = ["/", "/healthz", "/logs", "/logs/a", "/logs/a/b", "/metrics"];

struct Draw(Random);

impl Draw {
    fn one<'a>(&self, of: &[&'a str]) -> &'a str {
        of[self.0.below(of.len() as u64) as usize]
    }

    fn chance(&self, one_in: u64) -> bool {
        self.0.below(one_in) == 0
    }

    /// Up to this many of them, or what stands for all.
    fn some(&self, most: u64, of: &[&str], all: Option<&str>) -> Vec<String> {
        if let Some(all) = all.filter(|_| self.chance(6)) {
            return vec![all.to_owned()];
        }
        (0..=self.0.below(most)).map(|_| self.one(of).to_owned()).collect()
    }

    fn rule(&self, is_cluster: bool) -> Value {
        if is_cluster && self.chance(3) {
            let patterns = ["/", "/healthz", "/logs/*", "/logs*", "/l*", "/metrics", "/metrics/*"];
            return json!({"verbs": self.some(2, &["get", "create"], Some("*")),
                "nonResourceURLs": self.some(2, &patterns, Some("*"))});
        }
        let resources = ["pods", "pods/status", "pods/log", "*/scale", "*/status", "deployments", "secrets", "pods/*"];
        let mut rule = json!({"verbs": self.some(3, &VERBS, Some("*")), "apiGroups": self.some(2, &API_GROUPS, Some("*")),
            "resources": self.some(3, &resources, Some("*"))});
        if self.chance(3) {
            rule["resourceNames"] = self.some(2, &["a", "b", "c"], None).into();
        }
        rule
    }

    fn role(&self, namespace: &str) -> Value {
        let is_cluster = namespace.is_empty();
        let rules: Vec<Value> = (0..=self.0.below(4)).map(|_| self.rule(is_cluster)).collect();
        let mut role = json!({"metadata": {"name": self.one(&["r1", "r2", "r3", "r4", "r5"])}, "rules": rules});
        if !is_cluster {
            role["metadata"]["namespace"] = namespace.into();
            return role;
        }
        if self.chance(2) {
            role["metadata"]["labels"] = json!({self.one(&["to", "from"]): self.one(&["view", "edit"])});
        }
        if self.chance(4) {
            let select = |draw: &Draw| json!({"matchLabels": {draw.one(&["to", "from"]): draw.one(&["view", "edit"])}});
            let selectors: Vec<Value> = (0..=self.0.below(2)).map(|_| select(self)).collect();
            role["aggregationRule"] = json!({"clusterRoleSelectors": selectors});
        }
        role
    }

    fn binding(&self, namespace: &str) -> Value {
        let subject = |draw: &Draw| match draw.0.below(3) {
            0 => json!({"kind": "User", "name": draw.one(&USERS)}),
            1 => json!({"kind": "Group", "name": draw.one(&GROUPS)}),
            _ => json!({"kind": "ServiceAccount", "name": "robot", "namespace": draw.one(&["n1", "n2"])}),
        };
        let subjects: Vec<Value> = (0..=self.0.below(4)).map(|_| subject(self)).collect();
        let kind = if namespace.is_empty() || self.chance(2) { "ClusterRole" } else { "Role" };
        let name = self.one(&["r1", "r2", "r3", "r4", "r5", "missing"]);
        let mut binding = json!({"metadata": {"name": self.one(&["b1", "b2", "b3", "b4", "b5", "b6"])}, "subjects": subjects,
            "roleRef": {"kind": kind, "name": name}});
        if !namespace.is_empty() {
            binding["metadata"]["namespace"] = namespace.into();
        }
        binding
    }

    fn user(&self) -> User {
        let mut user = User { name: self.one(&USERS).to_owned(), ..User::default() };
        user.groups = (0..self.0.below(4)).map(|_| self.one(&GROUPS).to_owned()).collect();
        if self.chance(200) {
            user.groups.push("system:masters".to_owned());
        }
        user
    }

    fn question(&self) -> Question {
        let path = if self.chance(4) { self.one(&PATHS) } else { "" };
        Question {
            user: self.user(),
            verb: self.one(&VERBS),
            path,
            namespace: self.one(&NAMESPACES),
            group: self.one(&API_GROUPS),
            resource: self.one(&RESOURCES),
            subresource: self.one(&SUBRESOURCES),
            name: self.one(&NAMES),
        }
    }
}

#[derive(Debug)]
struct Question {
    user: User,
    verb: &'static str,
    /// Not empty: the question is about a path, and what follows does not count.
    path: &'static str,
    namespace: &'static str,
    group: &'static str,
    resource: &'static str,
    subresource: &'static str,
    name: &'static str,
}

impl Question {
    fn call(&self) -> Call {
        let user = Arc::new(self.user.clone());
        if !self.path.is_empty() {
            return Call::asks_path(user, Verb::of(self.verb), self.path);
        }
        let path = ResourcePath {
            namespace: self.namespace.to_owned(),
            group: self.group.to_owned(),
            resource: self.resource.to_owned(),
            subresource: self.subresource.to_owned(),
            name: self.name.to_owned(),
            ..ResourcePath::default()
        };
        Call::asks(user, Verb::of(self.verb), path)
    }
}

/// RBAC as it is defined: a request passes if some binding that applies to it names its user or one of its groups, and some rule
/// of the role that it refers to allows it.
struct Slow<'a>(&'a BTreeMap<String, Value>);

fn strings<'a>(value: &'a Value, key: &str) -> Vec<&'a str> {
    value[key].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

impl Slow<'_> {
    fn allows(&self, question: &Question) -> bool {
        if question.user.groups.iter().any(|group| group == "system:masters") {
            return true;
        }
        for (key, binding) in self.0 {
            let is_local = key.starts_with(keys::ROLE_BINDINGS);
            if !is_local && !key.starts_with(keys::CLUSTER_ROLE_BINDINGS) {
                continue;
            }
            let namespace = binding["metadata"]["namespace"].as_str().unwrap_or_default();
            // A RoleBinding is about objects of its namespace, and nothing else.
            if is_local && (!question.path.is_empty() || namespace != question.namespace) {
                continue;
            }
            let subjects = binding["subjects"].as_array().into_iter().flatten();
            if !subjects.into_iter().any(|subject| Self::is(subject, &question.user)) {
                continue;
            }
            if self.rules(&binding["roleRef"], namespace).iter().any(|rule| Self::rule_allows(rule, question)) {
                return true;
            }
        }
        false
    }

    fn is(subject: &Value, user: &User) -> bool {
        let name = subject["name"].as_str().unwrap_or_default();
        match subject["kind"].as_str() {
            Some("User") => user.name == name,
            Some("Group") => user.groups.iter().any(|group| group == name),
            _ => {
                let namespace = subject["namespace"].as_str().unwrap_or_default();
                user.name == format!("system:serviceaccount:{namespace}:{name}")
            }
        }
    }

    fn rules(&self, reference: &Value, namespace: &str) -> Vec<Value> {
        let name = reference["name"].as_str().unwrap_or_default();
        if reference["kind"] == "Role" {
            let role = self.0.get(&keys::in_namespace(keys::ROLES, namespace, name));
            return role.map(|role| role["rules"].as_array().cloned().unwrap_or_default()).unwrap_or_default();
        }
        self.cluster_rules(name, &mut Vec::new())
    }

    /// An aggregating role has the rules of all roles that it selects, and so on; none of its own.
    fn cluster_rules(&self, name: &str, seen: &mut Vec<String>) -> Vec<Value> {
        if seen.iter().any(|known| known == name) {
            return Vec::new();
        }
        seen.push(name.to_owned());
        let Some(role) = self.0.get(&keys::named(keys::CLUSTER_ROLES, name)) else { return Vec::new() };
        let Some(selectors) = role["aggregationRule"]["clusterRoleSelectors"].as_array() else {
            return role["rules"].as_array().cloned().unwrap_or_default();
        };
        let mut rules = Vec::new();
        for (key, other) in self.0.iter().filter(|(key, _)| key.starts_with(keys::CLUSTER_ROLES)) {
            let selected = selectors.iter().any(|selector| {
                let wanted = selector["matchLabels"].as_object().unwrap();
                wanted.iter().all(|(label, value)| other["metadata"]["labels"][label] == *value)
            });
            if selected {
                rules.extend(self.cluster_rules(key.strip_prefix(keys::CLUSTER_ROLES).unwrap(), seen));
            }
        }
        rules
    }

    fn rule_allows(rule: &Value, question: &Question) -> bool {
        let verbs = strings(rule, "verbs");
        if !verbs.contains(&"*") && !verbs.contains(&question.verb) {
            return false;
        }
        if !question.path.is_empty() {
            return strings(rule, "nonResourceURLs").into_iter().any(|pattern| match pattern.strip_suffix('*') {
                Some(start) => question.path.starts_with(start),
                None => pattern == question.path,
            });
        }
        let groups = strings(rule, "apiGroups");
        if !groups.contains(&"*") && !groups.contains(&question.group) {
            return false;
        }
        let named = strings(rule, "resourceNames");
        if !named.is_empty() && !named.contains(&question.name) {
            return false;
        }
        let wanted = match question.subresource {
            "" => vec!["*".to_owned(), question.resource.to_owned()],
            sub => vec!["*".to_owned(), format!("{}/{sub}", question.resource), format!("*/{sub}")],
        };
        strings(rule, "resources").into_iter().any(|resource| wanted.iter().any(|wanted| wanted == resource))
    }
}

async fn put(store: &MemoryStore, key: &str, value: &Value) {
    let op = Op::Put { key: key.into(), value: codec::encode(value), expires_at: None };
    store.commit(Txn { ops: vec![op], ..Txn::default() }).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_hundred_thousand_questions_are_answered_as_rbac_is_defined() {
    let memory = Arc::new(MemoryStore::new());
    let store: Arc<dyn Store> = memory.clone();
    let draw = Draw(Random::seeded(18));
    let (clock, outbound) = (Clock::virtual_from(jiff::Timestamp::UNIX_EPOCH), Arc::new(Outbound::default()));
    let config = Authorization { chain: vec![Mode::Node, Mode::Rbac] };
    let authorizer = Authorizer::new(&store, config, &outbound, &clock, &Random::seeded(1));
    let mut objects = BTreeMap::new();
    let (mut allowed, mut aggregated) = (0, 0);
    for _ in 0..QUESTIONS / PER_POLICY {
        // The policy is never made anew: some of it changes, and some of it goes.
        for _ in 0..8 {
            let namespace = draw.one(&NAMESPACES);
            let is_role = draw.chance(2);
            let object = if is_role { draw.role(namespace) } else { draw.binding(namespace) };
            let name = object["metadata"]["name"].as_str().unwrap();
            let key = match (namespace, is_role) {
                ("", true) => keys::named(keys::CLUSTER_ROLES, name),
                ("", false) => keys::named(keys::CLUSTER_ROLE_BINDINGS, name),
                (namespace, true) => keys::in_namespace(keys::ROLES, namespace, name),
                (namespace, false) => keys::in_namespace(keys::ROLE_BINDINGS, namespace, name),
            };
            if draw.chance(8) {
                if objects.remove(&key).is_some() {
                    let op = Op::Delete { key: key.as_str().into() };
                    memory.commit(Txn { ops: vec![op], ..Txn::default() }).await.unwrap();
                }
            } else {
                put(&memory, &key, &object).await;
                objects.insert(key, object);
            }
        }
        aggregated += objects.values().filter(|object| object.get("aggregationRule").is_some()).count();
        let slow = Slow(&objects);
        for _ in 0..PER_POLICY {
            let question = draw.question();
            let judged = matches!(authorizer.judge(&question.call()).await.verdict, Verdict::Allow(_));
            let defined = slow.allows(&question);
            assert_eq!(judged, defined, "{question:?}\n{objects:#?}");
            allowed += usize::from(defined);
        }
    }
    // Neither answer is rare, and roles that aggregate were there.
    assert!((QUESTIONS / 20..QUESTIONS / 2).contains(&allowed), "{allowed}");
    assert!(aggregated > 500, "{aggregated}");
}
