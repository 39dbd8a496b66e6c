//! An IngressClass: who serves the Ingresses that name it.

use crate::resources::check;
use crate::resources::print::{AGE, NAME, NONE, text};
use crate::strategy::{Printed, Strategy};
use pintle_meta::field::{Error, Errors, Path};
use pintle_meta::object;
use serde_json::Value;

const COLUMNS: &[Printed] = &[
    NAME,
    text("Controller", "Controller that is responsible for handling this class", |class, _| {
        object::text(class, &["spec", "controller"]).into()
    }),
    text("Parameters", "A reference to a resource with additional parameters", |class, _| parameters(class).into()),
    AGE,
];

pub struct IngressClass;

impl Strategy for IngressClass {
    fn validate(&self, class: &Value, _old: Option<&Value>, errors: &mut Errors) {
        let here = Path::new("spec").child("controller");
        match object::text(class, &["spec", "controller"]) {
            "" => errors.push(Error::required(&here, "")),
            controller => match controller.split_once('/') {
                Some((domain, path)) if !path.is_empty() => {
                    check::text(domain, &here, pintle_meta::rules::dns_subdomain, errors);
                }
                _ => {
                    let detail = "must be a domain-prefixed path (such as \"acme.io/foo\")";
                    errors.push(Error::invalid(&here, controller, detail));
                }
            },
        }
    }

    fn validate_update(&self, class: &Value, old: &Value, _subresource: &str, errors: &mut Errors) {
        check::immutable(class, old, &["spec", "controller"], errors);
    }

    fn counts_generations(&self) -> bool {
        true
    }

    fn printed(&self) -> &'static [Printed] {
        COLUMNS
    }
}

fn parameters(class: &Value) -> String {
    let text = |key: &str| object::text(class, &["spec", "parameters", key]);
    match (text("kind"), text("apiGroup")) {
        ("", _) => NONE.to_owned(),
        (kind, "") => format!("{kind}/{}", text("name")),
        (kind, group) => format!("{kind}.{group}/{}", text("name")),
    }
}
