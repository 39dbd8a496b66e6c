//! By which profiles the kernel holds containers back: AppArmor, seccomp, SELinux, and what is hidden of `/proc`.

use super::{Subject, Violation, context, number, quoted, setters, these, violation};
use pintle_meta::object;
use serde_json::Value;
use std::collections::BTreeSet;

const APP_ARMOR_ANNOTATION: &str = "container.apparmor.security.beta.kubernetes.io/";
const SECCOMP_ANNOTATION: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_CONTAINER_ANNOTATION: &str = "container.seccomp.security.alpha.kubernetes.io/";

fn is_confined(kind: &str) -> bool {
    kind == "RuntimeDefault" || kind == "Localhost"
}

/// Who sets a profile of a kind that is not allowed, and which kinds these are.
struct Unconfined<'a> {
    pod: bool,
    containers: Vec<&'a str>,
    kinds: BTreeSet<&'a str>,
}

fn unconfined<'a>(pod: &Subject<'a>, profile: &str) -> Unconfined<'a> {
    let bad = |profile: Option<&'a Value>| {
        profile.map(|profile| object::text(profile, &["type"])).filter(|kind| !is_confined(kind))
    };
    let whole = bad(pod.context(&[profile]));
    let mut found = Unconfined { pod: whole.is_some(), containers: Vec::new(), kinds: whole.into_iter().collect() };
    for container in pod.containers() {
        if let Some(kind) = bad(context(container, &[profile])) {
            found.containers.push(object::text(container, &["name"]));
            found.kinds.insert(kind);
        }
    }
    found
}

pub(super) fn app_armor(pod: &Subject<'_>) -> Option<Violation> {
    let Unconfined { pod: whole, containers, kinds } = unconfined(pod, "appArmorProfile");
    let allowed =
        |profile: &str| profile.is_empty() || profile == "runtime/default" || profile.starts_with("localhost/");
    let annotations: BTreeSet<String> = pod
        .annotations()
        .filter(|(key, profile)| key.starts_with(APP_ARMOR_ANNOTATION) && !allowed(profile))
        .map(|(key, profile)| format!("{key}={profile:?}"))
        .collect();
    let by_annotation = (!annotations.is_empty()).then(|| number(annotations.len(), "annotation"));
    let all: Vec<String> = setters(whole, &containers).into_iter().chain(by_annotation).collect();
    if all.is_empty() {
        return None;
    }
    let values: Vec<String> = kinds.into_iter().map(str::to_owned).chain(annotations).collect();
    let reason = number(values.len(), "forbidden AppArmor profile");
    violation(&reason, format!("{} must not set AppArmor profile type to {}", all.join(" and "), quoted(&values)))
}

/// As profiles were set before they had a field.
pub(super) fn seccomp_annotations(pod: &Subject<'_>) -> Option<Violation> {
    let allowed =
        |profile: &str| ["runtime/default", "docker/default"].contains(&profile) || profile.starts_with("localhost/");
    let names: Vec<&str> = pod.named(|_| true);
    let meant = |key: &str| {
        key == SECCOMP_ANNOTATION
            || key.strip_prefix(SECCOMP_CONTAINER_ANNOTATION).is_some_and(|name| names.contains(&name))
    };
    let set = pod.annotations().filter(|(key, profile)| meant(key) && !allowed(profile));
    let forbidden: BTreeSet<String> = set.map(|(key, profile)| format!("{key}={profile:?}")).collect();
    if forbidden.is_empty() {
        return None;
    }
    let noun = number(forbidden.len(), "annotation");
    let list = forbidden.into_iter().collect::<Vec<_>>().join(", ");
    violation("seccompProfile", format!("forbidden {noun} {list}"))
}

pub(super) fn seccomp(pod: &Subject<'_>) -> Option<Violation> {
    let Unconfined { pod: whole, containers, kinds } = unconfined(pod, "seccompProfile");
    let setters = setters(whole, &containers)?;
    let detail = format!("{setters} must not set securityContext.seccompProfile.type to {}", quoted(&kinds));
    violation("seccompProfile", detail)
}

pub(super) fn seccomp_required(pod: &Subject<'_>) -> Option<Violation> {
    if let Some(found) = seccomp(pod) {
        return Some(found);
    }
    let field = ["seccompProfile"];
    let whole = pod.context(&field).is_some();
    let silent = pod.named(|container| !whole && context(container, &field).is_none());
    if silent.is_empty() {
        return None;
    }
    let detail = format!(
        "pod or {} must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\"",
        these(&silent)
    );
    violation("seccompProfile", detail)
}

pub(super) fn proc_mount(pod: &Subject<'_>) -> Option<Violation> {
    let unmasked = |container: &Value| {
        let mount = context(container, &["procMount"]).and_then(Value::as_str);
        mount.filter(|mount| *mount != "Default").map(str::to_owned)
    };
    let containers = pod.named(|container| unmasked(container).is_some());
    if containers.is_empty() {
        return None;
    }
    let kinds: BTreeSet<String> = pod.containers().filter_map(unmasked).collect();
    violation(
        "procMount",
        format!("{} must not set securityContext.procMount to {}", these(&containers), quoted(&kinds)),
    )
}

const SE_LINUX_TYPES: [&str; 4] = ["", "container_t", "container_init_t", "container_kvm_t"];

pub(super) fn se_linux(pod: &Subject<'_>) -> Option<Violation> {
    se_linux_of(pod, |kind| SE_LINUX_TYPES.contains(&kind))
}

/// For containers in which other containers run.
pub(super) fn se_linux_with_engine(pod: &Subject<'_>) -> Option<Violation> {
    se_linux_of(pod, |kind| SE_LINUX_TYPES.contains(&kind) || kind == "container_engine_t")
}

fn se_linux_of(pod: &Subject<'_>, allowed: fn(&str) -> bool) -> Option<Violation> {
    let field = ["seLinuxOptions"];
    let text = |options: &'_ Value, name: &str| object::text(options, &[name]).to_owned();
    let is_bad = |options: &Value| {
        !allowed(&text(options, "type")) || !text(options, "user").is_empty() || !text(options, "role").is_empty()
    };
    let containers = pod.named(|container| context(container, &field).is_some_and(is_bad));
    let setters = setters(pod.context(&field).is_some_and(is_bad), &containers)?;
    let of_containers = pod.containers().filter_map(|container| context(container, &field));
    let bad: Vec<&Value> = pod.context(&field).into_iter().chain(of_containers).filter(|o| is_bad(o)).collect();
    let types: BTreeSet<String> =
        bad.iter().map(|options| text(options, "type")).filter(|kind| !allowed(kind)).collect();
    let mut data = Vec::new();
    if !types.is_empty() {
        data.push(format!("{} {}", number(types.len(), "type"), quoted(&types)));
    }
    for name in ["user", "role"] {
        if bad.iter().any(|options| !text(options, name).is_empty()) {
            data.push(format!("{name} may not be set"));
        }
    }
    let detail = format!("{setters} set forbidden securityContext.seLinuxOptions: {}", data.join("; "));
    violation("seLinuxOptions", detail)
}
