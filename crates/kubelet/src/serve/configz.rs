//! `/configz`: the node's settings, in the words of Kubernetes' own KubeletConfiguration.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use crate::config::NodeConfig;
use crate::pressure::{Amount, Threshold};

/// Where node agents listen.
const PORT: u16 = 10250;

pub(super) fn configz(config: &NodeConfig) -> Value {
    let collection = &config.collection;
    let (hard, soft): (Vec<_>, Vec<_>) = config.eviction.thresholds.iter().partition(|known| known.grace.is_zero());
    let values = |list: &[&Threshold]| -> BTreeMap<String, String> {
        list.iter().map(|known| (known.signal.to_string(), written(known.value))).collect()
    };
    let graces: BTreeMap<String, String> =
        soft.iter().map(|known| (known.signal.to_string(), time(known.grace))).collect();
    let amounts = |index: usize| config.reserved.get(index).cloned().unwrap_or_default();
    let pods = config.capacity.get("pods").and_then(|pods| pods.0.parse::<i64>().ok());
    let mut settings = json!({
        "enableServer": true,
        "port": PORT,
        "authentication": {
            "anonymous": {"enabled": false},
            "webhook": {"enabled": true, "cacheTTL": "2m0s"},
            "x509": {},
        },
        "authorization": {
            "mode": "Webhook",
            "webhook": {"cacheAuthorizedTTL": "5m0s", "cacheUnauthorizedTTL": "30s"},
        },
        "clusterDomain": config.cluster_domain,
        "clusterDNS": config.cluster_dns,
        "nodeLeaseDurationSeconds": config.lease.as_secs(),
        "imageMinimumGCAge": time(collection.image_minimum_age),
        "imageMaximumGCAge": time(collection.image_maximum_age),
        "imageGCHighThresholdPercent": collection.image_high_threshold,
        "imageGCLowThresholdPercent": collection.image_low_threshold,
        "serializeImagePulls": false,
        "evictionHard": values(&hard),
        "evictionSoft": values(&soft),
        "evictionSoftGracePeriod": graces,
        "evictionPressureTransitionPeriod": time(config.eviction.transition_period),
        "evictionMaxPodGracePeriod": config.eviction.max_pod_grace,
        "podPidsLimit": config.pod_max_pids.and_then(|most| i64::try_from(most).ok()).unwrap_or(-1),
        "containerLogMaxSize": config.log_rotation.max_size.to_string(),
        "containerLogMaxFiles": config.log_rotation.max_files,
        "kubeReserved": amounts(0),
        "systemReserved": amounts(1),
        "allowedUnsafeSysctls": config.allowed_unsafe_sysctls,
        "registerNode": true,
        "registerWithTaints": config.taints,
        "maxPods": pods,
        "failSwapOn": false,
    });
    if let Some(statics) = &config.static_pods {
        settings["staticPodPath"] = json!(statics.directory);
        settings["fileCheckFrequency"] = json!(time(statics.period));
    }
    json!({"kubeletconfig": settings})
}

fn written(amount: Amount) -> String {
    match amount {
        Amount::Quantity(quantity) => quantity.to_string(),
        Amount::Percent(percent) => format!("{percent}%"),
    }
}

/// As Go writes it.
fn time(time: Duration) -> String {
    match (time.as_secs() / 3600, time.as_secs() / 60 % 60, time.as_secs() % 60) {
        (0, 0, seconds) => format!("{seconds}s"),
        (0, minutes, seconds) => format!("{minutes}m{seconds}s"),
        (hours, minutes, seconds) => format!("{hours}h{minutes}m{seconds}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_reads_the_nodes_settings_under_their_usual_names() {
        let shown = configz(&NodeConfig::simulated("n", 0));
        let settings = &shown["kubeletconfig"];
        assert_eq!(settings["maxPods"], 110);
        assert_eq!(settings["evictionHard"]["memory.available"], "100Mi");
        assert_eq!(settings["evictionHard"]["nodefs.available"], "10%");
        assert_eq!(settings["evictionPressureTransitionPeriod"], "5m0s");
        assert_eq!(settings["authentication"]["anonymous"]["enabled"], false);
        assert_eq!(settings["podPidsLimit"], -1);
    }
}
