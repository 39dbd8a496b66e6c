//! Nobody gives away more than they have: a role holds only rights that its author holds, and so does a binding.

use super::forbidden;
use crate::authn::MASTERS;
use crate::authz::rules::Rule;
use crate::authz::{Attributes, Authorizer};
use crate::registry::Write;
use pintle_meta::{Status, object};
use serde_json::Value;

pub(super) const GROUP: &str = "rbac.authorization.k8s.io";

pub(super) async fn must_be_held(authorizer: &Authorizer, write: &Write<'_>, object: &Value) -> Result<(), Status> {
    if write.user.is_in(MASTERS) {
        return Ok(());
    }
    let policy = authorizer.policy().await;
    // Who may escalate, or bind this very role, need not hold what is in it.
    let (verb, resource, name, rules) = match write.resource.kind.as_str() {
        "Role" | "ClusterRole" => ("escalate", write.resource.name.as_str(), object::name(object), rules_of(object)),
        _ => {
            let (kind, name) = (object::text(object, &["roleRef", "kind"]), object::text(object, &["roleRef", "name"]));
            let (resource, namespace) = match kind {
                "ClusterRole" => ("clusterroles", ""),
                _ => ("roles", write.namespace),
            };
            let Some(rules) = policy.role(namespace, name) else {
                return Err(Status::not_found(GROUP, resource, name));
            };
            ("bind", resource, name, rules.to_vec())
        }
    };
    let attributes =
        Attributes { verb, group: GROUP, resource, namespace: write.namespace, name, ..Attributes::default() };
    if authorizer.allows(write.user, &attributes).await {
        return Ok(());
    }
    let held: Vec<&Rule> = policy.rules_for(write.user, write.namespace).collect();
    let missing: Vec<String> = rules
        .iter()
        .flat_map(Rule::parts)
        .filter(|part| !held.iter().any(|h| h.covers(part)))
        .map(|part| part.to_string())
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let groups: Vec<String> = write.user.groups.iter().map(|g| format!("{g:?}")).collect();
    let why = format!(
        "user {:?} (groups=[{}]) is attempting to grant RBAC permissions not currently held:\n{}",
        write.user.name,
        groups.join(" "),
        missing.join("\n")
    );
    Err(forbidden(write, object::name(object), &why))
}

fn rules_of(role: &Value) -> Vec<Rule> {
    object::list(role, &["rules"]).iter().map(Rule::from_value).collect()
}
