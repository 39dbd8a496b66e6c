//! What a Pod can learn about itself: `fieldRef` and `resourceFieldRef`.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container as Spec, ResourceFieldSelector};
use pintle_meta::quantity::Quantity;

use super::{Facts, amount};

/// A field as variables may name it: those of the metadata, and some of spec and status.
pub(crate) fn field(facts: &Facts<'_>, path: &str) -> Result<String, String> {
    let spec = facts.spec;
    Ok(match path {
        "spec.nodeName" => spec.node_name.clone().unwrap_or_default(),
        "spec.serviceAccountName" => spec.service_account_name.clone().unwrap_or_default(),
        "status.hostIP" => facts.host_addresses.first().cloned().unwrap_or_default(),
        "status.hostIPs" => facts.host_addresses.join(","),
        "status.podIP" => facts.pod_addresses.first().cloned().unwrap_or_default(),
        "status.podIPs" => facts.pod_addresses.join(","),
        _ => metadata_field(facts, path)?,
    })
}

/// A field as files may name it.
pub(crate) fn metadata_field(facts: &Facts<'_>, path: &str) -> Result<String, String> {
    let metadata = &facts.pod.metadata;
    let value_of = |map: &Option<BTreeMap<String, String>>, key: &str| {
        map.as_ref().and_then(|map| map.get(key)).cloned().unwrap_or_default()
    };
    if let Some((map, key)) =
        path.strip_suffix("']").and_then(|path| path.split_once("['")).filter(|(map, _)| !map.is_empty())
    {
        return match map {
            "metadata.annotations" => Ok(value_of(&metadata.annotations, key)),
            "metadata.labels" => Ok(value_of(&metadata.labels, key)),
            _ => Err(format!("fieldPath {path:?} does not support subscript")),
        };
    }
    match path {
        "metadata.annotations" => Ok(lines(metadata.annotations.as_ref())),
        "metadata.labels" => Ok(lines(metadata.labels.as_ref())),
        "metadata.name" => Ok(facts.name().to_owned()),
        "metadata.namespace" => Ok(facts.namespace().to_owned()),
        "metadata.uid" => Ok(facts.uid().to_owned()),
        _ => Err(format!("unsupported fieldPath: {path}")),
    }
}

/// One line a pair, the value in quotes.
fn lines(map: Option<&BTreeMap<String, String>>) -> String {
    let lines = map.into_iter().flatten().map(|(key, value)| format!("{key}={}", quoted(value)));
    lines.collect::<Vec<_>>().join("\n")
}

/// As Go writes a string in quotes: programs in containers parse these files with Go's rules.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{c}' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{b}' => quoted.push_str("\\v"),
            control if control.is_ascii_control() => quoted.push_str(&format!("\\x{:02x}", u32::from(control))),
            control if control.is_control() => quoted.push_str(&format!("\\u{:04x}", u32::from(control))),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

/// The request or limit of a container in units of the divisor, rounded up.
pub(crate) fn resource(
    facts: &Facts<'_>,
    container: &Spec,
    selector: &ResourceFieldSelector,
) -> Result<String, String> {
    let unsupported = || format!("unsupported container resource : {}", selector.resource);
    let (list, name) = selector.resource.split_once('.').ok_or_else(unsupported)?;
    let plain = matches!(name, "cpu" | "memory" | "ephemeral-storage");
    if !plain && !name.starts_with("hugepages-") {
        return Err(unsupported());
    }
    let resources = container.resources.as_ref();
    let value = match list {
        "requests" => amount(resources.and_then(|resources| resources.requests.as_ref()), name),
        "limits" => {
            let of_pod = facts.spec.resources.as_ref().and_then(|resources| resources.limits.as_ref());
            let set = |quantity: &Quantity| !quantity.is_zero();
            let own = amount(resources.and_then(|resources| resources.limits.as_ref()), name).filter(set);
            // Huge pages are never given twice: no limit means none.
            own.or_else(|| amount(of_pod.filter(|_| plain), name).filter(set))
                .or_else(|| amount(Some(facts.allocatable).filter(|_| plain), name))
        }
        _ => return Err(unsupported()),
    };
    let divisor = selector.divisor.as_ref().and_then(|divisor| Quantity::parse(&divisor.0).ok());
    let divisor = divisor.filter(|divisor| !divisor.is_zero()).unwrap_or(Quantity::from_units(1));
    let value = value.unwrap_or(Quantity::from_units(0));
    let (value, divisor) = match name {
        "cpu" => (value.milli(), divisor.milli()),
        _ => (value.units(), divisor.units()),
    };
    let divisor = divisor.max(1);
    Ok((value / divisor + i64::from(value % divisor > 0)).to_string())
}

