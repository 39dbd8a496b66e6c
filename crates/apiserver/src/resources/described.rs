//! Kinds of which all that is special is data: no code of their own, a few facts and columns.

use crate::strategy::{Printed, Strategy};
use pintle_meta::{field, rules};
use serde_json::Value;

/// What is special about a kind, as data. `..PLAIN` for the rest.
#[derive(Clone, Copy)]
pub struct Described {
    /// `metadata.generation` counts changes of the spec.
    pub generations: bool,
    /// `PUT` to a name that does not exist creates it.
    pub creates_on_update: bool,
    /// An update must name the version that it changes.
    pub insists_on_version: bool,
    /// A deletion answers with the object.
    pub returns_deleted: bool,
    pub names: fn(&str) -> rules::Problems,
    /// What the table of rules cannot say.
    pub checks: fn(&Value, &mut field::Errors),
    /// Fields that stay as they were made.
    pub immutable: &'static [&'static [&'static str]],
    /// Fields that selectors may ask for.
    pub selectable: &'static [&'static str],
    pub printed: Option<&'static [Printed]>,
}

pub const PLAIN: Described = Described {
    generations: false,
    creates_on_update: false,
    insists_on_version: false,
    returns_deleted: false,
    names: rules::dns_subdomain,
    checks: |_, _| {},
    immutable: &[],
    selectable: &[],
    printed: None,
};

impl Strategy for Described {
    fn counts_generations(&self) -> bool {
        self.generations
    }

    fn creates_on_update(&self) -> bool {
        self.creates_on_update
    }

    fn updates_unconditionally(&self) -> bool {
        !self.insists_on_version
    }

    fn returns_deleted(&self) -> bool {
        self.returns_deleted
    }

    fn name_problems(&self, name: &str) -> rules::Problems {
        (self.names)(name)
    }

    fn selectable_fields(&self) -> &'static [&'static str] {
        self.selectable
    }

    fn validate(&self, object: &Value, _old: Option<&Value>, errors: &mut field::Errors) {
        (self.checks)(object, errors);
    }

    fn validate_update(&self, new: &Value, old: &Value, _subresource: &str, errors: &mut field::Errors) {
        for path in self.immutable {
            super::check::immutable(new, old, path, errors);
        }
    }

    fn printed(&self) -> &'static [Printed] {
        self.printed.unwrap_or_else(|| crate::strategy::Plain.printed())
    }
}
