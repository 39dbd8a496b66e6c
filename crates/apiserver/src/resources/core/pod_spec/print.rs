//! A Pod in one line: how many of its containers are ready, what it is doing, how often it was restarted.

use crate::resources::print::{AGE, NAME, NONE, or, text, wide};
use crate::strategy::Printed;
use crate::table;
use jiff::Timestamp;
use pintle_meta::object;
use serde_json::Value;

pub const COLUMNS: &[Printed] = &[
    NAME,
    text("Ready", "The aggregate readiness state of this pod for accepting traffic.", |pod, _| {
        let summary = Summary::of(pod);
        format!("{}/{}", summary.ready, summary.total).into()
    }),
    text("Status", "The aggregate status of the containers in this pod.", |pod, _| Summary::of(pod).reason.into()),
    text(
        "Restarts",
        "The number of times the containers in this pod have been restarted and when the last container in this pod has restarted.",
        |pod, now| Summary::of(pod).restarts(now).into(),
    ),
    AGE,
    wide("IP", "core.v1.PodStatus.podIP", |pod, _| {
        let first = object::list(pod, &["status", "podIPs"]).first().map(|ip| object::text(ip, &["ip"]));
        or(first.unwrap_or_default(), NONE).into()
    }),
    wide("Node", "core.v1.PodSpec.nodeName", |pod, _| or(object::text(pod, &["spec", "nodeName"]), NONE).into()),
    wide("Nominated Node", "core.v1.PodStatus.nominatedNodeName", |pod, _| {
        or(object::text(pod, &["status", "nominatedNodeName"]), NONE).into()
    }),
    wide("Readiness Gates", "core.v1.PodSpec.readinessGates", |pod, _| readiness_gates(pod)),
];

fn readiness_gates(pod: &Value) -> Value {
    let gates = object::list(pod, &["spec", "readinessGates"]);
    if gates.is_empty() {
        return NONE.into();
    }
    let open = gates.iter().filter(|gate| condition(pod, object::text(gate, &["conditionType"])) == "True").count();
    format!("{open}/{}", gates.len()).into()
}

fn condition<'a>(pod: &'a Value, kind: &str) -> &'a str {
    let found = object::list(pod, &["status", "conditions"]).iter().find(|c| object::text(c, &["type"]) == kind);
    found.map(|c| object::text(c, &["status"])).unwrap_or_default()
}

#[derive(Default)]
struct Summary {
    ready: usize,
    total: usize,
    reason: String,
    restarts: i64,
    /// When a container last ended that was restarted since.
    last_restart: String,
}

impl Summary {
    fn of(pod: &Value) -> Self {
        let mut summary = Summary { total: object::list(pod, &["spec", "containers"]).len(), ..Summary::default() };
        let (phase, cause) = (object::text(pod, &["status", "phase"]), object::text(pod, &["status", "reason"]));
        summary.reason = or(cause, phase).to_owned();
        let gated = |c: &Value| c["type"] == "PodScheduled" && c["reason"] == "SchedulingGated";
        if object::list(pod, &["status", "conditions"]).iter().any(gated) {
            summary.reason = "SchedulingGated".to_owned();
        }
        let initializing = summary.initialize(pod);
        if !initializing || condition(pod, "Initialized") == "True" {
            summary.run(pod);
        }
        if object::is_being_deleted(pod) {
            if cause == "NodeLost" {
                summary.reason = "Unknown".to_owned();
            } else if !matches!(phase, "Succeeded" | "Failed") {
                summary.reason = "Terminating".to_owned();
            }
        }
        summary
    }

    /// Looks at the containers that run first; true while they still do.
    fn initialize(&mut self, pod: &Value) -> bool {
        let specs = object::list(pod, &["spec", "initContainers"]);
        let stays = |name: &str| {
            specs.iter().any(|c| object::text(c, &["name"]) == name && object::text(c, &["restartPolicy"]) == "Always")
        };
        self.total += specs.iter().filter(|c| stays(object::text(c, &["name"]))).count();
        let (mut of_all, mut of_lasting) = (Restarts::default(), Restarts::default());
        let mut initializing = false;
        for (i, status) in object::list(pod, &["status", "initContainerStatuses"]).iter().enumerate() {
            let lasting = stays(object::text(status, &["name"]));
            of_all.add(status);
            if lasting {
                of_lasting.add(status);
            }
            let ended = object::at(status, &["state", "terminated"]).filter(|t| t.is_object());
            if ended.is_some_and(|t| object::integer(t, &["exitCode"]).unwrap_or(0) == 0) {
                continue;
            }
            if lasting && object::flag(status, &["started"]) {
                self.ready += usize::from(object::flag(status, &["ready"]));
                continue;
            }
            let waits = object::text(status, &["state", "waiting", "reason"]);
            self.reason = match ended {
                Some(ended) => format!("Init:{}", end_reason(ended)),
                None if !waits.is_empty() && waits != "PodInitializing" => format!("Init:{waits}"),
                None => format!("Init:{i}/{}", specs.len()),
            };
            initializing = true;
            break;
        }
        let counted = if initializing { of_all } else { of_lasting };
        self.restarts = counted.count;
        self.last_restart = counted.last;
        initializing
    }