/// The container that a selector in a volume names.
pub(crate) fn resource_of(facts: &Facts<'_>, selector: &ResourceFieldSelector) -> Result<String, String> {
    let name = selector.container_name.as_deref().unwrap_or_default();
    let container = facts.containers().find(|container| container.name == name);
    resource(facts, container.ok_or_else(|| format!("container {name} not found"))?, selector)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing;
    use super::*;

    #[test]
    fn a_pod_learns_every_field_that_upstream_tells() {
        let pod = testing::pod(json!({"nodeName": "n1", "serviceAccountName": "robot", "containers": []}));
        let allocatable = testing::allocatable();
        let facts = testing::facts(&pod, &allocatable);
        for (path, expected) in [
            ("metadata.name", "web-0"),
            ("metadata.namespace", "shop"),
            ("metadata.uid", "7f0c"),
            ("metadata.labels", "app=\"web\"\ntier=\"front\""),
            ("metadata.labels['app']", "web"),
            ("metadata.labels['none']", ""),
            ("metadata.annotations", "note=\"a \\\"quoted\\\"\\nline\""),
            ("metadata.annotations['note']", "a \"quoted\"\nline"),
            ("spec.nodeName", "n1"),
            ("spec.serviceAccountName", "robot"),
            ("status.hostIP", "192.0.2.7"),
            ("status.hostIPs", "192.0.2.7"),
            ("status.podIP", "10.64.0.5"),
            ("status.podIPs", "10.64.0.5,fd00::5"),
        ] {
            assert_eq!(field(&facts, path).as_deref(), Ok(expected), "{path}");
        }
        assert_eq!(field(&facts, "spec.priority"), Err("unsupported fieldPath: spec.priority".into()));
        assert_eq!(field(&facts, "spec.x['y']"), Err("fieldPath \"spec.x['y']\" does not support subscript".into()));
        assert!(metadata_field(&facts, "status.podIP").is_err());
    }

    #[test]
    fn a_container_learns_its_limits_in_the_unit_it_asked_for() {
        let resources = json!({"requests": {"cpu": "250m", "memory": "64Mi"}, "limits": {"memory": "100Mi", "hugepages-2Mi": "4Mi"}});
        let pod = testing::pod(json!({"containers": [{"name": "c", "resources": resources}]}));
        let allocatable = testing::allocatable();
        let facts = testing::facts(&pod, &allocatable);
        for (name, divisor, expected) in [
            ("requests.cpu", None, Ok("1")),
            ("requests.cpu", Some("1m"), Ok("250")),
            ("requests.cpu", Some("0"), Ok("1")),
            ("limits.cpu", None, Ok("4")),
            ("limits.memory", Some("1Mi"), Ok("100")),
            ("limits.memory", Some("1Gi"), Ok("1")),
            ("requests.memory", None, Ok("67108864")),
            ("limits.ephemeral-storage", Some("1Gi"), Ok("10")),
            ("requests.ephemeral-storage", None, Ok("0")),
            ("limits.hugepages-2Mi", Some("1Mi"), Ok("4")),
            ("requests.pods", None, Err("unsupported container resource : requests.pods")),
        ] {
            let selector = ResourceFieldSelector {
                container_name: Some("c".into()),
                divisor: divisor.map(|text: &str| k8s_openapi::apimachinery::pkg::api::resource::Quantity(text.into())),
                resource: name.into(),
            };
            let found = resource_of(&facts, &selector);
            assert_eq!(found.as_deref().map_err(String::as_str), expected, "{name} {divisor:?}");
        }
    }
}
