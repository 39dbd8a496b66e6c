//! A RoleBinding or a ClusterRoleBinding: who has a role.

use crate::resources::check::same;
use crate::resources::print::{AGE, NAME, text, wide};
use crate::strategy::{Printed, Strategy};
use pintle_meta::field::{Error, Errors, Path};
use pintle_meta::{object, rules};
use serde_json::Value;

const GROUP: &str = "rbac.authorization.k8s.io";

const COLUMNS: &[Printed] = &[
    NAME,
    text("Role", "rbac.v1.RoleBinding.roleRef", |binding, _| {
        let reference = |key: &str| object::text(binding, &["roleRef", key]).to_owned();
        format!("{}/{}", reference("kind"), reference("name")).into()
    }),
    AGE,
    wide("Users", "Users in the roleBinding", |binding, _| subjects(binding, "User")),
    wide("Groups", "Groups in the roleBinding", |binding, _| subjects(binding, "Group")),
    wide("ServiceAccounts", "ServiceAccounts in the roleBinding", |binding, _| subjects(binding, "ServiceAccount")),
];

pub struct Binding {
    pub cluster: bool,
}

impl Strategy for Binding {
    fn validate(&self, binding: &Value, _old: Option<&Value>, errors: &mut Errors) {
        let path = Path::new("roleRef");
        let text = |key: &str| object::text(binding, &["roleRef", key]);
        if text("apiGroup") != GROUP {
            errors.push(Error::not_supported(&path.child("apiGroup"), text("apiGroup"), &[GROUP]));
        }
        let kinds: &[&str] = if self.cluster { &["ClusterRole"] } else { &["ClusterRole", "Role"] };
        if !kinds.contains(&text("kind")) {
            errors.push(Error::not_supported(&path.child("kind"), text("kind"), kinds));
        }
        if !text("name").is_empty() {
            let problems = rules::path_segment(text("name"));
            errors.extend(problems.into_iter().map(|p| Error::invalid(&path.child("name"), text("name"), p)));
        }
    }

    fn validate_update(&self, binding: &Value, old: &Value, _subresource: &str, errors: &mut Errors) {
        let role = |value: &Value| value.get("roleRef").cloned().unwrap_or_default();
        if !same(&role(binding), &role(old)) {
            errors.push(Error::invalid(&Path::new("roleRef"), role(binding), "cannot change roleRef"));
        }
    }

    fn name_problems(&self, name: &str) -> rules::Problems {
        rules::path_segment(name)
    }

    fn creates_on_update(&self) -> bool {
        true
    }

    fn printed(&self) -> &'static [Printed] {
        COLUMNS
    }
}

pub fn check_subject(subject: &Value, path: &Path, errors: &mut Errors) {
    let text = |key: &str| object::text(subject, &[key]);
    if text("name").is_empty() {
        errors.push(Error::required(&path.child("name"), ""));
    }
    match text("kind") {
        "ServiceAccount" => {
            let problems = if text("name").is_empty() { Vec::new() } else { rules::dns_subdomain(text("name")) };
            errors.extend(problems.into_iter().map(|p| Error::invalid(&path.child("name"), text("name"), p)));
            if !text("apiGroup").is_empty() {
                errors.push(Error::not_supported(&path.child("apiGroup"), text("apiGroup"), &[""]));
            }
            if text("namespace").is_empty() {
                errors.push(Error::required(&path.child("namespace"), ""));
            }
        }
        "User" | "Group" => {
            if text("apiGroup") != GROUP {
                errors.push(Error::not_supported(&path.child("apiGroup"), text("apiGroup"), &[GROUP]));
            }
        }
        other => errors.push(Error::not_supported(&path.child("kind"), other, &["Group", "ServiceAccount", "User"])),
    }
}

fn subjects(binding: &Value, kind: &str) -> Value {
    let all = object::list(binding, &["subjects"]).iter().filter(|s| object::text(s, &["kind"]) == kind);
    let names: Vec<String> = all
        .map(|s| match (kind, object::text(s, &["name"])) {
            ("ServiceAccount", name) => format!("{}/{name}", object::text(s, &["namespace"])),
            (_, name) => name.to_owned(),
        })
        .collect();
    names.join(", ").into()
}
