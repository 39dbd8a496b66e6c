//! Every check of the Pod Security Standards, in one table: its level, the versions that have it, and what it takes the place
//! of.

mod capabilities;
mod host;
mod profiles;
mod users;
mod volumes;

use super::policy::{Level, Standard};
use pintle_meta::object;
use serde_json::Value;

/// What is checked: a Pod, or the template of one.
#[derive(Clone, Copy)]
pub(super) struct Subject<'a> {
    pub(super) metadata: &'a Value,
    pub(super) spec: &'a Value,
}

/// What a check found: in short, and with the names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Violation {
    pub(super) reason: String,
    pub(super) detail: String,
}

type Find = fn(&Subject<'_>) -> Option<Violation>;

/// One version of a check.
struct Check {
    name: &'static str,
    level: Level,
    /// The first minor version that has it; a later row of the same name takes its place.
    since: u32,
    find: Find,
    exempt: Exempt,
    /// The check of the lower level that need not run beside this one.
    replaces: &'static str,
}

/// Which Pods are not checked.
enum Exempt {
    None,
    /// Their fields cannot be set.
    Windows,
    /// Root inside is nobody outside.
    UserNamespace,
}

const fn baseline(name: &'static str, since: u32, find: Find) -> Check {
    Check { name, level: Level::Baseline, since, find, exempt: Exempt::None, replaces: "" }
}

const fn restricted(name: &'static str, since: u32, find: Find, exempt: Exempt, replaces: &'static str) -> Check {
    Check { name, level: Level::Restricted, since, find, exempt, replaces }
}

/// In the order in which violations are listed.
const CHECKS: &[Check] = &[
    baseline("appArmorProfile", 0, profiles::app_armor),
    baseline("capabilities_baseline", 0, capabilities::baseline),
    baseline("hostNamespaces", 0, host::namespaces),
    baseline("hostPathVolumes", 0, volumes::host_path),
    baseline("hostPorts", 0, host::ports),
    baseline("hostProbesAndHostLifecycle", 34, host::probes),
    baseline("privileged", 0, users::privileged),
    baseline("procMount", 0, profiles::proc_mount),
    Check { exempt: Exempt::UserNamespace, ..baseline("procMount", 35, profiles::proc_mount) },
    baseline("seLinuxOptions", 0, profiles::se_linux),
    baseline("seLinuxOptions", 31, profiles::se_linux_with_engine),
    baseline("seccompProfile_baseline", 0, profiles::seccomp_annotations),
    baseline("seccompProfile_baseline", 19, profiles::seccomp),
    baseline("sysctls", 0, |pod| host::sysctls(pod, 0)),
    baseline("sysctls", 27, |pod| host::sysctls(pod, 27)),
    baseline("sysctls", 29, |pod| host::sysctls(pod, 29)),
    baseline("sysctls", 32, |pod| host::sysctls(pod, 32)),
    baseline("windowsHostProcess", 0, host::windows_process),
    restricted("allowPrivilegeEscalation", 8, users::escalation, Exempt::None, ""),
    restricted("allowPrivilegeEscalation", 25, users::escalation, Exempt::Windows, ""),
    restricted("capabilities_restricted", 22, capabilities::restricted, Exempt::None, "capabilities_baseline"),
    restricted("capabilities_restricted", 25, capabilities::restricted, Exempt::Windows, "capabilities_baseline"),
    restricted("procMount_restricted", 35, profiles::proc_mount, Exempt::None, "procMount"),
    restricted("restrictedVolumes", 0, volumes::restricted, Exempt::None, "hostPathVolumes"),
    restricted("runAsNonRoot", 0, users::non_root, Exempt::None, ""),
    restricted("runAsNonRoot", 35, users::non_root, Exempt::UserNamespace, ""),
    restricted("runAsUser", 23, users::user, Exempt::None, ""),
    restricted("runAsUser", 35, users::user, Exempt::UserNamespace, ""),
    restricted("seccompProfile_restricted", 19, profiles::seccomp_required, Exempt::None, "seccompProfile_baseline"),
    restricted("seccompProfile_restricted", 25, profiles::seccomp_required, Exempt::Windows, "seccompProfile_baseline"),
];

/// What of a standard a Pod does not meet.
pub(super) fn violations(standard: Standard, pod: &Subject<'_>) -> Vec<Violation> {
    if standard.level == Level::Privileged {
        return Vec::new();
    }
    let in_force: Vec<&Check> = CHECKS.iter().filter(|check| is_in_force(check, standard)).collect();
    let replaced = |check: &Check| in_force.iter().any(|other| other.replaces == check.name);
    in_force
        .iter()
        .filter(|check| !replaced(check) && !check.exempts(pod))
        .filter_map(|check| (check.find)(pod))
        .collect()
}

/// Of each check the latest row that the version has.
fn is_in_force(check: &Check, standard: Standard) -> bool {
    let has = |other: &Check| standard.version.has(other.since);
    let newer = CHECKS.iter().any(|other| other.name == check.name && other.since > check.since && has(other));
    check.level <= standard.level && has(check) && !newer
}

impl Check {
    fn exempts(&self, pod: &Subject<'_>) -> bool {
        match self.exempt {
            Exempt::None => false,
            Exempt::Windows => object::text(pod.spec, &["os", "name"]) == "windows",
            Exempt::UserNamespace => pod.spec.get("hostUsers") == Some(&Value::Bool(false)),
        }
    }
}

/// `host namespaces (hostNetwork=true), privileged (…)`
pub(super) fn details(violations: &[Violation]) -> String {
    let shown = |violation: &Violation| match violation.detail.as_str() {
        "" => violation.reason.clone(),
        detail => format!("{} ({detail})", violation.reason),
    };
    violations.iter().map(shown).collect::<Vec<_>>().join(", ")
}

/// `host namespaces, privileged`
pub(super) fn reasons(violations: &[Violation]) -> String {
    violations.iter().map(|violation| violation.reason.as_str()).collect::<Vec<_>>().join(", ")
}

impl<'a> Subject<'a> {
    /// All containers, in the order in which they start.
    fn containers(&self) -> impl Iterator<Item = &'a Value> {
        let list = |kind: &str| object::list(self.spec, &[kind]).iter();
        list("initContainers").chain(list("containers")).chain(list("ephemeralContainers"))
    }

    /// The names of the containers that are so.
    fn named(&self, is: impl Fn(&Value) -> bool) -> Vec<&'a str> {
        self.containers()
            .filter(|container| is(container))
            .map(|container| object::text(container, &["name"]))
            .collect()
    }

    /// Something of the whole Pod's security context.
    fn context(&self, path: &[&str]) -> Option<&'a Value> {
        object::at(self.spec, &["securityContext"]).and_then(|context| present(context, path))
    }

    fn annotations(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        let annotations = object::at(self.metadata, &["annotations"]).and_then(Value::as_object);
        annotations.into_iter().flatten().map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()))
    }
}

