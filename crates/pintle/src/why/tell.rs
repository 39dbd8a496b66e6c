//! A chain of causes in words, one line per write, with the time between. Pure.

use serde_json::Value;
use std::fmt::Write;

/// How wide the column of times is.
const TIMES: usize = 15;
const MOST_PATHS: usize = 4;

/// The whole story, from the beginning to the end.
pub(super) fn tell(chain: &Value) -> String {
    let steps = list(&chain["steps"]);
    let mut out = String::new();
    let mut before = None;
    for step in steps {
        let now = moment(step);
        let time = match (before, now) {
            (Some(before), Some(now)) => format!("+ {}", between(before, now)),
            _ => text(&step["time"]).get(11..23).map(|time| format!("{time}Z")).unwrap_or_default(),
        };
        before = now;
        // Writing into a String cannot fail.
        let _ = writeln!(out, "{time:TIMES$}{}", sentence(step));
    }
    if chain["cut"] == true {
        out.push_str("There is more: only the nearest causes are shown.\n");
    }
    if steps.iter().any(|step| begins_earlier(step, steps)) {
        out.push_str(
            "What came before is not remembered: writes are kept for an hour and until the server restarts.\n",
        );
    }
    out
}

fn sentence(step: &Value) -> String {
    let mut line = format!("{} {}", actor(step), deed(step));
    let reasons: Vec<String> = list(&step["cause"]["because"]).iter().map(|because| reason(step, because)).collect();
    if !reasons.is_empty() {
        line.push_str(&format!(" because {}", reasons.join(", and ")));
    }
    if let Some(attempt) = step["cause"]["attempt"].as_u64().filter(|attempt| *attempt > 1) {
        line.push_str(&format!(" (attempt {attempt})"));
    }
    match step["folded"].as_u64() {
        Some(1) => line.push_str(", and once more"),
        Some(more) => line.push_str(&format!(", and {more} times more")),
        None => {}
    }
    line
}

/// The loop that wrote, or the program and the person behind it.
fn actor(step: &Value) -> String {
    match (text(&step["cause"]["loop"]), text(&step["agent"]), text(&step["user"])) {
        ("", "", user) => user.to_owned(),
        ("", agent, user) => format!("{agent} ({user})"),
        (actor, ..) => actor.to_owned(),
    }
}

fn deed(step: &Value) -> String {
    let object = object(step);
    let paths: Vec<&str> = list(&step["paths"]).iter().map(text).collect();
    match (text(&step["effect"]), text(&step["subresource"])) {
        ("created", _) => format!("created {object}"),
        ("marked", "eviction") => format!("began to evict {object}"),
        ("marked", _) => format!("began to delete {object}"),
        ("deleted", "eviction") => format!("evicted {object}"),
        ("deleted", _) => format!("deleted {object}"),
        (_, "binding") => format!("bound {object}"),
        (_, "scale") => format!("scaled {object}"),
        (_, "status") => {
            let parts = paths.iter().map(|path| path.strip_prefix("status.").unwrap_or(path)).collect();
            format!("updated the status of {object}{}", named(parts))
        }
        (_, "") => format!("changed {object}{}", named(paths)),
        (_, other) => format!("changed {object} through {other}{}", named(paths)),
    }
}

fn reason(step: &Value, because: &Value) -> String {
    let same = !text(&because["uid"]).is_empty() && because["uid"] == step["uid"];
    let what = match (same, text(&because["name"])) {
        (true, _) => "it".to_owned(),
        (false, "") => "it".to_owned(),
        _ => object(because),
    };
    match text(&because["event"]) {
        "added" => format!("{what} was added"),
        "deleted" => format!("{what} was deleted"),
        "resync" => format!("{what} is looked at from time to time"),
        "timer" => format!("the time had come that it had asked for{}", if same { "" } else { " earlier" }),
        "retry" => "an earlier attempt failed".to_owned(),
        "updated" => {
            let paths = named(list(&because["paths"]).iter().map(text).collect());
            format!("{what} was changed{}", paths.replacen(": ", " at ", 1))
        }
        _ => format!("of {what}"),
    }
}

/// `Deployment default/web`
fn object(value: &Value) -> String {
    let (kind, namespace, name) = (text(&value["kind"]), text(&value["namespace"]), text(&value["name"]));
    if namespace.is_empty() { format!("{kind} {name}") } else { format!("{kind} {namespace}/{name}") }
}

/// `: a, b and 3 more`
fn named(paths: Vec<&str>) -> String {
    if paths.is_empty() {
        return String::new();
    }
    let more = match paths.len().saturating_sub(MOST_PATHS) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(": {}{more}", paths.into_iter().take(MOST_PATHS).collect::<Vec<_>>().join(", "))
}

