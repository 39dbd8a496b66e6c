//! A Pod from a file, read, completed and checked as one that comes over the wire.

use crate::catalogue::Catalogue;
use crate::incoming::{self, FieldValidation};
use crate::notes::Notes;
use crate::parse;
use pintle_meta::{Status, object};
use serde_json::Value;

/// From YAML or JSON. The error names what is wrong.
pub fn pod(text: &str) -> Result<Value, String> {
    let catalogue = Catalogue::default();
    let resource = catalogue.get("", "v1", "pods").ok_or("Pods are not served")?;
    let parsed = parse::yaml(text.as_bytes())?;
    if !parsed.value.is_object() {
        return Err("it is not an object".to_owned());
    }
    let said = |status: Status| status.message;
    let mut pod = incoming::accept(resource, parsed, FieldValidation::Ignore, &Notes::new()).map_err(said)?;
    let mut errors = Vec::new();
    resource.check(&pod, None, &mut errors);
    match errors.is_empty() {
        true => {
            object::remove(&mut pod, &["status"]);
            Ok(pod)
        }
        false => Err(said(Status::invalid("", "Pod", object::name(&pod), &errors))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_in_a_file_is_completed_and_a_wrong_one_is_named() {
        let read = |text: &str| pod(text);
        let right = read(
            "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: c, image: 'localhost/i:1'}]}}",
        );
        let right = right.unwrap();
        assert_eq!(right["spec"]["restartPolicy"], "Always");
        assert_eq!(right["spec"]["containers"][0]["imagePullPolicy"], "IfNotPresent");
        let wrong = read("{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: []}}").unwrap_err();
        assert!(wrong.contains("spec.containers: Required value"), "{wrong}");
        let other = read("{apiVersion: v1, kind: Secret, metadata: {name: a}}").unwrap_err();
        assert!(other.contains("Secret"), "{other}");
        assert!(read("a: [").is_err() && read("[]").is_err() && read("").is_err());
    }
}
