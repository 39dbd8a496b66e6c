//! FlowSchemas and PriorityLevelConfigurations, read once when they change.

use crate::authn::User;
use crate::call::Call;
use pintle_meta::object;
use serde_json::Value;

pub const EXEMPT: &str = "exempt";
pub const CATCH_ALL: &str = "catch-all";

const ALL: &str = "*";

/// Which requests belong together.
pub struct Schema {
    pub name: String,
    pub uid: String,
    pub precedence: i64,
    pub level: String,
    distinguisher: Distinguisher,
    rules: Vec<Rule>,
}

/// What makes flows of the requests of one schema.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Distinguisher {
    None,
    User,
    Namespace,
}

struct Rule {
    subjects: Vec<Subject>,
    resources: Vec<ResourceRule>,
    paths: Vec<PathRule>,
}

enum Subject {
    User(String),
    Group(String),
    /// A namespace and a name.
    Account(String, String),
}

struct ResourceRule {
    verbs: Words,
    groups: Words,
    resources: Words,
    namespaces: Words,
    cluster_scope: bool,
}

struct PathRule {
    verbs: Words,
    paths: Vec<String>,
}

/// Some words, or all of them.
struct Words(Option<Vec<String>>);

impl Words {
    fn of(object: &Value, key: &str) -> Self {
        let words = texts(object, key);
        Words(if words.iter().any(|word| word == ALL) { None } else { Some(words) })
    }

    fn have(&self, word: &str) -> bool {
        self.0.as_ref().is_none_or(|words| words.iter().any(|one| one == word))
    }

    /// `pods` or `pods/log`.
    fn have_resource(&self, resource: &str, subresource: &str) -> bool {
        self.0.as_ref().is_none_or(|words| {
            words.iter().any(|one| match one.strip_prefix(resource) {
                Some("") => subresource.is_empty(),
                Some(rest) => rest.strip_prefix('/') == Some(subresource) && !subresource.is_empty(),
                None => false,
            })
        })
    }
}

fn texts(object: &Value, key: &str) -> Vec<String> {
    object::list(object, &[key]).iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

impl Schema {
    pub fn of(object: &Value) -> Self {
        let rule = |rule: &Value| Rule {
            subjects: object::list(rule, &["subjects"]).iter().filter_map(Subject::of).collect(),
            resources: object::list(rule, &["resourceRules"]).iter().map(ResourceRule::of).collect(),
            paths: object::list(rule, &["nonResourceRules"]).iter().map(PathRule::of).collect(),
        };
        Schema {
            name: object::name(object).to_owned(),
            uid: object::uid(object).to_owned(),
            precedence: object::integer(object, &["spec", "matchingPrecedence"]).unwrap_or(1000),
            level: object::text(object, &["spec", "priorityLevelConfiguration", "name"]).to_owned(),
            distinguisher: match object::text(object, &["spec", "distinguisherMethod", "type"]) {
                "ByUser" => Distinguisher::User,
                "ByNamespace" => Distinguisher::Namespace,
                _ => Distinguisher::None,
            },
            rules: object::list(object, &["spec", "rules"]).iter().map(rule).collect(),
        }
    }

    pub fn matches(&self, call: &Call) -> bool {
        self.rules.iter().any(|rule| rule.matches(call))
    }

    /// What tells this call's flow from others of the schema.
    pub fn flow<'a>(&self, user: &'a User, namespace: &'a str) -> &'a str {
        match self.distinguisher {
            Distinguisher::None => "",
            Distinguisher::User => &user.name,
            Distinguisher::Namespace => namespace,
        }
    }
}

impl Rule {
    fn matches(&self, call: &Call) -> bool {
        let about = || match call.is_of_objects() {
            true => self.resources.iter().any(|rule| rule.matches(call)),
            false => self.paths.iter().any(|rule| rule.matches(call)),
        };
        self.subjects.iter().any(|subject| subject.is(&call.user)) && about()
    }
}

impl Subject {
    fn of(subject: &Value) -> Option<Self> {
        let text = |kind: &str, key: &str| object::text(subject, &[kind, key]).to_owned();
        match object::text(subject, &["kind"]) {
            "User" => Some(Subject::User(text("user", "name"))),
            "Group" => Some(Subject::Group(text("group", "name"))),
            "ServiceAccount" => {
                Some(Subject::Account(text("serviceAccount", "namespace"), text("serviceAccount", "name")))
            }
            _ => None,
        }
    }

    fn is(&self, user: &User) -> bool {
        match self {
            Subject::User(name) => name == ALL || *name == user.name,
            Subject::Group(name) => name == ALL || user.is_in(name),
            Subject::Account(namespace, name) => {
                let account = user.name.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':'));
                account.is_some_and(|(ns, account)| ns == namespace && (name == ALL || name == account))
            }
        }
    }
}

