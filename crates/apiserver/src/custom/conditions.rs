//! What the status of a definition says: which names it has, whether it is served, and how far its deletion has come.

use super::names::Conflict;
use crate::resources::apiextensions::approval::Approval;
use crate::resources::apiextensions::{approval, has_sound_certificates};
use pintle_meta::field::{Error, Errors, Path};
use pintle_meta::object;
use pintle_schema::structural;
use serde_json::{Value, json};

/// One condition, without its time.
pub(super) struct Condition<'a> {
    pub(super) kind: &'a str,
    pub(super) status: &'a str,
    pub(super) reason: &'a str,
    pub(super) message: &'a str,
}

/// Sets a condition; its time is that of its last change from true to false or back.
pub(super) fn set(definition: &mut Value, condition: &Condition<'_>, now: &str) {
    let Condition { kind, status, reason, message } = condition;
    let mut conditions = object::list(definition, &["status", "conditions"]).to_vec();
    match conditions.iter_mut().find(|c| c["type"] == *kind) {
        None => conditions.push(json!({"type": kind, "status": status, "lastTransitionTime": now,
            "reason": reason, "message": message})),
        Some(known) => {
            if known["status"] != *status {
                known["lastTransitionTime"] = now.into();
            }
            (known["status"], known["reason"], known["message"]) =
                ((*status).into(), (*reason).into(), (*message).into());
        }
    }
    object::set(definition, &["status", "conditions"], conditions);
}

fn remove(definition: &mut Value, kind: &str) {
    let mut conditions = object::list(definition, &["status", "conditions"]).to_vec();
    if conditions.iter().any(|c| c["type"] == kind) {
        conditions.retain(|c| c["type"] != kind);
        object::set(definition, &["status", "conditions"], conditions);
    }
}

fn find<'a>(definition: &'a Value, kind: &str) -> Option<&'a Value> {
    object::list(definition, &["status", "conditions"]).iter().find(|c| c["type"] == kind)
}

pub(super) fn is_true(definition: &Value, kind: &str) -> bool {
    find(definition, kind).is_some_and(|condition| condition["status"] == "True")
}

/// Why a condition is as it is.
pub(super) fn reason<'a>(definition: &'a Value, kind: &str) -> &'a str {
    find(definition, kind).map(|condition| object::text(condition, &["reason"])).unwrap_or_default()
}

/// A definition that is not going, with the status that it should have.
pub(super) fn settled(definition: &Value, conflict: Option<&Conflict>, now: &str) -> Value {
    let mut settled = definition.clone();
    let (status, reason, message) = match conflict {
        None => ("True", "NoConflicts", "no conflicts found"),
        Some(conflict) => ("False", conflict.reason, conflict.message.as_str()),
    };
    set(&mut settled, &Condition { kind: "NamesAccepted", status, reason, message }, now);
    // Once established, a definition stays so.
    if !is_true(definition, "Established") {
        let (status, reason, message) = match conflict {
            Some(_) => ("False", "NotAccepted", "not all names are accepted"),
            None if !has_sound_certificates(definition) => {
                ("False", "InvalidCABundle", "The conversion webhook CABundle is invalid")
            }
            None => ("True", "InitialNamesAccepted", "the initial names have been accepted"),
        };
        set(&mut settled, &Condition { kind: "Established", status, reason, message }, now);
    }
    if let Some(approval) = Approval::of(definition) {
        let (status, reason, message) = approval.condition(definition);
        set(&mut settled, &Condition { kind: approval::CONDITION, status, reason, message: &message }, now);
    }
    match violations(definition) {
        None => remove(&mut settled, NON_STRUCTURAL),
        Some((status, reason, message)) => {
            set(&mut settled, &Condition { kind: NON_STRUCTURAL, status, reason, message: &message }, now);
        }
    }
    let accepted = conflict.map_or_else(|| definition["spec"]["names"].clone(), |c| c.accepted.clone());
    object::set(&mut settled, &["status", "acceptedNames"], accepted);
    settled
}

const NON_STRUCTURAL: &str = "NonStructuralSchema";

