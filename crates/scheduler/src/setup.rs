//! How the scheduler is set up: a `KubeSchedulerConfiguration` of Kubernetes v1, as far as there is something to set.
//!
//! What would change where Pods go and is not there yet is refused; what has nothing to act on here is said.

use std::collections::BTreeSet;
use std::time::Duration;

use pintle_meta::{duration, object};
use serde_json::Value;

use crate::DEFAULT_NAME;

const API_VERSION: &str = "kubescheduler.config.k8s.io/v1";

/// How long an extender has, unless its configuration says otherwise.
const TIMEOUT: Duration = Duration::from_secs(5);

/// What the scheduler is told beside its context.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Pods that name one of these are its own.
    pub names: Vec<String>,
    pub extenders: Vec<ExtenderSetup>,
    /// What was given and has no effect.
    pub remarks: Vec<String>,
}

/// Somebody else's program, asked over HTTP about each Pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExtenderSetup {
    pub url: String,
    /// Verbs are what is added to the URL; empty ones are not called.
    pub filter: String,
    pub prioritize: String,
    pub bind: String,
    pub preempt: String,
    pub weight: i64,
    pub timeout: Duration,
    /// It knows the nodes itself: their names are enough.
    pub knows_nodes: bool,
    /// Of these resources a Pod must ask for one, or the extender is not asked; if there are none it always is.
    pub managed: BTreeSet<String>,
    /// Of these the nodes' amounts do not count.
    pub ignored: BTreeSet<String>,
    /// Pods are scheduled without it while it fails.
    pub ignorable: bool,
    pub https: bool,
    pub tls: Value,
}

impl Default for Setup {
    fn default() -> Self {
        Setup { names: vec![DEFAULT_NAME.to_owned()], extenders: Vec::new(), remarks: Vec::new() }
    }
}

impl Setup {
    pub fn from_value(config: &Value) -> Result<Self, String> {
        let (version, kind) = (object::text(config, &["apiVersion"]), object::text(config, &["kind"]));
        if (version, kind) != (API_VERSION, "KubeSchedulerConfiguration") {
            return Err(format!("it is a {kind:?} of {version:?}, not a KubeSchedulerConfiguration of {API_VERSION}"));
        }
        let mut setup = Setup::default();
        for key in config.as_object().into_iter().flatten().map(|(key, _)| key.as_str()) {
            match key {
                "apiVersion" | "kind" | "profiles" | "extenders" => {}
                "leaderElection"
                | "clientConnection"
                | "parallelism"
                | "enableProfiling"
                | "enableContentionProfiling"
                | "delayCacheUntilActive" => {
                    setup.remarks.push(format!("{key} has no effect: this scheduler is a part of pintle"));
                }
                "percentageOfNodesToScore" | "podInitialBackoffSeconds" | "podMaxBackoffSeconds" => {
                    return Err(format!("{key}: Pintle's scheduler cannot be set up with this yet; leave it out"));
                }
                _ => return Err(format!("{key}: there is no such field")),
            }
        }
        setup.names = names(object::list(config, &["profiles"]))?;
        for (index, extender) in object::list(config, &["extenders"]).iter().enumerate() {
            let read = extender_from(extender).map_err(|why| format!("extenders[{index}].{why}"))?;
            setup.extenders.push(read);
        }
        let binders = setup.extenders.iter().filter(|extender| !extender.bind.is_empty()).count();
        if binders > 1 {
            return Err(format!("extenders: only one extender can implement bind, found {binders}"));
        }
        let mut managed = BTreeSet::new();
        for name in setup.extenders.iter().flat_map(|extender| &extender.managed) {
            if !managed.insert(name) {
                return Err(format!("extenders: duplicate extender managed resource name {name}"));
            }
        }
        Ok(setup)
    }
}

fn names(profiles: &[Value]) -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    for (index, profile) in profiles.iter().enumerate() {
        for key in ["plugins", "pluginConfig", "percentageOfNodesToScore"] {
            if profile.get(key).is_some_and(|value| !value.is_null()) {
                return Err(format!(
                    "profiles[{index}].{key}: Pintle's scheduler cannot be set up with this yet; leave it out"
                ));
            }
        }
        let name = Some(object::text(profile, &["schedulerName"])).filter(|name| !name.is_empty());
        let name = name.unwrap_or(DEFAULT_NAME).to_owned();
        if names.contains(&name) {
            return Err(format!("profiles[{index}].schedulerName: Duplicate value: {name:?}"));
        }
        names.push(name);
    }
    if names.is_empty() { Ok(vec![DEFAULT_NAME.to_owned()]) } else { Ok(names) }
}

