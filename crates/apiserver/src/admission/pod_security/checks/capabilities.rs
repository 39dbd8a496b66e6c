//! What a container may do beyond its user's rights.

use super::{Subject, Violation, context, quoted, these, violation};
use pintle_meta::object;
use serde_json::Value;
use std::collections::BTreeSet;

/// What runtimes give by default.
const DEFAULT: [&str; 13] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

pub(super) fn baseline(pod: &Subject<'_>) -> Option<Violation> {
    let (containers, added) = adding_others_than(&DEFAULT, pod);
    if containers.is_empty() {
        return None;
    }
    violation("non-default capabilities", addition(&containers, &added))
}

pub(super) fn restricted(pod: &Subject<'_>) -> Option<Violation> {
    let drops_all = |container: &Value| {
        context(container, &["capabilities"])
            .is_some_and(|caps| object::list(caps, &["drop"]).iter().any(|c| c == "ALL"))
    };
    let keeping = pod.named(|container| !drops_all(container));
    let (adding, added) = adding_others_than(&["NET_BIND_SERVICE"], pod);
    let mut details = Vec::new();
    if !keeping.is_empty() {
        details.push(format!("{} must set securityContext.capabilities.drop=[\"ALL\"]", these(&keeping)));
    }
    if !adding.is_empty() {
        details.push(addition(&adding, &added));
    }
    if details.is_empty() { None } else { violation("unrestricted capabilities", details.join("; ")) }
}

fn addition(containers: &[&str], added: &BTreeSet<&str>) -> String {
    format!("{} must not include {} in securityContext.capabilities.add", these(containers), quoted(added))
}

/// Which containers add capabilities that they may not, and which these are.
fn adding_others_than<'a>(allowed: &[&str], pod: &Subject<'a>) -> (Vec<&'a str>, BTreeSet<&'a str>) {
    let (mut containers, mut all) = (Vec::new(), BTreeSet::new());
    for container in pod.containers() {
        let added = context(container, &["capabilities"]).map(|caps| object::list(caps, &["add"])).unwrap_or_default();
        let others: Vec<&str> = added.iter().filter_map(Value::as_str).filter(|c| !allowed.contains(c)).collect();
        if !others.is_empty() {
            containers.push(object::text(container, &["name"]));
            all.extend(others);
        }
    }
    (containers, all)
}
