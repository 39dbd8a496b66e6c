//! Which schema and which level a call belongs to. Follows the objects: a change counts for the next request.

use super::Levels;
use super::defaults;
use super::level::Level;
use super::metrics::Counts;
use super::spec::{CATCH_ALL, EXEMPT, Excess, LevelSpec, Schema};
use crate::call::Call;
use crate::codec;
use crate::follow::Followed;
use crate::keys;
use http::HeaderValue;
use pintle_store::Entry;
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Clone)]
pub struct Rules {
    levels: Arc<Levels>,
    schemas: BTreeMap<String, Arc<Schema>>,
    specs: BTreeMap<String, LevelSpec>,
    /// In the order in which they are tried; the last one takes everything.
    flows: Arc<[Arc<Flow>]>,
}

/// A schema and the level that it leads to.
pub struct Flow {
    pub schema: Arc<Schema>,
    pub level: Arc<Level>,
    pub counts: Counts,
    /// The UIDs of both, as answers carry them.
    pub uids: [HeaderValue; 2],
}

impl Rules {
    pub fn new(levels: Arc<Levels>) -> Self {
        let mut rules = Rules { levels, schemas: BTreeMap::new(), specs: BTreeMap::new(), flows: Arc::new([]) };
        rules.settle();
        rules
    }

    pub fn classify(&self, call: &Call) -> &Arc<Flow> {
        let fitting = self.flows.iter().find(|flow| flow.schema.matches(call));
        // There is always a last one: see `settle`.
        fitting.unwrap_or_else(|| &self.flows[self.flows.len() - 1])
    }

    /// The seats of each level, from its share of all.
    fn share_out(&self, specs: &BTreeMap<String, LevelSpec>) {
        // Shares are any numbers: their sum may be larger than each can be.
        let all: f64 = specs.values().map(|spec| f64::from(spec.shares)).sum();
        for (name, spec) in specs {
            let part = f64::from(spec.shares) / all.max(1.0);
            let nominal = (f64::from(self.levels.seats) * part).ceil() as u32;
            self.levels.get(name).configure(spec, nominal, self.levels.seats);
        }
    }
}

impl Followed for Rules {
    fn change(&mut self, key: &str, entry: Option<&Entry>) {
        let object = entry.map(|entry| codec::decode(&entry.value));
        if let Some(name) = keys::rest(key, keys::FLOW_SCHEMAS) {
            match object {
                Some(object) => _ = self.schemas.insert(name.to_owned(), Arc::new(Schema::of(&object))),
                None => _ = self.schemas.remove(name),
            }
        } else if let Some(name) = keys::rest(key, keys::PRIORITY_LEVELS) {
            match object {
                Some(object) => _ = self.specs.insert(name.to_owned(), LevelSpec::of(&object)),
                None => _ = self.specs.remove(name),
            }
        }
    }

    fn settle(&mut self) {
        // Two levels and two schemas are there whatever happens to their objects.
        let mut specs = self.specs.clone();
        let mut schemas: Vec<Arc<Schema>> = self.schemas.values().cloned().collect();
        for object in defaults::mandatory() {
            let name = pintle_meta::object::name(&object).to_owned();
            if pintle_meta::object::kind(&object) == defaults::LEVEL {
                specs.entry(name).or_insert_with(|| LevelSpec::of(&object));
            } else if !self.schemas.contains_key(&name) {
                schemas.push(Arc::new(Schema::of(&object)));
            }
        }
        self.share_out(&specs);
        self.levels.retire(|name| specs.contains_key(name));
        schemas.retain(|schema| specs.contains_key(&schema.level));
        schemas.sort_by(|a, b| {
            let rank = |schema: &Schema| (schema.name != EXEMPT, schema.name == CATCH_ALL, schema.precedence);
            rank(a).cmp(&rank(b)).then_with(|| a.name.cmp(&b.name))
        });
        let flow = |schema: Arc<Schema>| {
            let uid = |text: &str| HeaderValue::from_str(text).unwrap_or_else(|_| HeaderValue::from_static(""));
            let level_uid = specs.get(&schema.level).map_or("", |spec| spec.uid.as_str());
            Arc::new(Flow {
                level: self.levels.get(&schema.level),
                counts: self.levels.families.flow(&schema.level, &schema.name),
                uids: [uid(&schema.uid), uid(level_uid)],
                schema,
            })
        };
        self.flows = schemas.into_iter().map(flow).collect();
    }
}