fn extender_from(extender: &Value) -> Result<ExtenderSetup, String> {
    let text = |key: &str| object::text(extender, &[key]).to_owned();
    let weight = object::integer(extender, &["weight"]).unwrap_or(0);
    if weight <= 0 && !text("prioritizeVerb").is_empty() {
        return Err(format!("weight: Invalid value: {weight}: must have a positive weight applied to it"));
    }
    if text("urlPrefix").is_empty() {
        return Err("urlPrefix: Required value".to_owned());
    }
    let timeout = match extender.get("httpTimeout").and_then(Value::as_str) {
        None => TIMEOUT,
        Some(given) => {
            let seconds = duration::seconds(given).filter(|seconds| *seconds >= 0.0);
            let seconds = seconds.ok_or_else(|| format!("httpTimeout: {given:?} is no duration"))?;
            if seconds == 0.0 { TIMEOUT } else { Duration::from_secs_f64(seconds) }
        }
    };
    let resources = object::list(extender, &["managedResources"]).iter();
    let named = |resource: &Value| object::text(resource, &["name"]).to_owned();
    let ignored = |resource: &&Value| object::flag(resource, &["ignoredByScheduler"]);
    Ok(ExtenderSetup {
        url: text("urlPrefix"),
        filter: text("filterVerb"),
        prioritize: text("prioritizeVerb"),
        bind: text("bindVerb"),
        preempt: text("preemptVerb"),
        weight,
        timeout,
        knows_nodes: object::flag(extender, &["nodeCacheCapable"]),
        managed: resources.clone().map(named).collect(),
        ignored: resources.filter(ignored).map(named).collect(),
        ignorable: object::flag(extender, &["ignorable"]),
        https: object::flag(extender, &["enableHTTPS"]),
        tls: extender.get("tlsConfig").cloned().unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn setup(rest: Value) -> Result<Setup, String> {
        let mut whole = json!({"apiVersion": API_VERSION, "kind": "KubeSchedulerConfiguration"});
        object::as_map(&mut whole).extend(rest.as_object().cloned().unwrap_or_default());
        Setup::from_value(&whole)
    }

    #[test]
    fn an_extender_is_read_with_its_defaults() {
        let read = setup(json!({"leaderElection": {"leaderElect": false}, "extenders": [{"urlPrefix": "http://h:1/x", "filterVerb": "filter",
            "prioritizeVerb": "score", "weight": 2, "httpTimeout": "300ms", "nodeCacheCapable": true, "preemptVerb": "preempt",
            "managedResources": [{"name": "example.com/a", "ignoredByScheduler": true}, {"name": "example.com/b"}]}]}))
        .unwrap();
        let extender = &read.extenders[0];
        assert_eq!((extender.timeout, extender.weight, extender.knows_nodes), (Duration::from_millis(300), 2, true));
        assert_eq!((extender.managed.len(), extender.ignored.len()), (2, 1));
        assert_eq!((read.remarks.len(), extender.preempt.as_str()), (1, "preempt"));
        assert_eq!(setup(json!({"extenders": [{"urlPrefix": "http://h"}]})).unwrap().extenders[0].timeout, TIMEOUT);
    }

    #[test]
    fn what_could_not_be_done_is_refused() {
        for (config, why) in [
            (json!({"extenders": [{"urlPrefix": "u", "prioritizeVerb": "p"}]}), "must have a positive weight"),
            (json!({"extenders": [{"filterVerb": "p"}]}), "extenders[0].urlPrefix: Required value"),
            (
                json!({"extenders": [{"urlPrefix": "a", "bindVerb": "b"}, {"urlPrefix": "c", "bindVerb": "b"}]}),
                "only one extender",
            ),
            (json!({"profiles": [{"plugins": {}}]}), "profiles[0].plugins"),
            (json!({"profiles": [{}, {}]}), "Duplicate value: \"default-scheduler\""),
            (json!({"percentageOfNodesToScore": 5}), "percentageOfNodesToScore"),
            (json!({"nonsense": 5}), "there is no such field"),
            (json!({"kind": "Other"}), "not a KubeSchedulerConfiguration"),
        ] {
            let refused = setup(config.clone()).unwrap_err();
            assert!(refused.contains(why), "{config}: {refused}");
        }
        assert_eq!(setup(json!({"profiles": [{"schedulerName": "mine"}]})).unwrap().names, ["mine"]);
    }
}
