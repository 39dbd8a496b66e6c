//! Built-in types as OpenAPI v3 schemas, for discovery documents and `kubectl explain`.

use crate::builtin;
use crate::node::{Field, Kind, ListType, Node, NodeId, Patch, Presence, Schema};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// The name of a type in OpenAPI documents: `core.v1.Pod` is `io.k8s.api.core.v1.Pod`.
pub fn definition_name(type_name: &str) -> String {
    let mut parts = type_name.splitn(2, '.');
    let (group, rest) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    match group {
        "meta" => format!("io.k8s.apimachinery.pkg.apis.meta.{rest}"),
        "api" | "util" | "runtime" | "version" => format!("io.k8s.apimachinery.pkg.{type_name}"),
        "apiextensions" => format!("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.{rest}"),
        "apiregistration" => format!("io.k8s.kube-aggregator.pkg.apis.apiregistration.{rest}"),
        _ => format!("io.k8s.api.{type_name}"),
    }
}

/// The component of one type. Other types are referred to, not included.
pub fn component(type_name: &str) -> Option<Value> {
    let schema = Schema::builtin(type_name)?;
    Some(Writer { schema: &schema, referred: BTreeSet::new() }.whole(schema.root()))
}

/// The components of these types and of every type they refer to, by definition name.
pub fn components_for(type_names: &[&str]) -> Map<String, Value> {
    let mut components = Map::new();
    let mut waiting: Vec<String> = type_names.iter().map(ToString::to_string).collect();
    while let Some(type_name) = waiting.pop() {
        let name = definition_name(&type_name);
        if components.contains_key(&name) {
            continue;
        }
        let Some(schema) = Schema::builtin(&type_name) else { continue };
        let mut writer = Writer { schema: &schema, referred: BTreeSet::new() };
        components.insert(name, writer.whole(schema.root()));
        waiting.extend(writer.referred.into_iter().map(str::to_owned));
    }
    components
}

struct Writer<'a> {
    schema: &'a Schema,
    referred: BTreeSet<&'static str>,
}

