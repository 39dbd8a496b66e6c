//! The roles and bindings that every cluster starts with, from a table of ours.

use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Who has which role from the start: (binding, role, kind of subject, subject).
const BINDINGS: &[(&str, &str, &str, &[&str])] = &[
    ("cluster-admin", "cluster-admin", "Group", &["system:masters"]),
    ("system:monitoring", "system:monitoring", "Group", &["system:monitoring"]),
    ("system:discovery", "system:discovery", "Group", &["system:authenticated"]),
    ("system:basic-user", "system:basic-user", "Group", &["system:authenticated"]),
    (
        "system:public-info-viewer",
        "system:public-info-viewer",
        "Group",
        &["system:authenticated", "system:unauthenticated"],
    ),
    ("system:kube-scheduler", "system:kube-scheduler", "User", &["system:kube-scheduler"]),
    ("system:kube-controller-manager", "system:kube-controller-manager", "User", &["system:kube-controller-manager"]),
    ("pintle:kubelet-api-admin", "system:kubelet-api-admin", "User", &[crate::pki::NODE_CLIENT]),
    // Each node carries packets to Services.
    ("pintle:node-proxier", "system:node-proxier", "Group", &["system:nodes"]),
    // And judges them by policies, which name Pods and namespaces of the whole cluster.
    ("pintle:node-network", "pintle:node-network", "Group", &["system:nodes"]),
    // Nobody: a node's certificate alone must not open every Secret. Who trusts its nodes that far adds them.
    ("system:node", "system:node", "Group", &[]),
    // A machine with a token may ask for a node's certificate and gets it; a node may ask for its own again.
    ("pintle:node-bootstrap", "system:node-bootstrapper", "Group", &["system:bootstrappers"]),
    (
        "pintle:node-bootstrap-approved",
        "system:certificates.k8s.io:certificatesigningrequests:nodeclient",
        "Group",
        &["system:bootstrappers"],
    ),
    (
        "pintle:node-rotation-approved",
        "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient",
        "Group",
        &["system:nodes"],
    ),
    (
        "system:service-account-issuer-discovery",
        "system:service-account-issuer-discovery",
        "Group",
        &["system:serviceaccounts"],
    ),
];

/// Roles whose rules are those of the roles with a label: (role, label).
const AGGREGATED: &[(&str, &str)] =
    &[("admin", "aggregate-to-admin"), ("edit", "aggregate-to-edit"), ("view", "aggregate-to-view")];

const GROUP: &str = "rbac.authorization.k8s.io";

pub fn cluster_roles() -> Vec<Value> {
    let mut rules: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    for line in include_str!("../../facts/roles.tsv").lines().filter(|l| !l.starts_with('#')) {
        let columns: Vec<&str> = line.split('\t').collect();
        let [role, verbs, groups, what] = columns[..] else { continue };
        let words = |text: &str| text.split(',').map(|w| if w == "-" { "" } else { w }.to_owned()).collect::<Vec<_>>();
        let rule = if what.starts_with('/') {
            let paths = if what == "/*" { vec!["*".to_owned()] } else { words(what) };
            json!({"verbs": words(verbs), "nonResourceURLs": paths})
        } else {
            json!({"verbs": words(verbs), "apiGroups": words(groups), "resources": words(what)})
        };
        rules.entry(role).or_default().push(rule);
    }
    let gathered = |names: &[&str]| -> Vec<Value> {
        let parts = names.iter().filter_map(|n| rules.get(format!("system:aggregate-to-{n}").as_str())).flatten();
        parts.fold(Vec::new(), |mut all, rule| {
            if !all.contains(rule) {
                all.push(rule.clone());
            }
            all
        })
    };
    // In the order in which the loop that gathers them writes them: by the names of the roles that are selected.
    let written_out = [gathered(&["edit", "view", "admin"]), gathered(&["edit", "view"]), gathered(&["view"])];
    let plain = rules.into_iter().map(|(name, rules)| {
        let mut role = named("ClusterRole", name);
        if let Some(end) = name.strip_prefix("system:aggregate-to-") {
            role["metadata"]["labels"][format!("{GROUP}/aggregate-to-{end}")] = "true".into();
        }
        role["rules"] = rules.into();
        role
    });
    let aggregated = AGGREGATED.iter().zip(written_out).map(|((name, label), written_out)| {
        let mut role = named("ClusterRole", name);
        let next = match *name {
            "edit" => Some("aggregate-to-admin"),
            "view" => Some("aggregate-to-edit"),
            _ => None,
        };
        if let Some(next) = next {
            role["metadata"]["labels"][format!("{GROUP}/{next}")] = "true".into();
        }
        // Written out as well, so that what is shown is what counts.
        role["aggregationRule"] =
            json!({"clusterRoleSelectors": [{"matchLabels": {format!("{GROUP}/{label}"): "true"}}]});
        role["rules"] = written_out.into();
        role
    });
    plain.chain(aggregated).collect()
}

pub fn cluster_role_bindings() -> Vec<Value> {
    BINDINGS
        .iter()
        .map(|(name, role, kind, subjects)| {
            let mut binding = named("ClusterRoleBinding", name);
            binding["roleRef"] = json!({"apiGroup": GROUP, "kind": "ClusterRole", "name": role});
            let subjects: Vec<Value> =
                subjects.iter().map(|s| json!({"apiGroup": GROUP, "kind": kind, "name": s})).collect();
            binding["subjects"] = subjects.into();
            binding
        })
        .collect()
}

/// Anybody may learn how the cluster is reached and which authority to trust: a machine that wants to join knows nobody yet.
pub fn cluster_info_for_all() -> [Value; 2] {
    let in_public = |kind: &str| {
        let mut object = named(kind, "pintle:cluster-info");
        object["metadata"]["namespace"] = "kube-public".into();
        object
    };
    let (mut role, mut binding) = (in_public("Role"), in_public("RoleBinding"));
    role["rules"] =
        json!([{"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["cluster-info"], "verbs": ["get"]}]);
    binding["roleRef"] = json!({"apiGroup": GROUP, "kind": "Role", "name": "pintle:cluster-info"});
    let everybody = ["system:unauthenticated", "system:authenticated"];
    binding["subjects"] =
        everybody.map(|group| json!({"apiGroup": GROUP, "kind": "Group", "name": group})).to_vec().into();
    [role, binding]
}

/// Lets components of the cluster read how this server names the user of a request that it passes on.
pub fn authentication_readers() -> [Value; 2] {
    const ROLE: &str = "extension-apiserver-authentication-reader";
    let in_system = |kind: &str, name: &str| {
        let mut object = named(kind, name);
        object["metadata"]["namespace"] = "kube-system".into();
        object
    };
    let mut role = in_system("Role", ROLE);
    role["rules"] = json!([{"apiGroups": [""], "resources": ["configmaps"],
        "resourceNames": ["extension-apiserver-authentication"], "verbs": ["get", "list", "watch"]}]);
    let mut binding = in_system("RoleBinding", &format!("system::{ROLE}"));
    binding["roleRef"] = json!({"apiGroup": GROUP, "kind": "Role", "name": ROLE});
    let users = ["system:kube-controller-manager", "system:kube-scheduler"];
    binding["subjects"] = users.map(|user| json!({"apiGroup": GROUP, "kind": "User", "name": user})).to_vec().into();
    [role, binding]
}

fn named(kind: &str, name: &str) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind,
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
            "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
        },
    })
}
