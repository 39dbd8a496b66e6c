//! Which Pods give way to a critical one: as few and as unimportant ones as give back what it lacks.

use std::cmp::Ordering;

use k8s_openapi::api::core::v1::Pod;

use super::Claim;
use crate::make::resources::Service;
use crate::pressure::is_critical;

/// A Pod that may have to go.
#[derive(Clone, Debug)]
pub(crate) struct Victim {
    pub(crate) uid: String,
    pub(crate) class: Service,
    pub(crate) claim: Claim,
}

/// What is missing, by resource.
type Missing = Vec<(String, i64)>;

/// Whether the one may take the place of the other.
pub(crate) fn is_preemptable(preemptor: &Pod, other: &Pod) -> bool {
    let priority = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.priority);
    let (ours, theirs) = (priority(preemptor), priority(other));
    (is_critical(preemptor) && !is_critical(other)) || ours.zip(theirs).is_some_and(|(ours, theirs)| ours > theirs)
}

/// The UIDs of those that go; an error if all of them together would not be enough.
pub(crate) fn victims(missing: &Missing, candidates: &[Victim]) -> Result<Vec<String>, String> {
    let of_class = |class| candidates.iter().filter(|one| one.class == class).collect::<Vec<_>>();
    let (best_effort, burstable) = (of_class(Service::BestEffort), of_class(Service::Burstable));
    let guaranteed = of_class(Service::Guaranteed);
    // Of the better classes only those go that are needed to make enough room.
    let first = closest(&guaranteed, without(missing, [best_effort.as_slice(), &burstable].concat()))?;
    let second = closest(&burstable, without(missing, [best_effort.as_slice(), &first].concat()))?;
    let third = closest(&best_effort, without(missing, [first.as_slice(), &second].concat()))?;
    Ok([third, second, first].concat().into_iter().map(|one| one.uid.clone()).collect())
}

/// One by one, each time the Pod that gives back most of what is missing.
fn closest<'a>(candidates: &[&'a Victim], mut missing: Missing) -> Result<Vec<&'a Victim>, String> {
    let (mut left, mut chosen) = (candidates.to_vec(), Vec::new());
    while !missing.is_empty() {
        let best = left.iter().enumerate().min_by(|(_, one), (_, other)| {
            let distances = distance(&missing, &one.claim).total_cmp(&distance(&missing, &other.claim));
            distances.then_with(|| smaller(&one.claim, &other.claim))
        });
        let Some((index, _)) = best else {
            let each = missing.iter().map(|(resource, amount)| format!("(res: {resource}, q: {amount}), "));
            return Err(format!("no set of running pods found to reclaim resources: [{}]", each.collect::<String>()));
        };
        let best = left.swap_remove(index);
        missing = without(&missing, vec![best]);
        chosen.push(best);
    }
    Ok(chosen)
}

fn without(missing: &Missing, gone: Vec<&Victim>) -> Missing {
    let left = missing.iter().map(|(resource, amount)| {
        let given = gone.iter().fold(0, |sum: i64, one| sum.saturating_add(one.claim.amount(resource)));
        (resource.clone(), amount.saturating_sub(given))
    });
    left.filter(|(_, amount)| *amount > 0).collect()
}

/// How far from enough it is, each resource by the part that would still be missing.
fn distance(missing: &Missing, claim: &Claim) -> f64 {
    let part = |(resource, amount): &(String, i64)| {
        let left = amount.saturating_sub(claim.amount(resource)).max(0);
        #[expect(clippy::cast_precision_loss, reason = "a part of an amount need not be exact")]
        let part = left as f64 / *amount as f64;
        part * part
    };
    missing.iter().map(part).sum()
}

fn smaller(one: &Claim, other: &Claim) -> Ordering {
    let of = |claim: &Claim| (claim.amount("memory"), claim.amount("cpu"));
    of(one).cmp(&of(other))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::make::testing;

    fn victim(uid: &str, class: Service, cpu: &str) -> Victim {
        let spec = json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]});
        Victim { uid: uid.into(), class, claim: Claim::of(&testing::pod(spec)) }
    }

    fn gone(missing: &[(&str, i64)], candidates: &[Victim]) -> Result<Vec<String>, String> {
        victims(&missing.iter().map(|(name, amount)| ((*name).to_owned(), *amount)).collect(), candidates)
    }

    #[test]
    fn as_few_and_as_unimportant_pods_go_as_give_enough_back() {
        let all = [
            victim("guaranteed", Service::Guaranteed, "4"),
            victim("large", Service::Burstable, "2"),
            victim("small", Service::Burstable, "500m"),
            victim("none", Service::BestEffort, "0"),
        ];
        assert_eq!(gone(&[("cpu", 400)], &all).unwrap(), ["small"]);
        assert_eq!(gone(&[("cpu", 1500)], &all).unwrap(), ["large"]);
        assert_eq!(gone(&[("cpu", 5000)], &all).unwrap(), ["large", "guaranteed"]);
        assert_eq!(gone(&[("pods", 1)], &all).unwrap(), ["none"]);
        let why = gone(&[("cpu", 9000)], &all).unwrap_err();
        assert_eq!(why, "no set of running pods found to reclaim resources: [(res: cpu, q: 2500), ]");
    }

    #[test]
    fn nobody_gives_way_to_an_equal() {
        let with = |priority: i32| testing::pod(json!({"priority": priority, "containers": []}));
        assert!(is_preemptable(&with(2_000_000_000), &with(0)));
        assert!(!is_preemptable(&with(2_000_000_000), &with(2_000_000_000)));
        assert!(is_preemptable(&with(2_000_001_000), &with(2_000_000_000)));
        assert!(!is_preemptable(&with(5), &with(5)));
    }
}