    fn run(&mut self, pod: &Value) {
        let mut runs = false;
        let mut failure = String::new();
        let mut restarts = Restarts { count: self.restarts, last: std::mem::take(&mut self.last_restart) };
        for status in object::list(pod, &["status", "containerStatuses"]).iter().rev() {
            restarts.add(status);
            let waits = object::text(status, &["state", "waiting", "reason"]);
            let ended = object::at(status, &["state", "terminated"]).filter(|t| t.is_object());
            if !waits.is_empty() {
                self.reason = waits.to_owned();
            } else if let Some(ended) = ended {
                self.reason = end_reason(ended);
                if object::integer(ended, &["exitCode"]).unwrap_or(0) != 0 {
                    failure.clone_from(&self.reason);
                }
            } else if object::flag(status, &["ready"]) && object::at(status, &["state", "running"]).is_some() {
                runs = true;
                self.ready += 1;
            }
        }
        self.restarts = restarts.count;
        self.last_restart = restarts.last;
        if self.reason == "Completed" {
            if runs && condition(pod, "Ready") == "True" {
                self.reason = "Running".to_owned();
            } else if !failure.is_empty() {
                self.reason = failure;
            } else if runs {
                self.reason = "NotReady".to_owned();
            }
        }
    }

    fn restarts(&self, now: Timestamp) -> String {
        if self.restarts == 0 || self.last_restart.is_empty() {
            return self.restarts.to_string();
        }
        format!("{} ({} ago)", self.restarts, table::age(&self.last_restart, now))
    }
}

#[derive(Default)]
struct Restarts {
    count: i64,
    last: String,
}

impl Restarts {
    fn add(&mut self, status: &Value) {
        self.count += object::integer(status, &["restartCount"]).unwrap_or(0);
        let ended = object::text(status, &["lastState", "terminated", "finishedAt"]);
        // Times in one form and one zone compare as texts.
        if ended > self.last.as_str() {
            ended.clone_into(&mut self.last);
        }
    }
}

fn end_reason(ended: &Value) -> String {
    match (object::text(ended, &["reason"]), object::integer(ended, &["signal"]).unwrap_or(0)) {
        ("", 0) => format!("ExitCode:{}", object::integer(ended, &["exitCode"]).unwrap_or(0)),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_pod_says_in_one_word_what_it_is_doing() {
        let container =
            |state: Value, ready: bool| json!({"name": "a", "state": state, "ready": ready, "restartCount": 2});
        for (status, word, ready) in [
            (json!({"phase": "Pending"}), "Pending", 0),
            (json!({"phase": "Running", "containerStatuses": [container(json!({"running": {}}), true)]}), "Running", 1),
            (
                json!({"phase": "Running", "containerStatuses": [container(json!({"waiting": {"reason": "CrashLoopBackOff"}}), false)]}),
                "CrashLoopBackOff",
                0,
            ),
            (json!({"phase": "Failed", "reason": "Evicted"}), "Evicted", 0),
            (
                json!({"phase": "Pending", "initContainerStatuses": [{"name": "i", "state": {"running": {}}}]}),
                "Init:0/1",
                0,
            ),
            (
                json!({"phase": "Succeeded", "containerStatuses": [container(json!({"terminated": {"exitCode": 0, "reason": "Completed"}}), false)]}),
                "Completed",
                0,
            ),
        ] {
            let pod =
                json!({"spec": {"containers": [{"name": "a"}], "initContainers": [{"name": "i"}]}, "status": status});
            let summary = Summary::of(&pod);
            assert_eq!((summary.reason.as_str(), summary.ready), (word, ready));
        }
    }
}