/// Does a step name a cause that is not among the steps?
fn begins_earlier(step: &Value, steps: &[Value]) -> bool {
    // A timer may know no more than the key that it was set for, which is told beside it.
    let named = |because: &&Value| !text(&because["name"]).is_empty() && !text(&because["kind"]).is_empty();
    list(&step["cause"]["because"]).iter().filter(named).any(|because| {
        let is = |other: &Value, key: &str| text(&other[key]) == text(&because[key]);
        !steps.iter().any(|other| is(other, "kind") && is(other, "namespace") && is(other, "name"))
    })
}

/// Microseconds since midnight of 1970.
fn moment(step: &Value) -> Option<i64> {
    text(&step["time"]).parse::<jiff::Timestamp>().ok().map(|time| time.as_microsecond())
}

fn between(before: i64, now: i64) -> String {
    let micros = (now - before).max(0);
    match micros {
        0..1_000 => format!("{micros} µs"),
        1_000..1_000_000 => format!("{} ms", micros / 1_000),
        1_000_000..60_000_000 => format!("{:.1} s", micros as f64 / 1e6),
        _ => format!("{} min {} s", micros / 60_000_000, micros / 1_000_000 % 60),
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(effect: &str, time: &str, more: Value) -> Value {
        let mut step = json!({"kind": "Pod", "namespace": "default", "name": "web-1-x", "uid": "p", "effect": effect,
            "time": format!("2026-11-16T12:00:{time}Z")});
        for (key, value) in more.as_object().into_iter().flatten() {
            step[key] = value.clone();
        }
        step
    }

    #[test]
    fn the_story_of_a_pod_reads_from_the_beginning_to_the_end() {
        let added =
            |kind: &str, name: &str| json!([{"event": "added", "kind": kind, "namespace": "default", "name": name}]);
        let chain = json!({"steps": [
            {"kind": "Deployment", "namespace": "default", "name": "web", "effect": "created",
                "time": "2026-11-16T12:00:01.003000Z", "agent": "kubectl-create", "user": "kubernetes-admin"},
            {"kind": "ReplicaSet", "namespace": "default", "name": "web-1", "effect": "created",
                "time": "2026-11-16T12:00:01.005000Z",
                "cause": {"loop": "deployment-controller", "because": added("Deployment", "web")}},
            pod("created", "01.005400", json!({"cause": {"loop": "replicaset-controller", "attempt": 3, "because": added("ReplicaSet", "web-1")}})),
            pod("updated", "02.505400", json!({"subresource": "binding", "cause": {"loop": "scheduler", "because":
                [{"event": "added", "kind": "Pod", "namespace": "default", "name": "web-1-x", "uid": "p"}]}})),
            pod("updated", "02.514400", json!({"subresource": "status", "folded": 2, "paths": ["status.phase", "status.conditions"],
                "cause": {"loop": "kubelet-node-1", "because": [{"event": "updated", "uid": "p", "kind": "Pod", "namespace": "default",
                    "name": "web-1-x", "paths": ["spec.nodeName"]}]}})),
            pod("marked", "02.514400", json!({"agent": "kubectl", "user": "jane"})),
        ]});
        let expected = "\
12:00:01.003Z  kubectl-create (kubernetes-admin) created Deployment default/web
+ 2 ms         deployment-controller created ReplicaSet default/web-1 because Deployment default/web was added
+ 400 µs       replicaset-controller created Pod default/web-1-x because ReplicaSet default/web-1 was added (attempt 3)
+ 1.5 s        scheduler bound Pod default/web-1-x because it was added
+ 9 ms         kubelet-node-1 updated the status of Pod default/web-1-x: phase, conditions because it was changed at spec.nodeName, and 2 times more
+ 0 µs         kubectl (jane) began to delete Pod default/web-1-x
";
        assert_eq!(tell(&chain), expected);
    }

    #[test]
    fn a_story_whose_beginning_is_forgotten_says_so() {
        let chain = json!({"cut": true, "steps": [pod("created", "01.000000", json!({"cause": {"loop": "rs", "because":
            [{"event": "added", "kind": "ReplicaSet", "namespace": "default", "name": "gone"}]}}))]});
        let told = tell(&chain);
        assert!(told.contains("What came before is not remembered") && told.contains("There is more"), "{told}");
        let timer = json!({"steps": [pod("created", "01.000000", json!({})), pod("updated", "02.000000", json!({
            "subresource": "status", "cause": {"loop": "kubelet", "because":
                [{"event": "timer", "namespace": "default", "name": "web-1-x"}]}}))]});
        assert!(!tell(&timer).contains("not remembered"), "{}", tell(&timer));
        // What a server of another version sends is told as far as it is understood.
        assert_eq!(tell(&json!({"steps": [{}, 7]})).lines().count(), 2);
    }
}
