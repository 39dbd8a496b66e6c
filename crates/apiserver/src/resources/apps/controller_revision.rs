//! A ControllerRevision: a template as it once was, to go back to.

use crate::resources::check;
use crate::resources::described::{Described, PLAIN};
use crate::resources::print::{AGE, NAME, NONE, count, text};
use pintle_meta::field::{Error, Path};
use pintle_meta::object;
use serde_json::Value;

pub const CONTROLLER_REVISION: Described = Described {
    checks: |revision, errors| {
        let path = Path::new("data");
        match revision.get("data") {
            None | Some(Value::Null) => errors.push(Error::required(&path, "data is mandatory")),
            Some(Value::Object(_)) => {}
            Some(_) => errors.push(Error::required(&path, "data must be a valid JSON object")),
        }
        if let Some(number) = object::integer(revision, &["revision"]).filter(|number| *number < 0) {
            errors.push(Error::invalid(&Path::new("revision"), number, check::NOT_NEGATIVE));
        }
    },
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

#[cfg(test)]
mod tests {
    use super::*;
    use pintle_meta::field::Errors;
    use serde_json::json;

    #[test]
    fn a_revision_has_something_to_go_back_to() {
        let problems = |revision: Value| {
            let mut errors = Errors::default();
            (CONTROLLER_REVISION.checks)(&revision, &mut errors);
            errors.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert!(problems(json!({"data": {}, "revision": 1})).is_empty());
        assert_eq!(problems(json!({"revision": 1})), ["data: Required value: data is mandatory"]);
        assert_eq!(problems(json!({"data": 3})), ["data: Required value: data must be a valid JSON object"]);
        assert!(problems(json!({"data": {}, "revision": -1}))[0].starts_with("revision: Invalid value: -1"));
    }
}