impl ResourceRule {
    fn of(rule: &Value) -> Self {
        ResourceRule {
            verbs: Words::of(rule, "verbs"),
            groups: Words::of(rule, "apiGroups"),
            resources: Words::of(rule, "resources"),
            namespaces: Words::of(rule, "namespaces"),
            cluster_scope: object::flag(rule, &["clusterScope"]),
        }
    }

    fn matches(&self, call: &Call) -> bool {
        let path = &call.path;
        let inside = if path.namespace.is_empty() { self.cluster_scope } else { self.namespaces.have(&path.namespace) };
        inside
            && self.verbs.have(call.verb.as_str())
            && self.groups.have(&path.group)
            && self.resources.have_resource(&path.resource, &path.subresource)
    }
}

impl PathRule {
    fn of(rule: &Value) -> Self {
        PathRule { verbs: Words::of(rule, "verbs"), paths: texts(rule, "nonResourceURLs") }
    }

    fn matches(&self, call: &Call) -> bool {
        let below = |path: &str| {
            let prefix = path.strip_suffix('*').unwrap_or(path);
            let rest = call.url.strip_prefix(prefix.strip_suffix('/').unwrap_or(prefix));
            rest.is_some_and(|rest| rest.starts_with('/'))
        };
        self.verbs.have(call.verb.as_str())
            && self.paths.iter().any(|path| path == ALL || *path == call.url || below(path))
    }
}

/// What a priority level may use.
#[derive(Clone, Debug, PartialEq)]
pub struct LevelSpec {
    pub uid: String,
    pub shares: u32,
    pub lends_percent: u32,
    /// None for as much as there is.
    pub borrows_percent: Option<u32>,
    pub excess: Excess,
}

/// What becomes of a request that finds no seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Excess {
    /// There are always seats.
    Exempt,
    Reject,
    Queue {
        queues: u32,
        hand: u32,
        length: u32,
    },
}

impl LevelSpec {
    pub fn of(object: &Value) -> Self {
        let exempt = object::text(object, &["spec", "type"]) == "Exempt";
        let limits = &object["spec"][if exempt { "exempt" } else { "limited" }];
        let number =
            |value: &Value, key: &str| object::integer(value, &[key]).and_then(|number| u32::try_from(number).ok());
        let queuing = &limits["limitResponse"]["queuing"];
        let queues = number(queuing, "queues").unwrap_or(64).max(1);
        let excess = match object::text(limits, &["limitResponse", "type"]) {
            _ if exempt => Excess::Exempt,
            "Queue" => Excess::Queue {
                queues,
                hand: number(queuing, "handSize").unwrap_or(8).clamp(1, queues),
                length: number(queuing, "queueLengthLimit").unwrap_or(50),
            },
            _ => Excess::Reject,
        };
        LevelSpec {
            uid: object::uid(object).to_owned(),
            shares: number(limits, "nominalConcurrencyShares").unwrap_or(if exempt { 0 } else { 30 }),
            lends_percent: number(limits, "lendablePercent").unwrap_or(0).min(100),
            borrows_percent: number(limits, "borrowingLimitPercent"),
            excess,
        }
    }
}
