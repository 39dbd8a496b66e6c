//! Devices that Pods ask for.

pub mod resource_claim;

use crate::resources::described::{Described, PLAIN};
use crate::resources::print::{AGE, NAME, text, text_or};
use pintle_meta::object;

pub const DEVICE_CLASS: Described =
    Described { generations: true, returns_deleted: true, printed: Some(&[NAME, AGE]), ..PLAIN };

pub const RESOURCE_CLAIM_TEMPLATE: Described =
    Described { returns_deleted: true, immutable: &[&["spec"]], printed: Some(&[NAME, AGE]), ..PLAIN };

pub const RESOURCE_SLICE: Described = Described {
    generations: true,
    returns_deleted: true,
    immutable: &[&["spec", "nodeName"], &["spec", "driver"], &["spec", "pool", "name"]],
    selectable: &["spec.nodeName", "spec.driver"],
    printed: Some(&[
        NAME,
        text("Node", "resource.v1.ResourceSliceSpec.nodeName", |slice, _| {
            text_or(slice, &["spec", "nodeName"], "<unset>")
        }),
        text("Driver", "resource.v1.ResourceSliceSpec.driver", |slice, _| {
            object::text(slice, &["spec", "driver"]).into()
        }),
        text("Pool", "resource.v1.ResourcePool.name", |slice, _| object::text(slice, &["spec", "pool", "name"]).into()),
        AGE,
    ]),
    ..PLAIN
};
