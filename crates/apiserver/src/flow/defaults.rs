//! The levels and schemas that every cluster has, as Kubernetes has them.

use super::spec::{CATCH_ALL, EXEMPT};
use pintle_meta::object;
use serde_json::{Value, json};

pub const GROUP: &str = "flowcontrol.apiserver.k8s.io";
pub const SCHEMA: &str = "FlowSchema";
pub const LEVEL: &str = "PriorityLevelConfiguration";

/// While it is `true`, the object is kept as it is here.
pub const AUTO_UPDATE: &str = "apf.kubernetes.io/autoupdate-spec";

/// Limited levels that queue: name, shares, percent that they lend, queues, and how many of them a flow has.
const QUEUING: [(&str, u32, u32, u32, u32); 6] = [
    ("system", 30, 33, 64, 6),
    ("node-high", 40, 25, 64, 6),
    ("leader-election", 10, 0, 16, 4),
    ("workload-high", 40, 50, 128, 6),
    ("workload-low", 100, 90, 128, 6),
    ("global-default", 20, 50, 128, 6),
];

/// Schemas that cover all that somebody asks: name, level, precedence, what makes a flow, whose.
const WHOLE: [(&str, &str, u32, &str, &[Who]); 8] = [
    (EXEMPT, EXEMPT, 1, "", &[Who::Group("system:masters")]),
    ("system-nodes", "system", 500, "ByUser", &[Who::Group("system:nodes")]),
    ("kube-controller-manager", "workload-high", 800, "ByNamespace", &[Who::User("system:kube-controller-manager")]),
    ("kube-scheduler", "workload-high", 800, "ByNamespace", &[Who::User("system:kube-scheduler")]),
    ("kube-system-service-accounts", "workload-high", 900, "ByNamespace", &[Who::SystemAccounts]),
    ("service-accounts", "workload-low", 9000, "ByUser", &[Who::Group("system:serviceaccounts")]),
    ("global-default", "global-default", 9900, "ByUser", EVERYBODY),
    (CATCH_ALL, CATCH_ALL, 10_000, "ByUser", EVERYBODY),
];

const EVERYBODY: &[Who] = &[Who::Group("system:unauthenticated"), Who::Group("system:authenticated")];

