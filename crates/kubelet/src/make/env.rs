//! The variables of a container: from values, ConfigMaps, Secrets, fields, resources and Services.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container as Spec, EnvVarSource};

use super::expand::expand;
use super::{Facts, fields};
use crate::volumes::Sources;

/// Variables in the order in which they were first set; a later value takes the place of an earlier one.
#[derive(Debug, Default)]
struct Variables {
    order: Vec<String>,
    values: BTreeMap<String, String>,
}

impl Variables {
    fn set(&mut self, name: String, value: String) {
        if self.values.insert(name.clone(), value).is_none() {
            self.order.push(name);
        }
    }

    fn into_pairs(mut self) -> Vec<(String, String)> {
        self.order.into_iter().filter_map(|name| self.values.remove_entry(&name)).collect()
    }
}

/// What the container's process finds in its environment, or why it cannot be told.
///
/// `services` are the variables that lead to Services; the container's own go before them.
pub(crate) fn environment(
    facts: &Facts<'_>,
    container: &Spec,
    sources: &Sources,
    services: &BTreeMap<String, String>,
) -> Result<Vec<(String, String)>, String> {
    let mut variables = Variables::default();
    for from in container.env_from.iter().flatten() {
        let prefix = from.prefix.as_deref().unwrap_or_default();
        let prefixed = |key: &String| format!("{prefix}{key}");
        if let Some(reference) = &from.config_map_ref
            && let Some(map) = sources.config_map(&reference.name, reference.optional)?
        {
            map.data.iter().flatten().for_each(|(key, value)| variables.set(prefixed(key), value.clone()));
        } else if let Some(reference) = &from.secret_ref
            && let Some(secret) = sources.secret(&reference.name, reference.optional)?
        {
            let data = secret.data.iter().flatten();
            data.for_each(|(key, value)| variables.set(prefixed(key), String::from_utf8_lossy(&value.0).into_owned()));
        }
    }
    for variable in container.env.iter().flatten() {
        let value = match (variable.value.as_deref().filter(|value| !value.is_empty()), &variable.value_from) {
            (Some(value), _) => {
                let value_of = |name: &str| variables.values.get(name).or_else(|| services.get(name)).cloned();
                Some(expand(value, value_of))
            }
            (None, Some(source)) => from_source(facts, container, sources, source)?,
            (None, None) => Some(String::new()),
        };
        if let Some(value) = value {
            variables.set(variable.name.clone(), value);
        }
    }
    for (name, value) in services {
        if !variables.values.contains_key(name) {
            variables.set(name.clone(), value.clone());
        }
    }
    Ok(variables.into_pairs())
}

