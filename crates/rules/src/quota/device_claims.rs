//! What a ResourceClaim counts for: the devices that it may get, by their class.

use crate::Amounts;
use pintle_meta::object;
use pintle_meta::quantity::Quantity;
use serde_json::Value;

/// Behind the name of a device class.
const DEVICES: &str = ".deviceclass.resource.k8s.io/devices";
/// A claim for all devices may get this many.
const MOST_DEVICES: i64 = 32;

pub(super) fn counts(name: &str) -> bool {
    name.ends_with(DEVICES)
}

pub(super) fn usage(claim: &Value) -> Amounts {
    let mut usage = Amounts::default();
    for request in object::list(claim, &["spec", "devices", "requests"]) {
        let alternatives = object::list(request, &["firstAvailable"]);
        let mut most = Amounts::default();
        match request.get("exactly") {
            _ if !alternatives.is_empty() => alternatives.iter().for_each(|one| most.raise_to(&devices(one))),
            Some(exactly) => most = devices(exactly),
            None => {}
        }
        usage.add(&most);
    }
    usage
}

fn devices(request: &Value) -> Amounts {
    let number = match object::text(request, &["allocationMode"]) {
        "ExactCount" => object::integer(request, &["count"]).unwrap_or(0),
        "All" => MOST_DEVICES,
        _ => 0,
    };
    let class = object::text(request, &["deviceClassName"]);
    [(format!("{class}{DEVICES}"), Quantity::from_units(number))].into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn of_alternatives_the_one_with_most_devices_counts() {
        let claim = json!({"spec": {"devices": {"requests": [
            {"exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2}},
            {"firstAvailable": [{"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 4},
                {"deviceClassName": "gpu", "allocationMode": "All"},
                {"deviceClassName": "nic", "allocationMode": "ExactCount", "count": 1}]}]}}});
        assert_eq!(usage(&claim).to_string(), format!("gpu{DEVICES}=34,nic{DEVICES}=1"));
    }
}
