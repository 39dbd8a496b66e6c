//! A StorageClass: how volumes of a sort are made.

use crate::resources::check::{self, same};
use crate::resources::print::{AGE, name_like, text};
use crate::strategy::{Printed, Strategy};
use pintle_meta::field::{Error, Errors, Path};
use pintle_meta::object;
use serde_json::Value;

const DEFAULT: &str = "storageclass.kubernetes.io/is-default-class";

const COLUMNS: &[Printed] = &[
    name_like(text("Name", "meta.v1.ObjectMeta.name", |class, _| {
        let default = object::text(class, &["metadata", "annotations", DEFAULT]) == "true";
        if default { format!("{} (default)", object::name(class)).into() } else { object::name(class).into() }
    })),
    text("Provisioner", "storage.v1.StorageClass.provisioner", |class, _| object::text(class, &["provisioner"]).into()),
    text("ReclaimPolicy", "storage.v1.StorageClass.reclaimPolicy", |class, _| {
        object::text(class, &["reclaimPolicy"]).into()
    }),
    text("VolumeBindingMode", "storage.v1.StorageClass.volumeBindingMode", |class, _| {
        object::text(class, &["volumeBindingMode"]).into()
    }),
    text("AllowVolumeExpansion", "storage.v1.StorageClass.allowVolumeExpansion", |class, _| {
        object::flag(class, &["allowVolumeExpansion"]).into()
    }),
    AGE,
];

pub struct StorageClass;

impl Strategy for StorageClass {
    fn validate_update(&self, class: &Value, old: &Value, _subresource: &str, errors: &mut Errors) {
        let at = |value: &Value, key: &str| value.get(key).cloned().unwrap_or_default();
        for key in ["parameters", "provisioner", "reclaimPolicy"] {
            if !same(&at(class, key), &at(old, key)) {
                errors.push(Error::forbidden(&Path::new(key), format!("updates to {key} are forbidden.")));
            }
        }
        check::immutable(class, old, &["volumeBindingMode"], errors);
    }

    fn returns_deleted(&self) -> bool {
        true
    }

    fn printed(&self) -> &'static [Printed] {
        COLUMNS
    }
}