#[derive(Clone, Copy)]
enum Who {
    User(&'static str),
    Group(&'static str),
    /// All service accounts of `kube-system`.
    SystemAccounts,
}

impl Who {
    fn subject(self) -> Value {
        match self {
            Who::User(name) => json!({"kind": "User", "user": {"name": name}}),
            Who::Group(name) => json!({"kind": "Group", "group": {"name": name}}),
            Who::SystemAccounts => {
                json!({"kind": "ServiceAccount", "serviceAccount": {"name": "*", "namespace": "kube-system"}})
            }
        }
    }
}

pub fn all() -> Vec<Value> {
    let mut objects = vec![exempt_level(), catch_all_level()];
    objects.extend(QUEUING.map(queuing_level));
    objects.extend(WHOLE.map(|(name, level, precedence, by, who)| {
        schema(name, level, precedence, by, who, &[everything()], &[json!({"verbs": ["*"], "nonResourceURLs": ["*"]})])
    }));
    let probes = json!({"verbs": ["get"], "nonResourceURLs": ["/healthz", "/readyz", "/livez"]});
    objects.push(schema("probes", EXEMPT, 2, "", EVERYBODY, &[], &[probes]));
    let leases = |verbs: &[&str]| resources(verbs, "coordination.k8s.io", &["leases"], false);
    let leaders =
        [Who::User("system:kube-controller-manager"), Who::User("system:kube-scheduler"), Who::SystemAccounts];
    let elects = [leases(&["get", "create", "update"])];
    objects.push(schema("system-leader-election", "leader-election", 100, "ByUser", &leaders, &elects, &[]));
    let health = [resources(&["*"], "", &["nodes", "nodes/status"], true), leases(&["*"])];
    let nodes = [Who::Group("system:nodes")];
    objects.push(schema("system-node-high", "node-high", 400, "ByUser", &nodes, &health, &[]));
    objects
}

/// Those without which nothing works.
pub fn mandatory() -> impl Iterator<Item = Value> {
    all().into_iter().filter(|object| is_mandatory(object::name(object)))
}

pub fn is_mandatory(name: &str) -> bool {
    name == EXEMPT || name == CATCH_ALL
}

fn named(kind: &str, name: &str, spec: Value) -> Value {
    json!({"apiVersion": format!("{GROUP}/v1"), "kind": kind,
        "metadata": {"name": name, "annotations": {AUTO_UPDATE: "true"}}, "spec": spec})
}

fn exempt_level() -> Value {
    named(LEVEL, EXEMPT, json!({"type": "Exempt", "exempt": {"nominalConcurrencyShares": 0, "lendablePercent": 0}}))
}

fn catch_all_level() -> Value {
    named(
        LEVEL,
        CATCH_ALL,
        json!({"type": "Limited", "limited": {
            "nominalConcurrencyShares": 5, "lendablePercent": 0, "limitResponse": {"type": "Reject"}}}),
    )
}

fn queuing_level((name, shares, lends, queues, hand): (&str, u32, u32, u32, u32)) -> Value {
    let queuing = json!({"queues": queues, "handSize": hand, "queueLengthLimit": 50});
    named(
        LEVEL,
        name,
        json!({"type": "Limited", "limited": {"nominalConcurrencyShares": shares, "lendablePercent": lends,
            "limitResponse": {"type": "Queue", "queuing": queuing}}}),
    )
}

fn schema(
    name: &str,
    level: &str,
    precedence: u32,
    by: &str,
    who: &[Who],
    resources: &[Value],
    paths: &[Value],
) -> Value {
    let mut rule = json!({"subjects": who.iter().map(|who| who.subject()).collect::<Vec<_>>()});
    for (key, rules) in [("resourceRules", resources), ("nonResourceRules", paths)] {
        if !rules.is_empty() {
            rule[key] = rules.into();
        }
    }
    let mut spec =
        json!({"priorityLevelConfiguration": {"name": level}, "matchingPrecedence": precedence, "rules": [rule]});
    if !by.is_empty() {
        spec["distinguisherMethod"] = json!({"type": by});
    }
    named(SCHEMA, name, spec)
}

fn everything() -> Value {
    resources(&["*"], "*", &["*"], true)
}

fn resources(verbs: &[&str], group: &str, resources: &[&str], cluster_scope: bool) -> Value {
    let mut rule = json!({"verbs": verbs, "apiGroups": [group], "resources": resources, "namespaces": ["*"]});
    if cluster_scope {
        rule["clusterScope"] = true.into();
    }
    rule
}

/// Whether a schema's level is there, as its status says it.
pub fn dangling(level: &str, found: bool, now: &str) -> Value {
    let (status, reason, message) = match found {
        true => (
            "False",
            "Found",
            format!("This FlowSchema references the PriorityLevelConfiguration object named {level:?} and it exists"),
        ),
        false => (
            "True",
            "NotFound",
            format!(
                "This FlowSchema references the PriorityLevelConfiguration object named {level:?} but there is no such object"
            ),
        ),
    };
    json!({"type": "Dangling", "status": status, "lastTransitionTime": now, "reason": reason, "message": message})
}

/// The objects of a new cluster, with the status that they will have.
pub fn first(now: &str) -> Vec<Value> {
    let mut objects = all();
    for object in objects.iter_mut().filter(|object| object::kind(object) == SCHEMA) {
        let level = object::text(object, &["spec", "priorityLevelConfiguration", "name"]).to_owned();
        object["status"] = json!({"conditions": [dangling(&level, true, now)]});
    }
    objects
}