/// What the schemas of a definition lack that was stored before it was asked for.
fn violations(definition: &Value) -> Option<(&'static str, &'static str, String)> {
    let path = Path::new("spec");
    let mut errors = Errors::new();
    if object::flag(definition, &["spec", "preserveUnknownFields"]) {
        errors.push(Error::invalid(&path.child("preserveUnknownFields"), true, "must be false"));
    }
    for (index, version) in object::list(definition, &["spec", "versions"]).iter().enumerate() {
        let Some(schema) = object::at(version, &["schema", "openAPIV3Schema"]) else { continue };
        let here = path.child("versions").index(index).child("schema").child("openAPIV3Schema");
        match structural::violations(schema, &here) {
            Ok(found) => errors.extend(found),
            Err(why) => {
                let name = object::text(version, &["name"]);
                let message = format!("failed to check validation schema for version {name}: {why}");
                return Some(("Unknown", "StructuralError", message));
            }
        }
    }
    let all: Vec<String> = errors.iter().map(ToString::to_string).collect();
    match all.as_slice() {
        [] => None,
        [only] => Some(("True", "Violations", only.clone())),
        all => Some(("True", "Violations", format!("[{}]", all.join(", ")))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(schema: &Value) -> Value {
        json!({"metadata": {"annotations": {}}, "spec": {"group": "harbour.example.com", "names": {"plural": "ships", "kind": "Ship"},
            "versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}}]}})
    }

    fn told(definition: &Value) -> Vec<String> {
        let conditions = object::list(definition, &["status", "conditions"]).iter();
        conditions.map(|c| format!("{}={} {}", c["type"], c["status"], c["reason"]).replace('"', "")).collect()
    }

    #[test]
    fn a_definition_says_whether_it_is_served_and_since_when() {
        let sound = definition(&json!({"type": "object"}));
        let first = settled(&sound, None, "1");
        assert_eq!(told(&first), ["NamesAccepted=True NoConflicts", "Established=True InitialNamesAccepted"]);
        assert_eq!(first["status"]["acceptedNames"], first["spec"]["names"]);
        assert_eq!(settled(&first, None, "2"), first, "nothing has changed");
        let conflict = Conflict {
            reason: "KindConflict",
            message: "\"Ship\" is already in use".into(),
            accepted: json!({"kind": ""}),
        };
        let taken = settled(&first, Some(&conflict), "3");
        assert_eq!(told(&taken), ["NamesAccepted=False KindConflict", "Established=True InitialNamesAccepted"]);
        let times = |definition: &Value| {
            let conditions = object::list(definition, &["status", "conditions"]).iter();
            conditions.map(|c| object::text(c, &["lastTransitionTime"]).to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(times(&taken), ["3", "1"]);
        assert_eq!(
            told(&settled(&sound, Some(&conflict), "1")),
            ["NamesAccepted=False KindConflict", "Established=False NotAccepted"]
        );
    }

    #[test]
    fn a_definition_with_unreadable_certificates_is_not_established() {
        let mut wrong = definition(&json!({"type": "object"}));
        object::set(&mut wrong, &["spec", "conversion", "webhook", "clientConfig", "caBundle"], "Zm9v");
        assert_eq!(
            told(&settled(&wrong, None, "1")),
            ["NamesAccepted=True NoConflicts", "Established=False InvalidCABundle"]
        );
    }

    #[test]
    fn a_schema_from_before_the_checks_is_told_of() {
        let loose = settled(&definition(&json!({"type": "object", "properties": {"spec": {}}})), None, "1");
        assert_eq!(told(&loose)[2], "NonStructuralSchema=True Violations");
        assert_eq!(
            object::text(&loose["status"]["conditions"][2], &["message"]),
            "spec.versions[0].schema.openAPIV3Schema.properties[spec].type: Required value: must not be empty for specified object fields"
        );
        let mut repaired = loose;
        repaired["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] = json!({"type": "object"});
        assert_eq!(told(&settled(&repaired, None, "2")).len(), 2);
        let odd = settled(&definition(&json!({"type": "object", "$ref": "x"})), None, "1");
        assert_eq!(told(&odd)[2], "NonStructuralSchema=Unknown StructuralError");
    }
}
