//! A ControllerRevision: a template as it once was, to go back to.

use crate::resources::described::{Described, PLAIN};
use crate::resources::print::{AGE, NAME, NONE, count, text};
use pintle_meta::object;

pub const CONTROLLER_REVISION: Described = Described {
    immutable: &[&["data"]],
    printed: Some(&[
        NAME,
        text("Controller", "", |revision, _| {
            let owners = object::list(revision, &["metadata", "ownerReferences"]);
            owners.iter().find(|o| object::flag(o, &["controller"])).map_or_else(
                || NONE.into(),
                |owner| {
                    let (group, _) = pintle_meta::names::split_api_version(object::text(owner, &["apiVersion"]));
                    let kind = object::text(owner, &["kind"]).to_lowercase();
                    let kind = if group.is_empty() { kind } else { format!("{kind}.{group}") };
                    format!("{kind}/{}", object::text(owner, &["name"])).into()
                },
            )
        }),
        text("Revision", "apps.v1.ControllerRevision.revision", |revision, _| count(revision, &["revision"])),
        AGE,
    ]),
    ..PLAIN
};
