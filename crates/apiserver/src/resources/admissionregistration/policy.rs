//! Admission policies, written as expressions, and where they count.

use crate::resources::described::{Described, PLAIN};
use crate::resources::print::{AGE, NAME, UNSET, integer, length, text};
use crate::strategy::Printed;
use pintle_meta::object;
use serde_json::Value;

const PARAM_KIND: Printed = text("ParamKind", "", |policy, _| match object::at(policy, &["spec", "paramKind"]) {
    Some(kind) if kind.is_object() => {
        format!("{}/{}", object::text(kind, &["apiVersion"]), object::text(kind, &["kind"])).into()
    }
    _ => UNSET.into(),
});

pub const VALIDATING_POLICY: Described = Described {
    generations: true,
    insists_on_version: true,
    printed: Some(&[
        NAME,
        integer("Validations", "", |policy, _| length(policy, &["spec", "validations"])),
        PARAM_KIND,
        AGE,
    ]),
    ..PLAIN
};

pub const MUTATING_POLICY: Described = Described {
    generations: true,
    insists_on_version: true,
    printed: Some(&[
        NAME,
        integer("Mutations", "", |policy, _| length(policy, &["spec", "mutations"])),
        PARAM_KIND,
        AGE,
    ]),
    ..PLAIN
};

pub const POLICY_BINDING: Described = Described {
    generations: true,
    insists_on_version: true,
    printed: Some(&[
        NAME,
        text("PolicyName", "", |binding, _| object::text(binding, &["spec", "policyName"]).into()),
        text("ParamRef", "", |binding, _| match object::at(binding, &["spec", "paramRef"]) {
            Some(reference) if reference.is_object() => param_ref(reference).into(),
            _ => UNSET.into(),
        }),
        AGE,
    ]),
    ..PLAIN
};

fn param_ref(reference: &Value) -> String {
    let (namespace, name) = (object::text(reference, &["namespace"]), object::text(reference, &["name"]));
    match (namespace, name) {
        (_, "") => super::super::print::selector(reference.get("selector")).as_str().unwrap_or_default().to_owned(),
        ("", name) => format!("*/{name}"),
        (namespace, name) => format!("{namespace}/{name}"),
    }
}
