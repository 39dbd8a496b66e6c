//! Gives an object that could not be decoded what Kubernetes' own types would have in the places where it says nothing.
//!
//! To Go `null` is the zero value, and a required field may be left out where nobody checks it: any Go client writes
//! `"lastTransitionTime": null` for a time that was never set, and the server keeps it. The types here refuse that, and one such
//! object must not keep everybody from all others of its kind.

use serde_json::{Map, Value};

/// Go's zero time.
const NEVER: &str = "0001-01-01T00:00:00Z";

/// What a condition must have.
const OF_A_CONDITION: [(&str, &str); 5] =
    [("type", ""), ("status", ""), ("reason", ""), ("message", ""), ("lastTransitionTime", NEVER)];

/// The same JSON without nulls and with whole conditions; `None` if it is no JSON.
pub(crate) fn mended(text: &str) -> Option<String> {
    let mut value = serde_json::from_str(text).ok()?;
    mend(&mut value);
    Some(value.to_string())
}

fn mend(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            if let Some(Value::Array(conditions)) = fields.get_mut("conditions") {
                conditions.iter_mut().filter_map(Value::as_object_mut).for_each(complete);
            }
            fields.values_mut().for_each(mend);
        }
        Value::Array(items) => items.iter_mut().for_each(mend),
        _ => {}
    }
}

fn complete(condition: &mut Map<String, Value>) {
    condition.retain(|_, value| !value.is_null());
    for (field, zero) in OF_A_CONDITION {
        condition.entry(field).or_insert_with(|| zero.into());
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Service;

    use super::*;

    #[test]
    fn what_go_leaves_out_of_a_condition_is_its_zero_value() {
        let conditions = [
            r#"{"type":"A","status":"True","reason":"R","message":"m","lastTransitionTime":null}"#,
            r#"{"type":"A","status":"True"}"#,
            "{}",
        ];
        for condition in conditions {
            let text =
                format!(r#"{{"metadata":{{"name":"a","labels":null}},"status":{{"conditions":[{condition}]}}}}"#);
            assert!(serde_json::from_str::<Service>(&text).is_err(), "{text}");
            let service: Service = serde_json::from_str(&mended(&text).unwrap()).unwrap();
            let condition = service.status.unwrap().conditions.unwrap().remove(0);
            assert!(condition.last_transition_time.0.to_string().starts_with("0001-01-01T00:00:00"), "{text}");
        }
    }

    #[test]
    fn what_is_no_json_stays_an_error() {
        assert_eq!(mended("{"), None);
    }
}
