//! The bounds of a limit range: what an object asks for that is too little, too much, or too far from its limit.

use pintle_meta::object;
use pintle_meta::quantity::Quantity;
use pintle_rules::Amounts;
use pintle_rules::pod::{self, Look};
use serde_json::Value;

/// Amounts up to here are compared in thousandths.
const MOST_IN_MILLI: i64 = i64::MAX / 1000;

/// Which of the bounds an object breaks, in the words of the API.
pub(super) fn broken(range: &Value, resource: &str, object: &Value) -> Vec<String> {
    let mut errors = Vec::new();
    for limit in object::list(range, &["spec", "limits"]) {
        let kind = object::text(limit, &["type"]);
        match (kind, resource) {
            ("Container", "pods") => {
                for container in pod::containers(object).chain(pod::init_containers(object)) {
                    let side = |side: &str| Amounts::of(object::at(container, &["resources", side]));
                    Asked { kind, requests: side("requests"), limits: side("limits") }.check(limit, &mut errors);
                }
            }
            // Of the Pod's own, not of its runtime's overhead.
            ("Pod", "pods") => {
                let side = |side: &str| {
                    let mut amounts = pod::aggregate(object, side, Look::Spec);
                    pod::override_with_whole(object, side, &mut amounts);
                    amounts
                };
                Asked { kind, requests: side("requests"), limits: side("limits") }.check(limit, &mut errors);
            }
            ("PersistentVolumeClaim", "persistentvolumeclaims") => {
                let requests = Amounts::of(object::at(object, &["spec", "resources", "requests"]));
                Asked { kind, requests, limits: Amounts::default() }.check_storage(limit, &mut errors);
            }
            _ => {}
        }
    }
    errors
}

struct Asked<'a> {
    kind: &'a str,
    requests: Amounts,
    limits: Amounts,
}

impl Asked<'_> {
    fn check(&self, limit: &Value, errors: &mut Vec<String>) {
        let bounds = |which: &str| Amounts::of(limit.get(which));
        errors.extend(bounds("min").iter().filter_map(|(name, bound)| self.too_little(name, bound)));
        errors.extend(bounds("max").iter().filter_map(|(name, bound)| self.too_much(name, bound)));
        let ratios = bounds("maxLimitRequestRatio");
        errors.extend(ratios.iter().filter_map(|(name, bound)| self.too_far_apart(name, bound)));
    }

    /// A claim has no limits, so both bounds are about what it requests.
    fn check_storage(&self, limit: &Value, errors: &mut Vec<String>) {
        let bounds = |which: &str| Amounts::of(limit.get(which));
        errors.extend(bounds("min").iter().filter_map(|(name, bound)| self.too_little(name, bound)));
        errors.extend(bounds("max").iter().filter_map(|(name, bound)| self.requests_too_much(name, bound)));
    }

    fn too_little(&self, name: &str, bound: Quantity) -> Option<String> {
        let head = format!("minimum {name} usage per {} is {bound}", self.kind);
        let (request, limit) = (self.requests.get(name), self.limits.get(name));
        let compared = Compared::of(request, limit, bound);
        let Some(request) = request else { return Some(format!("{head}.  No request is specified")) };
        if compared.request < compared.bound {
            return Some(format!("{head}, but request is {request}"));
        }
        let limit = limit.filter(|_| compared.limit < compared.bound)?;
        Some(format!("{head}, but limit is {limit}"))
    }

    fn too_much(&self, name: &str, bound: Quantity) -> Option<String> {
        let head = format!("maximum {name} usage per {} is {bound}", self.kind);
        let (request, limit) = (self.requests.get(name), self.limits.get(name));
        let compared = Compared::of(request, limit, bound);
        let Some(limit) = limit else { return Some(format!("{head}.  No limit is specified")) };
        if compared.limit > compared.bound {
            return Some(format!("{head}, but limit is {limit}"));
        }
        let request = request.filter(|_| compared.request > compared.bound)?;
        Some(format!("{head}, but request is {request}"))
    }

    fn requests_too_much(&self, name: &str, bound: Quantity) -> Option<String> {
        let head = format!("maximum {name} usage per {} is {bound}", self.kind);
        let request = self.requests.get(name);
        let compared = Compared::of(request, None, bound);
        let Some(request) = request else { return Some(format!("{head}.  No request is specified")) };
        (compared.request > compared.bound).then(|| format!("{head}, but request is {request}"))
    }

    fn too_far_apart(&self, name: &str, bound: Quantity) -> Option<String> {
        let head = format!("{name} max limit to request ratio per {} is {bound}", self.kind);
        let (request, limit) = (self.requests.get(name), self.limits.get(name));
        let compared = Compared::of(request, limit, bound);
        if compared.request == 0 {
            return Some(format!("{head}, but no request is specified or request is 0"));
        }
        if compared.limit == 0 {
            return Some(format!("{head}, but no limit is specified or limit is 0"));
        }
        let ratio = compared.limit as f64 / compared.request as f64;
        (ratio * 1000.0 > bound.milli() as f64).then(|| format!("{head}, but provided ratio is {ratio:.6}"))
    }
}

