//! Volumes on their way to a node, and the sorts of what may change in them.

use crate::resources::described::{Described, PLAIN};
use crate::resources::print::{AGE, NAME, boolean, name_like, text};
use pintle_meta::object;

pub const VOLUME_ATTACHMENT: Described = Described {
    insists_on_version: true,
    returns_deleted: true,
    immutable: &[&["spec"]],
    printed: Some(&[
        NAME,
        name_like(text("Attacher", "storage.v1.VolumeAttachmentSpec.attacher", |a, _| {
            object::text(a, &["spec", "attacher"]).into()
        })),
        text("PV", "storage.v1.VolumeAttachmentSource.persistentVolumeName", |a, _| {
            object::text(a, &["spec", "source", "persistentVolumeName"]).into()
        }),
        text("Node", "storage.v1.VolumeAttachmentSpec.nodeName", |a, _| object::text(a, &["spec", "nodeName"]).into()),
        boolean("Attached", "storage.v1.VolumeAttachmentStatus.attached", |a, _| {
            object::flag(a, &["status", "attached"]).into()
        }),
        AGE,
    ]),
    ..PLAIN
};

pub const VOLUME_ATTRIBUTES_CLASS: Described = Described {
    returns_deleted: true,
    immutable: &[&["driverName"], &["parameters"]],
    printed: Some(&[
        NAME,
        text("DriverName", "storage.v1.VolumeAttributesClass.driverName", |c, _| {
            object::text(c, &["driverName"]).into()
        }),
        AGE,
    ]),
    ..PLAIN
};
