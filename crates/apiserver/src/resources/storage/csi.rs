//! Drivers of storage, where they run and how much room they have.

use crate::resources::described::{Described, PLAIN};
use crate::resources::print::{AGE, NAME, UNSET, boolean, integer, length, text};
use pintle_meta::object;
use serde_json::Value;

pub const CSI_DRIVER: Described = Described {
    insists_on_version: true,
    returns_deleted: true,
    immutable: &[&["spec", "attachRequired"], &["spec", "volumeLifecycleModes"]],
    printed: Some(&[
        NAME,
        boolean("AttachRequired", "storage.v1.CSIDriverSpec.attachRequired", |d, _| {
            object::flag(d, &["spec", "attachRequired"]).into()
        }),
        boolean("PodInfoOnMount", "storage.v1.CSIDriverSpec.podInfoOnMount", |d, _| {
            object::flag(d, &["spec", "podInfoOnMount"]).into()
        }),
        boolean("StorageCapacity", "storage.v1.CSIDriverSpec.storageCapacity", |d, _| {
            object::flag(d, &["spec", "storageCapacity"]).into()
        }),
        text("TokenRequests", "storage.v1.CSIDriverSpec.tokenRequests", |driver, _| {
            joined(driver, &["spec", "tokenRequests"], |request| object::text(request, &["audience"]), UNSET)
        }),
        boolean("RequiresRepublish", "storage.v1.CSIDriverSpec.requiresRepublish", |d, _| {
            object::flag(d, &["spec", "requiresRepublish"]).into()
        }),
        text("Modes", "storage.v1.CSIDriverSpec.volumeLifecycleModes", |driver, _| {
            joined(driver, &["spec", "volumeLifecycleModes"], |mode| mode.as_str().unwrap_or_default(), "<none>")
        }),
        AGE,
    ]),
    ..PLAIN
};

pub const CSI_NODE: Described = Described {
    insists_on_version: true,
    returns_deleted: true,
    printed: Some(&[NAME, integer("Drivers", "", |node, _| length(node, &["spec", "drivers"])), AGE]),
    ..PLAIN
};

pub const CSI_STORAGE_CAPACITY: Described = Described {
    insists_on_version: true,
    immutable: &[&["nodeTopology"], &["storageClassName"]],
    printed: Some(&[
        NAME,
        text("StorageClassName", "storage.v1.CSIStorageCapacity.storageClassName", |c, _| {
            object::text(c, &["storageClassName"]).into()
        }),
        text("Capacity", "storage.v1.CSIStorageCapacity.capacity", |c, _| match object::text(c, &["capacity"]) {
            "" => UNSET.into(),
            amount => amount.into(),
        }),
    ]),
    ..PLAIN
};

fn joined(object: &Value, path: &[&str], word: fn(&Value) -> &str, absent: &str) -> Value {
    let all: Vec<&str> = object::list(object, path).iter().map(word).collect();
    if all.is_empty() { absent.into() } else { all.join(",").into() }
}
