//! What is wrong with a PriorityLevelConfiguration.

use super::mandatory;
use crate::flow::defaults::LEVEL;
use crate::flow::fair::bits_to_deal;
use crate::flow::spec::EXEMPT;
use crate::resources::check::same;
use pintle_meta::field::{Error, Errors, Path};
use pintle_meta::object;
use serde_json::Value;

const MAX_QUEUES: i64 = 10_000_000;
/// The bits of a flow's hash that may be used up by dealing queues.
const MAX_HASH_BITS: u32 = 60;

pub(super) fn check(level: &Value, errors: &mut Errors) {
    let (path, spec, name) = (Path::new("spec"), &level["spec"], object::name(level));
    let kind = object::text(spec, &["type"]);
    if (name == EXEMPT) != (kind == "Exempt") {
        let why = "must be 'Exempt' if and only if `name` is 'exempt'";
        errors.push(Error::invalid(&path.child("type"), kind, why));
    }
    let part = |key: &str| spec.get(key).filter(|value| !value.is_null());
    match kind {
        "Exempt" => {
            if part("limited").is_some() {
                errors.push(Error::forbidden(&path.child("limited"), "must be nil if the type is not Limited"));
            }
            check_shares(&spec["exempt"], &path.child("exempt"), errors);
        }
        "Limited" => {
            if part("exempt").is_some() {
                errors.push(Error::forbidden(&path.child("exempt"), "must be nil if the type is Limited"));
            }
            match part("limited") {
                Some(limited) => check_limited(limited, &path.child("limited"), errors),
                None => errors.push(Error::required(&path.child("limited"), "must not be empty when type is Limited")),
            }
        }
        _ => {}
    }
    check_mandatory(spec, name, &path, errors);
}

/// Of the exempt level, what it lends may change; of the other one nothing.
fn check_mandatory(spec: &Value, name: &str, path: &Path, errors: &mut Errors) {
    let Some(wanted) = mandatory(LEVEL, name) else { return };
    let (mut wanted, mut given, mut what) = (wanted["spec"].clone(), spec.clone(), "");
    if name == EXEMPT {
        object::remove(&mut wanted, &["exempt"]);
        object::remove(&mut given, &["exempt"]);
        what = " except the 'spec.exempt' field";
    }
    if !same(&wanted, &given) {
        let why = format!("spec of '{name}'{what} must equal the fixed value");
        errors.push(Error::invalid(path, spec.clone(), why));
    }
}

fn check_shares(limits: &Value, path: &Path, errors: &mut Errors) {
    let number = |key: &str| object::integer(limits, &[key]);
    if let Some(shares) = number("nominalConcurrencyShares").filter(|shares| *shares < 0) {
        let path = path.child("nominalConcurrencyShares");
        errors.push(Error::invalid(&path, shares, "must be a non-negative integer"));
    }
    if let Some(percent) = number("lendablePercent").filter(|percent| !(0..=100).contains(percent)) {
        errors.push(Error::invalid(&path.child("lendablePercent"), percent, "must be between 0 and 100, inclusive"));
    }
}

fn check_limited(limited: &Value, path: &Path, errors: &mut Errors) {
    check_shares(limited, path, errors);
    if let Some(percent) = object::integer(limited, &["borrowingLimitPercent"]).filter(|percent| *percent < 0) {
        let path = path.child("borrowingLimitPercent");
        errors.push(Error::invalid(&path, percent, "if specified, must be a non-negative integer"));
    }
    let (response, path) = (&limited["limitResponse"], path.child("limitResponse"));
    let queuing = response.get("queuing").filter(|value| !value.is_null());
    match (object::text(response, &["type"]), queuing) {
        ("Reject", Some(_)) => {
            let why = "must be nil if limited.limitResponse.type is not Limited";
            errors.push(Error::forbidden(&path.child("queuing"), why));
        }
        ("Reject", None) => {}
        ("Queue", Some(queuing)) => check_queuing(queuing, &path.child("queuing"), errors),
        ("Queue", None) => {
            let why = "must not be empty if limited.limitResponse.type is Limited";
            errors.push(Error::required(&path.child("queuing"), why));
        }
        ("", _) => errors.push(Error::required(&path.child("type"), "")),
        (other, _) => errors.push(Error::not_supported(&path.child("type"), other, &["Queue", "Reject"])),
    }
}