/// Something of a container's security context.
fn context<'a>(container: &'a Value, path: &[&str]) -> Option<&'a Value> {
    container.get("securityContext").and_then(|context| present(context, path))
}

fn present<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Value> {
    object::at(value, path).filter(|value| !value.is_null())
}

fn violation(reason: &str, detail: String) -> Option<Violation> {
    Some(Violation { reason: reason.to_owned(), detail })
}

/// `pod and containers "a", "b"`; none when nobody set anything.
fn setters(pod: bool, containers: &[&str]) -> Option<String> {
    let pod = pod.then(|| "pod".to_owned());
    let containers = (!containers.is_empty()).then(|| these(containers));
    let all: Vec<String> = pod.into_iter().chain(containers).collect();
    (!all.is_empty()).then(|| all.join(" and "))
}

/// `container "a"`, `containers "a", "b"`
fn these(containers: &[&str]) -> String {
    format!("{} {}", number(containers.len(), "container"), quoted(containers))
}

fn quoted<T: AsRef<str>>(items: impl IntoIterator<Item = T>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| format!("\"{}\"", item.as_ref())).collect();
    items.join(", ")
}

/// A noun for so many of it.
fn number(count: usize, noun: &str) -> String {
    if count == 1 { noun.to_owned() } else { format!("{noun}s") }
}

fn uses(count: usize) -> &'static str {
    if count == 1 { "uses" } else { "use" }
}

#[cfg(test)]
mod tests;
