//! A PersistentVolume: a piece of storage that outlives the Pods that use it.

use crate::resources::check::{self, same};
use crate::resources::print::{AGE, NAME, UNSET, access_modes, text, text_or, wide};
use crate::strategy::{Printed, Strategy};
use pintle_meta::field::{Error, Errors, Path};
use pintle_meta::object;
use serde_json::{Map, Value, json};

const CLASS: &str = "volume.beta.kubernetes.io/storage-class";
pub const MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
/// Every other field of the spec is a source.
const NOT_SOURCES: [&str; 9] = [
    "accessModes",
    "capacity",
    "claimRef",
    "mountOptions",
    "nodeAffinity",
    "persistentVolumeReclaimPolicy",
    "storageClassName",
    "volumeAttributesClassName",
    "volumeMode",
];

const COLUMNS: &[Printed] = &[
    NAME,
    text("Capacity", "core.v1.PersistentVolumeSpec.capacity", |volume, _| {
        object::text(volume, &["spec", "capacity", "storage"]).into()
    }),
    text("Access Modes", "core.v1.PersistentVolumeSpec.accessModes", |volume, _| {
        access_modes(object::list(volume, &["spec", "accessModes"]))
    }),
    text("Reclaim Policy", "core.v1.PersistentVolumeSpec.persistentVolumeReclaimPolicy", |volume, _| {
        object::text(volume, &["spec", "persistentVolumeReclaimPolicy"]).into()
    }),
    text("Status", "core.v1.PersistentVolumeStatus.phase", |volume, _| phase(volume)),
    text("Claim", "core.v1.PersistentVolumeSpec.claimRef", |volume, _| {
        match object::at(volume, &["spec", "claimRef"]) {
            Some(claim) if claim.is_object() => {
                format!("{}/{}", object::text(claim, &["namespace"]), object::text(claim, &["name"])).into()
            }
            _ => "".into(),
        }
    }),
    text("StorageClass", "StorageClass of the pv", |volume, _| storage_class(volume)),
    text("VolumeAttributesClass", "VolumeAttributesClass of the pv", |volume, _| {
        text_or(volume, &["spec", "volumeAttributesClassName"], UNSET)
    }),
    text("Reason", "core.v1.PersistentVolumeStatus.reason", |volume, _| {
        object::text(volume, &["status", "reason"]).into()
    }),
    AGE,
    wide("VolumeMode", "core.v1.PersistentVolumeSpec.volumeMode", |volume, _| {
        text_or(volume, &["spec", "volumeMode"], UNSET)
    }),
];

pub struct PersistentVolume;

impl Strategy for PersistentVolume {
    fn prepare_create(&self, volume: &mut Value) {
        let now = object::text(volume, &["metadata", "creationTimestamp"]).to_owned();
        object::set(volume, &["status"], json!({"phase": "Pending", "lastPhaseTransitionTime": now}));
    }

    fn prepare_status(&self, volume: &mut Value, old: &Value) {
        // Who changes the phase need not say when.
        let time = |value: &Value| object::text(value, &["status", "lastPhaseTransitionTime"]).to_owned();
        let phase = |value: &Value| object::text(value, &["status", "phase"]).to_owned();
        if phase(volume) == phase(old) && time(volume).is_empty() && !time(old).is_empty() {
            object::set(volume, &["status", "lastPhaseTransitionTime"], time(old));
        }
    }

    fn validate(&self, volume: &Value, _old: Option<&Value>, errors: &mut Errors) {
        let spec = Path::new("spec");
        let capacity = object::at(volume, &["spec", "capacity"]).and_then(Value::as_object);
        if let Some(capacity) = capacity.filter(|c| !c.is_empty())
            && (capacity.len() != 1 || !capacity.contains_key("storage"))
        {
            let shown = Value::Object(capacity.clone());
            errors.push(Error::not_supported(&spec.child("capacity"), shown, &["storage"]));
        }
        check_modes(volume.get("spec").unwrap_or(&Value::Null), &spec, errors);
        let sources = sources(volume);
        if sources.is_empty() {
            errors.push(Error::required(&spec, "must specify a volume type"));
        }
        for key in sources.keys().skip(1) {
            errors.push(Error::forbidden(&spec.child(key), "may not specify more than 1 volume type"));
        }
        let path = object::text(volume, &["spec", "hostPath", "path"]);
        let recycles = object::text(volume, &["spec", "persistentVolumeReclaimPolicy"]) == "Recycle";
        if path == "/" && recycles {
            let detail = "may not be 'recycle' for a hostPath mount of '/'";
            errors.push(Error::forbidden(&spec.child("persistentVolumeReclaimPolicy"), detail));
        }
        if sources.contains_key("local") && object::at(volume, &["spec", "nodeAffinity"]).is_none() {
            errors.push(Error::required(&spec.child("nodeAffinity"), "Local volume requires node affinity"));
        }
    }

    fn validate_update(&self, volume: &Value, old: &Value, _subresource: &str, errors: &mut Errors) {
        if !same(&Value::Object(sources(volume)), &Value::Object(sources(old))) {
            let here = Path::new("spec").child("persistentvolumesource");
            errors.push(Error::forbidden(&here, "spec.persistentvolumesource is immutable after creation"));
        }
        check::immutable(volume, old, &["spec", "volumeMode"], errors);
    }

    fn returns_deleted(&self) -> bool {
        true
    }

    fn printed(&self) -> &'static [Printed] {
        COLUMNS
    }
}

/// What the volume is made of; of a good one there is exactly one.
fn sources(volume: &Value) -> Map<String, Value> {
    let spec = volume.get("spec").and_then(Value::as_object).into_iter().flatten();
    spec.filter(|(key, value)| !NOT_SOURCES.contains(&key.as_str()) && !value.is_null())
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

/// Access modes of a volume, or of a claim.
pub fn check_modes(spec: &Value, path: &Path, errors: &mut Errors) {
    let modes = object::list(spec, &["accessModes"]);
    let here = path.child("accessModes");
    for mode in modes.iter().filter_map(Value::as_str).filter(|mode| !MODES.contains(mode)) {
        errors.push(Error::not_supported(&here, mode, &MODES));
    }
    if modes.len() > 1 && modes.iter().any(|mode| mode == "ReadWriteOncePod") {
        errors.push(Error::forbidden(&here, "may not use ReadWriteOncePod with other access modes"));
    }
}

/// What it is doing, or that it is going.
pub fn phase(object: &Value) -> Value {
    let phase = object::text(object, &["status", "phase"]);
    if object::is_being_deleted(object) { "Terminating".into() } else { phase.into() }
}

/// The class of a volume or a claim, also as it was said before it was a field.
pub fn storage_class(object: &Value) -> Value {
    match object::text(object, &["metadata", "annotations", CLASS]) {
        "" => object::text(object, &["spec", "storageClassName"]).into(),
        class => class.into(),
    }
}