/// Nothing if it is not there and need not be.
fn from_source(
    facts: &Facts<'_>,
    container: &Spec,
    sources: &Sources,
    source: &EnvVarSource,
) -> Result<Option<String>, String> {
    let missing = |key: &str, kind: &str, name: &str| {
        Err(format!("couldn't find key {key} in {kind} {}/{name}", facts.namespace()))
    };
    if let Some(reference) = &source.field_ref {
        return fields::field(facts, &reference.field_path).map(Some);
    }
    if let Some(reference) = &source.resource_field_ref {
        return fields::resource(facts, container, reference).map(Some);
    }
    if let Some(reference) = &source.config_map_key_ref {
        let Some(map) = sources.config_map(&reference.name, reference.optional)? else { return Ok(None) };
        return match map.data.as_ref().and_then(|data| data.get(&reference.key)) {
            Some(value) => Ok(Some(value.clone())),
            None if reference.optional == Some(true) => Ok(None),
            None => missing(&reference.key, "ConfigMap", &reference.name),
        };
    }
    if let Some(reference) = &source.secret_key_ref {
        let Some(secret) = sources.secret(&reference.name, reference.optional)? else { return Ok(None) };
        return match secret.data.as_ref().and_then(|data| data.get(&reference.key)) {
            Some(value) => Ok(Some(String::from_utf8_lossy(&value.0).into_owned())),
            None if reference.optional == Some(true) => Ok(None),
            None => missing(&reference.key, "Secret", &reference.name),
        };
    }
    if source.file_key_ref.is_some() {
        return Err("fileKeyRef is not supported by this node; use a configMapKeyRef or a secretKeyRef".to_owned());
    }
    Ok(Some(String::new()))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::testing;
    use super::*;

    fn sources() -> Sources {
        let mut sources = Sources::default();
        sources.put_config_map("settings", json!({"data": {"COLOR": "blue", "SIZE": "big"}}));
        sources.put_secret("keys", json!({"data": {"PASSWORD": "aHVudGVyMg=="}}));
        sources
    }

    fn made(container: Value) -> Result<Vec<(String, String)>, String> {
        let mut container = container;
        container["name"] = json!("c");
        let pod = testing::pod(json!({"nodeName": "n1", "containers": [container]}));
        let allocatable = testing::allocatable();
        let facts = testing::facts(&pod, &allocatable);
        let services = BTreeMap::from([("DB_SERVICE_HOST".to_owned(), "10.96.0.9".to_owned())]);
        environment(&facts, &facts.spec.containers[0], &sources(), &services)
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_container_has_every_variable_that_its_spec_names() {
        let container = json!({
            "envFrom": [
                {"prefix": "S_", "configMapRef": {"name": "settings"}},
                {"secretRef": {"name": "keys"}},
                {"configMapRef": {"name": "none", "optional": true}},
            ],
            "env": [
                {"name": "PLAIN", "value": "v"},
                {"name": "S_SIZE", "value": "small"},
                {"name": "BOTH", "value": "$(PLAIN)-$(S_COLOR)-$(DB_SERVICE_HOST)-$(LATER)-$$(PLAIN)"},
                {"name": "LATER", "value": "l"},
                {"name": "EMPTY"},
                {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
                {"name": "CPUS", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
                {"name": "COLOR", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "COLOR"}}},
                {"name": "PASS", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "PASSWORD"}}},
                {"name": "NO_KEY", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "x", "optional": true}}},
                {"name": "NO_MAP", "valueFrom": {"secretKeyRef": {"name": "none", "key": "x", "optional": true}}},
            ],
        });
        let expected = pairs(&[
            ("S_COLOR", "blue"),
            ("S_SIZE", "small"),
            ("PASSWORD", "hunter2"),
            ("PLAIN", "v"),
            ("BOTH", "v-blue-10.96.0.9-$(LATER)-$(PLAIN)"),
            ("LATER", "l"),
            ("EMPTY", ""),
            ("NODE", "n1"),
            ("CPUS", "4"),
            ("COLOR", "blue"),
            ("PASS", "hunter2"),
            ("DB_SERVICE_HOST", "10.96.0.9"),
        ]);
        assert_eq!(made(container), Ok(expected));
    }

    #[test]
    fn what_is_missing_is_named_as_upstream_names_it() {
        let key =
            |kind: &str, name: &str| json!({"env": [{"name": "A", "valueFrom": {kind: {"name": name, "key": "k"}}}]});
        for (container, message) in [
            (json!({"envFrom": [{"configMapRef": {"name": "none"}}]}), "configmap \"none\" not found"),
            (json!({"envFrom": [{"secretRef": {"name": "none"}}]}), "secret \"none\" not found"),
            (key("configMapKeyRef", "none"), "configmap \"none\" not found"),
            (key("secretKeyRef", "none"), "secret \"none\" not found"),
            (key("configMapKeyRef", "settings"), "couldn't find key k in ConfigMap shop/settings"),
            (key("secretKeyRef", "keys"), "couldn't find key k in Secret shop/keys"),
        ] {
            assert_eq!(made(container.clone()), Err(message.to_owned()), "{container}");
        }
    }

    #[test]
    fn a_containers_own_variable_hides_that_of_a_service() {
        let made = made(json!({"env": [{"name": "DB_SERVICE_HOST", "value": "mine"}]})).unwrap();
        assert_eq!(made, pairs(&[("DB_SERVICE_HOST", "mine")]));
    }
}
