//! What a write costs the quotas of its namespace, and whether they allow it.

use pintle_meta::object;
use pintle_rules::Amounts;
use pintle_rules::quota::{Evaluator, Write, scopes};
use serde_json::Value;

/// What becomes of a quota when the write is committed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Charge {
    /// This much is used then.
    Used(Amounts),
    /// The quota is about the object, but what is used has not been counted: who is counting it has to count again.
    Uncounted,
}

/// The charges, by the position of their quota; or why the write is refused.
pub(super) fn charges(
    quotas: &[Value],
    evaluator: &Evaluator,
    write: Write<'_>,
    now: jiff::Timestamp,
) -> Result<Vec<(usize, Charge)>, String> {
    let limits: Vec<Limit<'_>> = quotas.iter().map(|quota| Limit::of(quota, evaluator, write.object)).collect();
    for limit in limits.iter().filter(|limit| limit.is_counted) {
        limit.must_be_answered(evaluator, write.object)?;
    }
    let usage = evaluator.usage(write.object, now);
    let negative: Vec<&str> = usage.iter().filter(|(_, amount)| amount.is_negative()).map(|(name, _)| name).collect();
    if !negative.is_empty() {
        return Err(format!("quota usage is negative for resource(s): {}", negative.join(",")));
    }
    let more = write.old.map(|old| usage.above(&evaluator.usage(old, now)));
    let mut charges = Vec::new();
    for (position, limit) in limits.iter().enumerate().filter(|(_, limit)| limit.is_about) {
        // What was in the quota before costs only what it grows by.
        let was_in = write.old.is_some_and(|old| evaluator.is_in_all(&limit.scopes, old));
        let costs = more.as_ref().filter(|_| was_in).unwrap_or(&usage).without_zeros();
        if !limit.is_counted {
            if costs.names().any(|name| object::at(limit.quota, &["spec", "hard", name]).is_some()) {
                charges.push((position, Charge::Uncounted));
            }
        } else if let Some(used) = limit.with(&costs, write.subresource)? {
            charges.push((position, Charge::Used(used)));
        }
    }
    Ok(charges)
}

/// A quota in the light of one object.
struct Limit<'a> {
    quota: &'a Value,
    scopes: Vec<scopes::Requirement>,
    hard: Amounts,
    used: Amounts,
    /// Resources of the quota that the object's kind counts for.
    counted: Vec<String>,
    is_about: bool,
    is_counted: bool,
}

impl<'a> Limit<'a> {
    fn of(quota: &'a Value, evaluator: &Evaluator, object: &Value) -> Self {
        let amounts = |of: &str, which: &str| Amounts::of(object::at(quota, &[of, which]));
        let (hard, used, scopes) = (amounts("status", "hard"), amounts("status", "used"), scopes::of(quota));
        let of_kind = |hard: &Amounts| hard.names().filter(|name| evaluator.counts(name)).map(str::to_owned).collect();
        let counted: Vec<String> = of_kind(&hard);
        let wanted: Vec<String> = of_kind(&amounts("spec", "hard"));
        let in_scope = !(counted.is_empty() && wanted.is_empty()) && evaluator.is_in_all(&scopes, object);
        let is_counted = in_scope && !counted.is_empty();
        Limit { quota, scopes, hard, used, counted, is_about: in_scope, is_counted }
    }

    fn name(&self) -> &str {
        object::name(self.quota)
    }

    /// The object says what it will use, and what is used already is known.
    fn must_be_answered(&self, evaluator: &Evaluator, object: &Value) -> Result<(), String> {
        let required: Vec<&str> = self.counted.iter().map(String::as_str).collect();
        evaluator.constraints(&required, object).map_err(|why| format!("failed quota: {}: {why}", self.name()))?;
        match required.iter().all(|name| self.used.contains(name)) {
            true => Ok(()),
            false => Err(format!("status unknown for quota: {}, resources: {}", self.name(), required.join(","))),
        }
    }