impl Writer<'_> {
    fn whole(&mut self, node: &Node) -> Value {
        let mut value = self.shape(node);
        if let (Kind::Object { .. }, true, Value::Object(map)) = (&node.kind, node.atomic, &mut value) {
            map.insert("x-kubernetes-map-type".to_owned(), "atomic".into());
        }
        if let Some(type_name) = node.type_name.filter(|name| builtin::is_top_level(name))
            && let (Some(group), Some((prefix, kind))) = (group(type_name), type_name.rsplit_once('.'))
            && let Some((_, version)) = prefix.split_once('.')
        {
            value["x-kubernetes-group-version-kind"] = json!([{"group": group, "version": version, "kind": kind}]);
        }
        value
    }

    /// A field: a reference to its type or its shape, with how it merges.
    fn field(&mut self, field: &Field) -> Value {
        let node = self.schema.node(field.node);
        let zero = zero_default(field, node);
        let mut value = match node.type_name {
            Some(type_name) => self.reference(type_name, zero.is_some() || node.patch != Patch::default()),
            None => self.shape(node),
        };
        let Value::Object(map) = &mut value else { return value };
        let mut put = |name: &str, value: Value| {
            map.insert(name.to_owned(), value);
        };
        if let Kind::List { .. } = node.kind {
            let list_type = match &node.list_type {
                ListType::Unspecified => None,
                ListType::Atomic => Some("atomic"),
                ListType::Set => Some("set"),
                ListType::Map(keys) => {
                    put("x-kubernetes-list-map-keys", keys.iter().map(|key| Value::from(&**key)).collect());
                    Some("map")
                }
            };
            if let Some(list_type) = list_type {
                put("x-kubernetes-list-type", list_type.into());
            }
        }
        if node.type_name.is_none() && node.atomic && matches!(node.kind, Kind::Object { .. }) {
            put("x-kubernetes-map-type", "atomic".into());
        }
        let strategies: Vec<&str> =
            [(node.patch.merge, "merge"), (node.patch.replace, "replace"), (node.patch.retain_keys, "retainKeys")]
                .into_iter()
                .filter_map(|(set, name)| set.then_some(name))
                .collect();
        if !strategies.is_empty() {
            put("x-kubernetes-patch-strategy", strategies.join(",").into());
        }
        if let Some(key) = &node.patch.key {
            put("x-kubernetes-patch-merge-key", (&**key).into());
        }
        if let Some(default) = node.default.clone().or(zero) {
            put("default", default);
        }
        value
    }

    fn reference(&mut self, type_name: &'static str, has_siblings: bool) -> Value {
        self.referred.insert(type_name);
        let reference = json!({"$ref": format!("#/components/schemas/{}", definition_name(type_name))});
        // A reference may not have siblings in OpenAPI v3, so what the field adds stands next to allOf.
        if has_siblings { json!({"allOf": [reference]}) } else { reference }
    }

    fn shape(&mut self, node: &Node) -> Value {
        match &node.kind {
            Kind::Object { fields, additional: None } => {
                let mut object = json!({"type": "object"});
                let properties: Map<String, Value> =
                    fields.iter().map(|(name, field)| (name.to_string(), self.field(field))).collect();
                if !properties.is_empty() {
                    object["properties"] = Value::Object(properties);
                }
                let required: Vec<&str> =
                    fields.iter().filter(|(_, field)| field.required).map(|(name, _)| &**name).collect();
                if !required.is_empty() {
                    object["required"] = required.into();
                }
                object
            }
            Kind::Object { additional: Some(item), .. } => {
                json!({"type": "object", "additionalProperties": self.item(*item)})
            }
            Kind::List { items } => json!({"type": "array", "items": self.item(*items)}),
            Kind::String | Kind::Duration => json!({"type": "string"}),
            Kind::Int32 => json!({"type": "integer", "format": "int32"}),
            Kind::Int64 | Kind::Integer => json!({"type": "integer", "format": "int64"}),
            Kind::Number => json!({"type": "number", "format": "double"}),
            Kind::Bool => json!({"type": "boolean"}),
            Kind::Bytes => json!({"type": "string", "format": "byte"}),
            Kind::IntOrString => {
                json!({"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]})
            }
            Kind::Quantity => json!({"oneOf": [{"type": "string"}, {"type": "number"}]}),
            Kind::Time | Kind::MicroTime => json!({"type": "string", "format": "date-time"}),
            Kind::Any
                if matches!(node.type_name, Some("meta.v1.FieldsV1" | "runtime.RawExtension" | "meta.v1.Patch")) =>
            {
                json!({"type": "object"})
            }
            Kind::Any => json!({}),
        }
    }

    /// An item of a list or map. The API gives it the zero value of its type as default.
    fn item(&mut self, id: NodeId) -> Value {
        let node = self.schema.node(id);
        match node.type_name {
            Some(type_name) if matches!(node.kind, Kind::Object { .. }) => {
                let mut value = self.reference(type_name, true);
                value["default"] = json!({});
                value
            }
            Some(type_name) => self.reference(type_name, false),
            None => {
                let mut value = self.shape(node);
                if let Some(zero) = zero_scalar(node) {
                    value["default"] = zero;
                }
                value
            }
        }
    }
}

/// What a client may assume of a field that the API always writes.
fn zero_default(field: &Field, node: &Node) -> Option<Value> {
    match field.presence {
        Presence::AlwaysObject => Some(json!({})),
        Presence::AlwaysWritten => zero_scalar(node),
        Presence::AsGiven | Presence::NullWhenAbsent | Presence::OmittedWhenZero => None,
    }
}

fn zero_scalar(node: &Node) -> Option<Value> {
    match node.kind {
        Kind::String => Some("".into()),
        Kind::Int32 | Kind::Int64 | Kind::Number => Some(0.into()),
        Kind::Bool => Some(false.into()),
        _ => None,
    }
}

/// The API group of a top-level type: that of `rbac.v1.Role` is `rbac.authorization.k8s.io`.
fn group(type_name: &str) -> Option<String> {
    let short = type_name.split('.').next()?;
    match short {
        "core" => Some(String::new()),
        "apps" | "batch" | "autoscaling" | "policy" => Some(short.to_owned()),
        "rbac" => Some("rbac.authorization.k8s.io".to_owned()),
        "flowcontrol" => Some("flowcontrol.apiserver.k8s.io".to_owned()),
        "apiserverinternal" => Some("internal.apiserver.k8s.io".to_owned()),
        // Types of `meta` belong to every group.
        "meta" => None,
        _ => Some(format!("{short}.k8s.io")),
    }
}

/// Every top-level type of a group and version, such as `apps.v1`.
pub fn top_level_types(group_version: &str) -> Vec<&'static str> {
    let of_group = |name: &&str| name.rsplit_once('.').is_some_and(|(prefix, _)| prefix == group_version);
    builtin::type_names().filter(of_group).filter(|name| builtin::is_top_level(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_find_types_under_the_names_they_know() {
        let cases = [
            ("core.v1.Pod", "io.k8s.api.core.v1.Pod"),
            ("meta.v1.ObjectMeta", "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"),
            ("api.resource.Quantity", "io.k8s.apimachinery.pkg.api.resource.Quantity"),
            ("util.intstr.IntOrString", "io.k8s.apimachinery.pkg.util.intstr.IntOrString"),
            (
                "apiextensions.v1.CustomResourceDefinition",
                "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition",
            ),
            ("apiregistration.v1.APIService", "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.APIService"),
        ];
        for (type_name, name) in cases {
            assert_eq!(definition_name(type_name), name);
        }
    }

    #[test]
    fn a_component_says_how_its_lists_merge() {
        let spec = component("core.v1.ServiceSpec").expect("the table has services");
        let ports = json!({
            "type": "array",
            "items": {"allOf": [{"$ref": "#/components/schemas/io.k8s.api.core.v1.ServicePort"}], "default": {}},
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["port", "protocol"],
            "x-kubernetes-patch-merge-key": "port",
            "x-kubernetes-patch-strategy": "merge",
        });
        assert_eq!(spec["properties"]["ports"], ports);
        let port = component("core.v1.ServicePort").expect("the table has ports");
        assert_eq!(port["required"], json!(["port"]));
        assert_eq!(port["properties"]["protocol"], json!({"type": "string", "default": "TCP"}));
        let role = component("rbac.v1.Role").expect("the table has roles");
        let kind = json!([{"group": "rbac.authorization.k8s.io", "version": "v1", "kind": "Role"}]);
        assert_eq!(role["x-kubernetes-group-version-kind"], kind);
        let selector = component("meta.v1.LabelSelector").expect("the table has selectors");
        assert_eq!(selector["x-kubernetes-map-type"], json!("atomic"));
    }

    #[test]
    fn the_components_of_a_type_leave_no_reference_open() {
        let components = components_for(&["core.v1.Pod", "apiextensions.v1.CustomResourceDefinition"]);
        let text = Value::Object(components.clone()).to_string();
        for reference in text.split("#/components/schemas/").skip(1) {
            let name = reference.split('"').next().unwrap_or_default();
            assert!(components.contains_key(name), "{name}");
        }
        assert!(components.len() > 100);
    }

    #[test]
    fn a_group_lists_its_kinds() {
        let types = top_level_types("apps.v1");
        assert!(types.contains(&"apps.v1.Deployment") && types.contains(&"apps.v1.DeploymentList"));
        assert!(!types.contains(&"apps.v1.DeploymentSpec"));
    }
}
