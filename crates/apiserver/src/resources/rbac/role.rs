//! A Role or a ClusterRole: what its holders may do.

use crate::strategy::Strategy;
use pintle_meta::field::{Error, Errors, Path};
use pintle_meta::{object, rules};
use serde_json::Value;

pub struct Role {
    /// A ClusterRole speaks of the whole cluster, and of paths that are no resources.
    pub cluster: bool,
}

impl Strategy for Role {
    fn validate(&self, role: &Value, _old: Option<&Value>, errors: &mut Errors) {
        if self.cluster {
            return;
        }
        for (here, rule) in crate::resources::rules::items(role, &Path::root(), "rules") {
            let paths = object::list(rule, &["nonResourceURLs"]);
            if !paths.is_empty() {
                let detail = "namespaced rules cannot apply to non-resource URLs";
                errors.push(Error::invalid(&here.child("nonResourceURLs"), paths.to_vec(), detail));
            }
        }
    }

    fn name_problems(&self, name: &str) -> rules::Problems {
        rules::path_segment(name)
    }

    fn creates_on_update(&self) -> bool {
        true
    }
}

pub fn check_rule(rule: &Value, path: &Path, errors: &mut Errors) {
    let list = |key: &str| object::list(rule, &[key]);
    if list("verbs").is_empty() {
        errors.push(Error::required(&path.child("verbs"), "verbs must contain at least one value"));
    }
    if !list("nonResourceURLs").is_empty() {
        if ["apiGroups", "resources", "resourceNames"].iter().any(|key| !list(key).is_empty()) {
            let detail = "rules cannot apply to both regular resources and non-resource URLs";
            errors.push(Error::invalid(&path.child("nonResourceURLs"), list("nonResourceURLs").to_vec(), detail));
        }
        return;
    }
    if list("apiGroups").is_empty() {
        errors.push(Error::required(&path.child("apiGroups"), "resource rules must supply at least one api group"));
    }
    if list("resources").is_empty() {
        errors.push(Error::required(&path.child("resources"), "resource rules must supply at least one resource"));
    }
}