    /// What is used with these costs; none if they do not concern the quota.
    fn with(&self, costs: &Amounts, subresource: &str) -> Result<Option<Amounts>, String> {
        let requested = costs.only(|name| self.hard.contains(name));
        if requested.is_empty() {
            return Ok(None);
        }
        let mut used = self.used.clone();
        used.add(&requested);
        let is_over = |name: &str| {
            requested.contains(name) && used.get(name).zip(self.hard.get(name)).is_some_and(|(used, hard)| used > hard)
        };
        // What a status says has happened already.
        if subresource != "status" && requested.names().any(is_over) {
            let (requested, hard) = (requested.only(is_over), self.hard.only(is_over));
            let used = self.used.only(is_over);
            let name = self.name();
            return Err(format!("exceeded quota: {name}, requested: {requested}, used: {used}, limited: {hard}"));
        }
        Ok(Some(used))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;
    use serde_json::json;

    fn quota(hard: Value, used: Value) -> Value {
        json!({"metadata": {"name": "q"}, "spec": {"hard": hard}, "status": {"hard": hard, "used": used}})
    }

    fn pod(requests: Value) -> Value {
        json!({"spec": {"containers": [{"name": "c", "resources": {"requests": requests}}]}})
    }

    fn create(quota: &Value, resource: &str, object: &Value) -> Result<Vec<(usize, Charge)>, String> {
        let write = Write { subresource: "", object, old: None };
        charges(std::slice::from_ref(quota), &Evaluator::of("", resource).unwrap(), write, Timestamp::UNIX_EPOCH)
    }

    fn used(charges: Vec<(usize, Charge)>) -> Vec<String> {
        let text = |(_, charge)| match charge {
            Charge::Used(used) => format!("{used}"),
            Charge::Uncounted => "uncounted".to_owned(),
        };
        charges.into_iter().map(text).collect()
    }

    #[test]
    fn a_quota_takes_what_fits_and_refuses_what_does_not() {
        let cpu = quota(json!({"requests.cpu": "1", "pods": "5"}), json!({"requests.cpu": "800m", "pods": "1"}));
        assert_eq!(used(create(&cpu, "pods", &pod(json!({"cpu": "200m"}))).unwrap()), ["pods=2,requests.cpu=1"]);
        assert_eq!(
            create(&cpu, "pods", &pod(json!({"cpu": "300m"}))).unwrap_err(),
            "exceeded quota: q, requested: requests.cpu=300m, used: requests.cpu=800m, limited: requests.cpu=1"
        );
        assert_eq!(
            create(&cpu, "pods", &pod(json!({}))).unwrap_err(),
            "failed quota: q: must specify requests.cpu for: c"
        );
    }

    #[test]
    fn a_quota_that_was_not_counted_limits_nothing_and_hears_of_it() {
        let new = json!({"metadata": {"name": "q"}, "spec": {"hard": {"configmaps": "0"}}});
        assert_eq!(used(create(&new, "configmaps", &json!({})).unwrap()), ["uncounted"]);
        assert_eq!(used(create(&new, "secrets", &json!({})).unwrap()), Vec::<String>::new());
        let half = json!({"metadata": {"name": "q"}, "spec": {"hard": {"secrets": "1"}}, "status": {"hard": {"secrets": "1"}}});
        assert_eq!(
            create(&half, "secrets", &json!({})).unwrap_err(),
            "status unknown for quota: q, resources: secrets"
        );
    }

    #[test]
    fn an_update_costs_what_it_adds() {
        let ports = quota(json!({"services.nodeports": "1"}), json!({"services.nodeports": "0"}));
        let plain = json!({"spec": {"ports": [{}]}});
        let node_port = json!({"spec": {"type": "NodePort", "ports": [{}]}});
        let change = |object: &Value, old: &Value| {
            let write = Write { subresource: "", object, old: Some(old) };
            let services = Evaluator::of("", "services").unwrap();
            charges(std::slice::from_ref(&ports), &services, write, Timestamp::UNIX_EPOCH).map(used)
        };
        assert_eq!(change(&node_port, &plain).unwrap(), ["services.nodeports=1"]);
        assert_eq!(change(&plain, &node_port).unwrap(), Vec::<String>::new(), "the loop gives it back");
        let two = json!({"spec": {"type": "NodePort", "ports": [{}, {}]}});
        assert!(change(&two, &plain).unwrap_err().starts_with("exceeded quota: q, requested: services.nodeports=2"));
    }

    #[test]
    fn a_pod_that_comes_into_a_scope_is_charged_whole() {
        let mut ending = quota(json!({"pods": "1"}), json!({"pods": "0"}));
        ending["spec"]["scopes"] = json!(["Terminating"]);
        let (old, mut new) = (pod(json!({})), pod(json!({})));
        new["spec"]["activeDeadlineSeconds"] = 9.into();
        let write = Write { subresource: "", object: &new, old: Some(&old) };
        let pods = Evaluator::of("", "pods").unwrap();
        let charged = charges(&[ending], &pods, write, Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(used(charged), ["pods=1"]);
    }
}