fn check_queuing(queuing: &Value, path: &Path, errors: &mut Errors) {
    let number = |key: &str| object::integer(queuing, &[key]).unwrap_or(0);
    let [length, queues, hand] = ["queueLengthLimit", "queues", "handSize"].map(number);
    let mut wrong = |key: &str, value: i64, why: String| errors.push(Error::invalid(&path.child(key), value, why));
    if length <= 0 {
        wrong("queueLengthLimit", length, "must be positive".to_owned());
    }
    if queues <= 0 {
        wrong("queues", queues, "must be positive".to_owned());
    } else if queues > MAX_QUEUES {
        wrong("queues", queues, format!("must not be greater than {MAX_QUEUES}"));
    }
    if hand <= 0 {
        wrong("handSize", hand, "must be positive".to_owned());
    } else if hand > queues {
        wrong("handSize", hand, format!("should not be greater than queues ({queues})"));
    } else if queues <= MAX_QUEUES && bits_to_deal(queues, hand) > MAX_HASH_BITS {
        let why = format!(
            "required entropy bits of deckSize {queues} and handSize {hand} should not be greater than {MAX_HASH_BITS}"
        );
        wrong("handSize", hand, why);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_level_that_could_not_work_is_refused_with_its_field() {
        let level = |name: &str, change: &dyn Fn(&mut Value)| {
            let mut level = json!({"metadata": {"name": name}, "spec": {"type": "Limited", "limited": {
                "nominalConcurrencyShares": 5, "lendablePercent": 0, "limitResponse": {"type": "Queue",
                "queuing": {"queues": 64, "handSize": 8, "queueLengthLimit": 50}}}}});
            change(&mut level["spec"]);
            let mut errors = Vec::new();
            check(&level, &mut errors);
            errors.iter().map(|error| error.field.as_str().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(level("mine", &|_| {}), Vec::<String>::new());
        type Breaks = fn(&mut Value);
        let cases: &[(&str, &str, Breaks)] = &[
            ("exempt", "spec.type", |_| {}),
            ("catch-all", "spec", |_| {}),
            ("mine", "spec.type", |spec| *spec = json!({"type": "Exempt"})),
            ("mine", "spec.limited", |spec| *spec = json!({"type": "Limited"})),
            ("mine", "spec.limited.nominalConcurrencyShares", |spec| {
                spec["limited"]["nominalConcurrencyShares"] = json!(-1)
            }),
            ("mine", "spec.limited.lendablePercent", |spec| spec["limited"]["lendablePercent"] = json!(101)),
            ("mine", "spec.limited.borrowingLimitPercent", |spec| spec["limited"]["borrowingLimitPercent"] = json!(-1)),
            ("mine", "spec.limited.limitResponse.queuing", |spec| {
                spec["limited"]["limitResponse"]["type"] = json!("Reject")
            }),
            ("mine", "spec.limited.limitResponse.type", |spec| spec["limited"]["limitResponse"]["type"] = json!("Ask")),
            ("mine", "spec.limited.limitResponse.queuing.queues", |spec| {
                spec["limited"]["limitResponse"]["queuing"] =
                    json!({"queues": 0, "handSize": 1, "queueLengthLimit": 1});
            }),
            ("mine", "spec.limited.limitResponse.queuing.handSize", |spec| {
                spec["limited"]["limitResponse"]["queuing"]["handSize"] = json!(65);
            }),
            ("mine", "spec.limited.limitResponse.queuing.handSize", |spec| {
                spec["limited"]["limitResponse"]["queuing"] =
                    json!({"queues": 1_000_000, "handSize": 4, "queueLengthLimit": 1});
            }),
        ];
        for (name, field, breaks) in cases {
            let wrong = level(name, &|spec| breaks(spec));
            assert!(wrong.iter().any(|one| one == field), "{field}: {wrong:?}");
        }
    }
}
