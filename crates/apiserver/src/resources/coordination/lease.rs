//! A Lease: who has something, and since when. Renewed all the time.

use crate::resources::print::{AGE, NAME, text};
use crate::strategy::{Printed, Strategy};
use pintle_meta::field::{Error, Errors, Path};
use pintle_meta::object;
use serde_json::Value;

const COLUMNS: &[Printed] = &[
    NAME,
    text("Holder", "coordination.v1.LeaseSpec.holderIdentity", |lease, _| {
        object::text(lease, &["spec", "holderIdentity"]).into()
    }),
    AGE,
];

pub struct Lease;

impl Strategy for Lease {
    fn validate(&self, lease: &Value, _old: Option<&Value>, errors: &mut Errors) {
        let strategy = object::text(lease, &["spec", "strategy"]);
        if object::text(lease, &["spec", "preferredHolder"]).is_empty() {
            return;
        }
        if strategy.is_empty() {
            let here = Path::new("spec").child("preferredHolder");
            let detail = "may only be specified when `strategy` is set";
            errors.push(Error::forbidden(&here, detail));
        }
    }

    fn creates_on_update(&self) -> bool {
        true
    }

    fn updates_unconditionally(&self) -> bool {
        false
    }

    fn is_ephemeral(&self) -> bool {
        true
    }

    fn printed(&self) -> &'static [Printed] {
        COLUMNS
    }
}
