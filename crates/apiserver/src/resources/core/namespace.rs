//! A namespace: finalizers of its own in its spec, and a phase that follows its deletion.

use crate::resources::print::{AGE, NAME, text};
use crate::strategy::{Printed, Strategy};
use pintle_meta::{object, rules};
use serde_json::{Value, json};

const COLUMNS: &[Printed] = &[
    NAME,
    text("Status", "The status of the namespace", |namespace, _| object::text(namespace, &["status", "phase"]).into()),
    AGE,
];
/// Every namespace has its name as a label, so that selectors can choose it.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

pub struct Namespace;

impl Strategy for Namespace {
    fn default(&self, namespace: &mut Value) {
        let name = object::name(namespace).to_owned();
        if !name.is_empty() {
            object::set(namespace, &["metadata", "labels", NAME_LABEL], name);
        }
    }

    fn prepare_create(&self, namespace: &mut Value) {
        let mut finalizers: Vec<Value> = object::list(namespace, &["spec", "finalizers"]).to_vec();
        if !finalizers.iter().any(|f| f == "kubernetes") {
            finalizers.push("kubernetes".into());
        }
        object::set(namespace, &["spec", "finalizers"], finalizers);
        object::set(namespace, &["status"], json!({"phase": "Active"}));
    }

    fn prepare_update(&self, namespace: &mut Value, old: &Value, subresource: &str) {
        if subresource != "finalize" {
            let kept = object::at(old, &["spec", "finalizers"]).cloned();
            match kept {
                Some(finalizers) => object::set(namespace, &["spec", "finalizers"], finalizers),
                None => drop(object::remove(namespace, &["spec", "finalizers"])),
            }
        }
    }

    fn name_problems(&self, name: &str) -> rules::Problems {
        rules::dns_label(name)
    }

    fn selectable_fields(&self) -> &'static [&'static str] {
        &["status.phase"]
    }

    fn is_deletable(&self, namespace: &Value) -> bool {
        object::list(namespace, &["spec", "finalizers"]).is_empty()
    }

    fn waits_for_contents(&self) -> bool {
        true
    }

    fn mark_deleted(&self, namespace: &mut Value) {
        object::set(namespace, &["status", "phase"], "Terminating");
    }

    fn returns_deleted(&self) -> bool {
        true
    }

    fn printed(&self) -> &'static [Printed] {
        COLUMNS
    }
}
