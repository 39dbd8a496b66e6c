//! How nodes run containers.

use crate::resources::described::{Described, PLAIN};
use crate::resources::print::{AGE, NAME, text};
use pintle_meta::object;

pub const RUNTIME_CLASS: Described = Described {
    creates_on_update: true,
    insists_on_version: true,
    immutable: &[&["handler"]],
    printed: Some(&[
        NAME,
        text("Handler", "node.v1.RuntimeClass.handler", |class, _| object::text(class, &["handler"]).into()),
        AGE,
    ]),
    ..PLAIN
};
