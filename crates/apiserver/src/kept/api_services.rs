//! The APIService of a version of a group that this server serves itself.

use pintle_meta::object;
use serde_json::{Value, json};

/// Who keeps an APIService: the server, from its start or for as long as a definition has the version.
const LABEL: &str = "kube-aggregator.kubernetes.io/automanaged";

/// Custom groups come after all others, and among their versions the usual order counts.
pub const CUSTOM: (i64, i64) = (1000, 100);

/// Built-in versions with their places in the order of groups and versions. `apiregistration.k8s.io` has none.
pub const BUILT_IN: [(&str, &str, i64, i64); 21] = [
    ("", "v1", 18000, 1),
    ("apps", "v1", 17800, 15),
    ("events.k8s.io", "v1", 17750, 15),
    ("authentication.k8s.io", "v1", 17700, 15),
    ("authorization.k8s.io", "v1", 17600, 15),
    ("autoscaling", "v1", 17500, 15),
    ("autoscaling", "v2", 17500, 30),
    ("batch", "v1", 17400, 15),
    ("certificates.k8s.io", "v1", 17300, 15),
    ("networking.k8s.io", "v1", 17200, 15),
    ("policy", "v1", 17100, 15),
    ("rbac.authorization.k8s.io", "v1", 17000, 15),
    ("storage.k8s.io", "v1", 16800, 15),
    ("admissionregistration.k8s.io", "v1", 16700, 15),
    ("apiextensions.k8s.io", "v1", 16700, 15),
    ("scheduling.k8s.io", "v1", 16600, 15),
    ("coordination.k8s.io", "v1", 16500, 15),
    ("node.k8s.io", "v1", 16300, 15),
    ("discovery.k8s.io", "v1", 16200, 15),
    ("flowcontrol.apiserver.k8s.io", "v1", 16100, 21),
    ("resource.k8s.io", "v1", 16200, 21),
];

pub fn name(group: &str, version: &str) -> String {
    format!("{version}.{group}")
}

/// The object; none for the group of APIServices itself, which has none.
pub fn object(group: &str, version: &str) -> Option<Value> {
    if group == "apiregistration.k8s.io" {
        return None;
    }
    let row = BUILT_IN.iter().find(|row| row.0 == group && row.1 == version);
    let ((group_priority, version_priority), kept) = match row {
        Some(row) => ((row.2, row.3), "onstart"),
        None => (CUSTOM, "true"),
    };
    Some(json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": {"name": name(group, version), "labels": {LABEL: kept}},
        "spec": {"group": group, "version": version,
            "groupPriorityMinimum": group_priority, "versionPriority": version_priority},
    }))
}

/// Whether it goes when its version is not served any more: not if somebody else wrote it.
pub fn is_kept(service: &Value) -> bool {
    object::at(service, &["metadata", "labels", LABEL]).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::Catalogue;

    #[test]
    fn every_built_in_version_has_its_place() {
        for resource in Catalogue::default().resources().filter(|r| r.group != "apiregistration.k8s.io") {
            let row = BUILT_IN.iter().find(|row| row.0 == resource.group && row.1 == resource.version);
            assert!(row.is_some(), "{}/{}", resource.group, resource.version);
        }
        for (group, version, ..) in BUILT_IN {
            let served = Catalogue::default().of_group_version(group, version).next().is_some();
            assert!(served, "{group}/{version}");
        }
    }
}