impl Level {
    fn configure(&self, spec: &LevelSpec, nominal: u32, all: u32) {
        let percent = |percent: u32| (f64::from(nominal) * f64::from(percent) / 100.0).round() as u32;
        let lent = percent(spec.lends_percent);
        let borrowed = spec.borrows_percent.map_or(all, percent);
        let widest = match spec.excess {
            Excess::Queue { hand, .. } => (f64::from(nominal) * 0.15).ceil().min(f64::from(nominal / hand)) as u32,
            _ => super::estimate::MAX_SEATS,
        };
        self.set(spec.excess, [nominal, nominal - lent, nominal.saturating_add(borrowed)], widest.max(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authn::User;
    use crate::flow::metrics::Families;
    use crate::request::Target;
    use http::{HeaderMap, Method};
    use serde_json::json;

    fn default_rules() -> Rules {
        let mut rules = Rules::new(Arc::new(Levels::new(600, Families::default())));
        for object in defaults::all() {
            let name = pintle_meta::object::name(&object).to_owned();
            if pintle_meta::object::kind(&object) == defaults::LEVEL {
                rules.specs.insert(name, LevelSpec::of(&object));
            } else {
                rules.schemas.insert(name, Arc::new(Schema::of(&object)));
            }
        }
        rules.settle();
        rules
    }

    fn of(rules: &Rules, user: &str, groups: &[&str], method: Method, uri: &str) -> (String, String) {
        let target = Target::parse(&method, &uri.parse().unwrap());
        let call = Call::new(target, None, Arc::new(User::new(user, groups)), HeaderMap::new());
        let flow = rules.classify(&call);
        (flow.schema.name.clone(), flow.level.name.clone())
    }

    #[test]
    fn everybody_finds_their_level_as_in_kubernetes() {
        let rules = default_rules();
        let lease = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n";
        for (user, groups, method, uri, schema, level) in [
            ("admin", &["system:masters"][..], Method::GET, "/api/v1/pods", "exempt", "exempt"),
            ("system:anonymous", &["system:unauthenticated"], Method::GET, "/healthz", "probes", "exempt"),
            ("system:anonymous", &["system:unauthenticated"], Method::GET, "/livez/ping", "probes", "exempt"),
            (
                "system:anonymous",
                &["system:unauthenticated"],
                Method::GET,
                "/version",
                "global-default",
                "global-default",
            ),
            ("system:node:n", &["system:nodes"], Method::PUT, lease, "system-node-high", "node-high"),
            (
                "system:node:n",
                &["system:nodes"],
                Method::PATCH,
                "/api/v1/nodes/n/status",
                "system-node-high",
                "node-high",
            ),
            ("system:node:n", &["system:nodes"], Method::GET, "/api/v1/nodes/n/proxy/x", "system-nodes", "system"),
            ("system:node:n", &["system:nodes"], Method::GET, "/api/v1/pods", "system-nodes", "system"),
            ("system:kube-scheduler", &[], Method::PUT, lease, "system-leader-election", "leader-election"),
            ("system:kube-scheduler", &[], Method::GET, "/api/v1/pods", "kube-scheduler", "workload-high"),
            (
                "system:serviceaccount:kube-system:x",
                &["system:serviceaccounts"],
                Method::GET,
                "/api/v1/pods",
                "kube-system-service-accounts",
                "workload-high",
            ),
            (
                "system:serviceaccount:shop:x",
                &["system:serviceaccounts"],
                Method::GET,
                "/api/v1/pods",
                "service-accounts",
                "workload-low",
            ),
            ("jane", &["system:authenticated"], Method::GET, "/api/v1/pods", "global-default", "global-default"),
        ] {
            assert_eq!(of(&rules, user, groups, method, uri), (schema.to_owned(), level.to_owned()), "{user} {uri}");
        }
    }

    #[test]
    fn the_two_that_must_be_there_are_there_without_objects() {
        let rules = Rules::new(Arc::new(Levels::new(600, Families::default())));
        assert_eq!(of(&rules, "admin", &["system:masters"], Method::GET, "/api/v1/pods").0, "exempt");
        assert_eq!(of(&rules, "jane", &["system:authenticated"], Method::GET, "/api/v1/pods").0, "catch-all");
    }

    #[test]
    fn levels_with_the_largest_numbers_leave_the_others_their_seats() {
        let mut rules = default_rules();
        let largest = json!({"spec": {"type": "Limited", "limited": {"nominalConcurrencyShares": i32::MAX,
            "lendablePercent": 100, "borrowingLimitPercent": i32::MAX, "limitResponse": {"type": "Reject"}}}});
        for name in ["a", "b", "c"] {
            rules.specs.insert(name.to_owned(), LevelSpec::of(&largest));
        }
        rules.settle();
        rules.levels.adjust(tokio::time::Instant::now());
        let wishes: Vec<_> = rules.levels.list().iter().map(|l| l.wish(tokio::time::Instant::now())).collect();
        assert!(wishes.iter().all(|wish| wish.nominal <= 200), "{wishes:?}");
        assert_eq!(of(&rules, "jane", &["system:authenticated"], Method::GET, "/api/v1/pods").0, "global-default");
    }

    #[test]
    fn a_schema_without_its_level_is_passed_over() {
        let mut rules = default_rules();
        let lost = json!({"metadata": {"name": "lost"}, "spec": {"matchingPrecedence": 2,
            "priorityLevelConfiguration": {"name": "nowhere"}, "rules": [{"subjects": [{"kind": "Group", "group": {"name": "*"}}],
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"], "clusterScope": true}]}]}});
        rules.schemas.insert("lost".to_owned(), Arc::new(Schema::of(&lost)));
        rules.settle();
        assert_eq!(of(&rules, "jane", &["system:authenticated"], Method::GET, "/api/v1/pods").0, "global-default");
        let found = LevelSpec::of(&json!({"spec": {"type": "Limited", "limited": {"nominalConcurrencyShares": 10}}}));
        rules.specs.insert("nowhere".to_owned(), found);
        rules.settle();
        assert_eq!(of(&rules, "jane", &["system:authenticated"], Method::GET, "/api/v1/pods").0, "lost");
    }
}
