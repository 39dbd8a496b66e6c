//! A PersistentVolumeClaim: storage that a user asks for.

use super::persistent_volume::{check_modes, phase, storage_class};
use crate::resources::check::{self, same};
use crate::resources::print::{AGE, NAME, UNSET, access_modes, text, text_or, wide};
use crate::strategy::{Printed, Strategy};
use pintle_meta::field::{Error, Errors, Path};
use pintle_meta::object;
use pintle_meta::quantity::Quantity;
use serde_json::{Value, json};

const IMMUTABLE: &str =
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";

const COLUMNS: &[Printed] = &[
    NAME,
    text("Status", "core.v1.PersistentVolumeClaimStatus.phase", |claim, _| phase(claim)),
    text("Volume", "core.v1.PersistentVolumeClaimSpec.volumeName", |claim, _| {
        object::text(claim, &["spec", "volumeName"]).into()
    }),
    text("Capacity", "core.v1.PersistentVolumeClaimStatus.capacity", |claim, _| {
        if is_bound(claim) { object::text(claim, &["status", "capacity", "storage"]).into() } else { "".into() }
    }),
    text("Access Modes", "core.v1.PersistentVolumeClaimStatus.accessModes", |claim, _| {
        if is_bound(claim) { access_modes(object::list(claim, &["status", "accessModes"])) } else { "".into() }
    }),
    text("StorageClass", "StorageClass of the pvc", |claim, _| storage_class(claim)),
    text("VolumeAttributesClass", "VolumeAttributesClass of the pvc", |claim, _| {
        text_or(claim, &["spec", "volumeAttributesClassName"], UNSET)
    }),
    AGE,
    wide("VolumeMode", "core.v1.PersistentVolumeClaimSpec.volumeMode", |claim, _| {
        text_or(claim, &["spec", "volumeMode"], UNSET)
    }),
];

pub struct PersistentVolumeClaim;

impl Strategy for PersistentVolumeClaim {
    fn prepare_create(&self, claim: &mut Value) {
        object::set(claim, &["status"], json!({"phase": "Pending"}));
    }

    fn validate_update(&self, claim: &Value, old: &Value, _subresource: &str, errors: &mut Errors) {
        let path = Path::new("spec");
        let mut spec = claim.get("spec").cloned().unwrap_or_default();
        let was = old.get("spec").cloned().unwrap_or_default();
        // Binding is what fills these in, once.
        for key in ["volumeName", "storageClassName"] {
            if object::text(&was, &[key]).is_empty() {
                put_back(&mut spec, &was, &[key]);
            }
        }
        if object::text(old, &["status", "phase"]) == "Bound" {
            check_growth(&spec, &was, &path, errors);
            put_back(&mut spec, &was, &["resources", "requests"]);
            put_back(&mut spec, &was, &["volumeAttributesClassName"]);
        }
        if !same(&spec, &was) {
            errors.push(Error::forbidden(&path, IMMUTABLE));
        }
    }

    fn returns_deleted(&self) -> bool {
        true
    }

    fn printed(&self) -> &'static [Printed] {
        COLUMNS
    }
}

fn is_bound(claim: &Value) -> bool {
    !object::text(claim, &["spec", "volumeName"]).is_empty()
}

fn put_back(spec: &mut Value, was: &Value, path: &[&str]) {
    match object::at(was, path) {
        Some(value) => object::set(spec, path, value.clone()),
        None => drop(object::remove(spec, path)),
    }
}

/// Storage grows; it does not shrink below what is there.
fn check_growth(spec: &Value, was: &Value, path: &Path, errors: &mut Errors) {
    let size = |spec: &Value| Quantity::parse(object::text(spec, &["resources", "requests", "storage"])).ok();
    if let (Some(now), Some(before)) = (size(spec), size(was))
        && now < before
    {
        let here = path.child("resources").child("requests").child("storage");
        errors.push(Error::forbidden(&here, "field can not be less than status.capacity"));
    }
}

/// Also the spec of a claim in a template.
pub fn check_spec(spec: &Value, path: &Path, errors: &mut Errors) {
    if object::list(spec, &["accessModes"]).is_empty() {
        errors.push(Error::required(&path.child("accessModes"), "at least 1 access mode is required"));
    }
    check_modes(spec, path, errors);
    let here = path.child("resources").key("storage");
    match object::text(spec, &["resources", "requests", "storage"]) {
        "" => errors.push(Error::required(&here, "")),
        size => {
            if Quantity::parse(size).is_ok_and(|q| q.is_negative() || q.is_zero()) {
                errors.push(Error::invalid(&here, size, check::ABOVE_ZERO));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_grows_and_does_nothing_else() {
        let claim = |size: &str, mode: &str| json!({"spec": {"accessModes": [mode], "volumeName": "v", "resources": {"requests": {"storage": size}}}, "status": {"phase": "Bound"}});
        let old = claim("2Gi", "ReadWriteOnce");
        for (new, refused) in
            [(claim("3Gi", "ReadWriteOnce"), 0), (claim("1Gi", "ReadWriteOnce"), 1), (claim("2Gi", "ReadWriteMany"), 1)]
        {
            let mut errors = Errors::new();
            PersistentVolumeClaim.validate_update(&new, &old, "", &mut errors);
            assert_eq!(errors.len(), refused);
        }
    }
}