/// Amounts in one unit, with the rounding that the API compares with; what is not given is 0.
struct Compared {
    request: i64,
    limit: i64,
    bound: i64,
}

impl Compared {
    fn of(request: Option<Quantity>, limit: Option<Quantity>, bound: Quantity) -> Self {
        let zero = Quantity::from_units(0);
        let all = [request.unwrap_or(zero), limit.unwrap_or(zero), bound];
        let precise = all.iter().all(|amount| amount.units() <= MOST_IN_MILLI);
        let [request, limit, bound] = all.map(|amount| if precise { amount.milli() } else { amount.units() });
        Compared { request, limit, bound }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn range(limit: Value) -> Value {
        json!({"spec": {"limits": [limit]}})
    }

    fn pod(resources: &[Value]) -> Value {
        let containers: Vec<Value> = resources.iter().map(|r| json!({"name": "c", "resources": r})).collect();
        json!({"spec": {"containers": containers}})
    }

    #[test]
    fn containers_stay_within_their_bounds() {
        let bounds = range(
            json!({"type": "Container", "min": {"cpu": "100m"}, "max": {"cpu": "1"}, "maxLimitRequestRatio": {"cpu": "3"}}),
        );
        for (requests, limits, errors) in [
            (json!({"cpu": "500m"}), json!({"cpu": "1"}), vec![]),
            (
                json!({"cpu": "1m"}),
                json!({"cpu": "2m"}),
                vec!["minimum cpu usage per Container is 100m, but request is 1m"],
            ),
            (json!({"cpu": "1"}), json!({"cpu": "2"}), vec!["maximum cpu usage per Container is 1, but limit is 2"]),
            (
                json!({"cpu": "100m"}),
                json!({"cpu": "900m"}),
                vec!["cpu max limit to request ratio per Container is 3, but provided ratio is 9.000000"],
            ),
            (
                json!({}),
                json!({}),
                vec![
                    "minimum cpu usage per Container is 100m.  No request is specified",
                    "maximum cpu usage per Container is 1.  No limit is specified",
                    "cpu max limit to request ratio per Container is 3, but no request is specified or request is 0",
                ],
            ),
        ] {
            let pod = pod(&[json!({"requests": requests, "limits": limits})]);
            assert_eq!(broken(&bounds, "pods", &pod), errors);
        }
    }

    #[test]
    fn the_containers_of_a_pod_are_bounded_together() {
        let bounds = range(json!({"type": "Pod", "max": {"memory": "1Gi"}}));
        let one = json!({"limits": {"memory": "800Mi"}});
        assert_eq!(broken(&bounds, "pods", &pod(std::slice::from_ref(&one))), [""; 0]);
        assert_eq!(
            broken(&bounds, "pods", &pod(&[one.clone(), one])),
            ["maximum memory usage per Pod is 1Gi, but limit is 1600Mi"]
        );
    }

    #[test]
    fn a_claim_asks_for_neither_too_little_nor_too_much() {
        let bounds =
            range(json!({"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "2Gi"}}));
        let claim = |storage: &str| json!({"spec": {"resources": {"requests": {"storage": storage}}}});
        let said = |storage: &str| broken(&bounds, "persistentvolumeclaims", &claim(storage));
        assert_eq!(said("1Gi"), [""; 0]);
        assert_eq!(said("5Gi"), ["maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 5Gi"]);
        assert_eq!(said("5Mi"), ["minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 5Mi"]);
    }
}
