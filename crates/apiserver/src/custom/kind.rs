//! A custom kind's strategy: its schema fills in and refuses, its definition says which columns to print.

use super::{Source, scale};
use crate::jsonpath::JsonPath;
use crate::serve::descriptions::describe;
use crate::strategy::{AGE, ColumnDefinition, NAME, ScalePaths, Strategy};
use crate::table;
use jiff::Timestamp;
use pintle_meta::{field, object, rules};
use pintle_schema::validate;
use serde_json::{Value, json};
use std::sync::{Arc, OnceLock};

pub struct CustomKind {
    source: Arc<Source>,
    printed: OnceLock<Printed>,
}

/// What a definition says about showing its objects.
struct Printed {
    columns: Vec<(ColumnDefinition, Option<JsonPath>)>,
    scale: Option<ScalePaths>,
    fields: Vec<String>,
}

impl CustomKind {
    pub fn new(source: Arc<Source>) -> Self {
        CustomKind { source, printed: OnceLock::new() }
    }

    fn printed(&self) -> &Printed {
        self.printed.get_or_init(|| Printed::of(&self.source.parts().0))
    }
}

impl Printed {
    fn of(version: &Value) -> Self {
        let declared = object::list(version, &["additionalPrinterColumns"]);
        let mut columns = vec![(ColumnDefinition::from(&NAME), JsonPath::parse(".metadata.name"))];
        columns.extend(declared.iter().map(|c| {
            let text = |key: &str| object::text(c, &[key]).to_owned();
            let definition = ColumnDefinition {
                name: text("name"),
                kind: text("type"),
                format: text("format"),
                priority: object::integer(c, &["priority"]).unwrap_or(0),
                about: match text("description") {
                    given if given.is_empty() => {
                        format!("Custom resource definition column (in JSONPath format): {}", text("jsonPath"))
                    }
                    given => given,
                },
            };
            (definition, JsonPath::parse(&text("jsonPath")))
        }));
        if declared.is_empty() {
            columns.push((
                ColumnDefinition { kind: "date".into(), ..ColumnDefinition::from(&AGE) },
                JsonPath::parse(".metadata.creationTimestamp"),
            ));
        }
        let scale = object::at(version, &["subresources", "scale"]).map(|scale| {
            let path = |key: &str| object::text(scale, &[key]).trim_start_matches('.').to_owned();
            ScalePaths {
                replicas: path("specReplicasPath"),
                status_replicas: path("statusReplicasPath"),
                selector: Some(path("labelSelectorPath")).filter(|p| !p.is_empty()),
            }
        });
        let declared = object::list(version, &["selectableFields"]).iter();
        let fields =
            declared.map(|field| object::text(field, &["jsonPath"]).trim_start_matches('.').to_owned()).collect();
        Printed { columns, scale, fields }
    }
}

impl Strategy for CustomKind {
    /// Who creates an object does not say its status, but its definition may.
    fn prepare_create(&self, value: &mut Value) {
        let schema = self.source.schema();
        if schema.declared("status").is_some_and(|status| status.root().default.is_some()) {
            // Defaults that do not fit into the object are refused where it came in.
            let _ = pintle_schema::default::default(schema, value);
        }
    }

    fn validate(&self, value: &Value, old: Option<&Value>, errors: &mut field::Errors) {
        errors.extend(validate::validate(self.source.schema(), value, old));
        errors.extend(self.printed().scale.iter().flat_map(|paths| scale::check(paths, value, true)));
    }

    fn validate_status(&self, value: &Value, old: &Value, errors: &mut field::Errors) {
        errors.extend(validate::validate_status(self.source.schema(), value, old));
        errors.extend(self.printed().scale.iter().flat_map(|paths| scale::check(paths, value, false)));
    }

    fn warnings(&self, value: &Value, old: Option<&Value>) -> Vec<String> {
        let had: Vec<&str> = old.map(|old| object::finalizers(old).collect()).unwrap_or_default();
        let mut added: Vec<&str> = object::finalizers(value).filter(|finalizer| !had.contains(finalizer)).collect();
        added.sort_unstable();
        added.dedup();
        added.into_iter().flat_map(finalizer_warnings).collect()
    }

    fn counts_generations(&self) -> bool {
        true
    }

    fn updates_unconditionally(&self) -> bool {
        false
    }

    fn columns(&self) -> Vec<ColumnDefinition> {
        self.printed().columns.iter().map(|(definition, _)| definition.clone()).collect()
    }

    fn cells(&self, value: &Value, now: Timestamp) -> Vec<Value> {
        self.printed()
            .columns
            .iter()
            .map(|(column, path)| {
                let found = path.as_ref().map(|p| p.find(value)).unwrap_or_default();
                cell(column, &found, now)
            })
            .collect()
    }

    fn declared_fields(&self) -> &[String] {
        &self.printed().fields
    }

    fn unknown_field(&self, field: &str) -> String {
        format!("field label not supported: {field}")
    }

    fn scale(&self) -> Option<ScalePaths> {
        self.printed().scale.clone()
    }

    fn open_api(&self) -> Option<Value> {
        let mut schema = self.source.open_api();
        if !schema.is_object() {
            return None;
        }
        // What every object has, in the words of those that are built in.
        let about = |key: &str| describe(&format!("core.v1.ConfigMap.{key}"));
        for key in ["apiVersion", "kind"] {
            object::set(&mut schema, &["properties", key], json!({"type": "string", "description": about(key)}));
        }
        let metadata = "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
        // What stands beside a reference is not read: the reference goes into a list of its own.
        object::set(
            &mut schema,
            &["properties", "metadata"],
            json!({"allOf": [{"$ref": metadata}], "description": about("metadata")}),
        );
        Some(schema)
    }
}

/// A finalizer without a domain of its own may be somebody else's too.
fn finalizer_warnings(finalizer: &str) -> Vec<String> {
    const STANDARD: [&str; 3] = ["orphan", "foregroundDeletion", "kubernetes"];
    let mut remarks = rules::qualified_name(finalizer);
    if !finalizer.contains('/') && !STANDARD.contains(&finalizer) {
        let path = if finalizer.contains('.') { " including a path (/)" } else { "" };
        remarks.push(format!(
            "prefer a domain-qualified finalizer name{path} to avoid accidental conflicts with other finalizer writers"
        ));
    }
    remarks.into_iter().map(|remark| format!("metadata.finalizers: {finalizer:?}: {remark}")).collect()
}

/// What a path found, in the form of the column's type; null where it does not fit.
fn cell(column: &ColumnDefinition, found: &[&Value], now: Timestamp) -> Value {
    let Some(first) = found.first() else { return Value::Null };
    match column.kind.as_str() {
        "date" => first.as_str().map_or(Value::Null, |text| match text.parse::<Timestamp>() {
            Ok(_) => table::age(text, now).into(),
            Err(_) => "<invalid>".into(),
        }),
        "integer" => first.as_i64().map_or(Value::Null, Value::from),
        "number" => first.as_f64().map_or(Value::Null, Value::from),
        "boolean" => first.as_bool().map_or(Value::Null, Value::from),
        _ if found.len() == 1 => match first {
            Value::String(text) => text.clone().into(),
            other => other.to_string().into(),
        },
        _ => {
            let all: Vec<String> =
                found.iter().map(|v| v.as_str().map_or_else(|| v.to_string(), str::to_owned)).collect();
            all.join(" ").into()
        }
    }
}
