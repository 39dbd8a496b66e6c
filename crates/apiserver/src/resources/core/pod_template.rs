//! A PodTemplate: a Pod to be made from, kept by itself.

use crate::resources::described::{Described, PLAIN};
use crate::resources::print::{CONTAINERS, IMAGES, NAME, labels, text};
use crate::strategy::{Column, Printed};
use pintle_meta::object;

const fn always(printed: Printed) -> Printed {
    Printed { column: Column { priority: 0, ..printed.column }, cell: printed.cell }
}

pub const POD_TEMPLATE: Described = Described {
    generations: true,
    returns_deleted: true,
    printed: Some(&[
        NAME,
        always(CONTAINERS),
        always(IMAGES),
        text("Pod Labels", "", |template, _| labels(object::at(template, &["template", "metadata", "labels"])).into()),
    ]),
    ..PLAIN
};
