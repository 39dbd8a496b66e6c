//! Indexed Jobs: which indexes run, succeed, fail and wait.

use super::super::plan::indexes::Intervals;
use super::*;

#[test]
fn indexes_are_written_as_intervals_and_read_again() {
    let cases: [(&[u32], &str); 7] = [
        (&[], ""),
        (&[3], "3"),
        (&[3, 4], "3,4"),
        (&[3, 4, 5], "3-5"),
        (&[0, 2, 3, 4, 7, 8], "0,2-4,7,8"),
        (&[8, 0, 7, 7, 1], "0,1,7,8"),
        (&[5, 1, 3], "1,3,5"),
    ];
    for (indexes, text) in cases {
        let intervals: Intervals = indexes.iter().copied().collect();
        assert_eq!(intervals.to_string(), text);
        assert_eq!(Intervals::parse(text, 100), intervals, "{text}");
        assert!(indexes.iter().all(|index| intervals.has(*index)), "{text}");
        assert!(!intervals.has(6) && !intervals.has(99), "{text}");
    }
}

#[test]
fn what_cannot_be_read_or_lies_beyond_is_left_out() {
    let cases = [
        ("0-9", 5, "0-4"),
        ("7,8", 5, ""),
        ("0,x,2", 5, "0,2"),
        ("3-1,4", 5, "4"),
        ("-,2", 5, "2"),
        ("1-2-3,4", 9, "4"),
        ("0-4294967295", 3, "0-2"),
        ("2,0-3", 9, "0-3"),
        ("0", 0, ""),
    ];
    for (text, completions, expected) in cases {
        assert_eq!(Intervals::parse(text, completions).to_string(), expected, "{text} of {completions}");
    }
}

#[test]
fn intervals_are_compared() {
    let read = |text: &str| Intervals::parse(text, 1000);
    let cases = [("0-9", "3-5,8", 4), ("0,2,4", "1,3,5", 0), ("0-2,5-9", "1-6", 4), ("", "1-6", 0), ("1-6", "1-6", 6)];
    for (a, b, common) in cases {
        assert_eq!((read(a).in_common(&read(b)), read(b).in_common(&read(a))), (common, common), "{a} and {b}");
    }
    assert_eq!(read("1-3,5").merged(&read("4,9")).to_string(), "1-5,9");
    assert_eq!(read("0-3,7").total(), 5);
    assert_eq!(read("1,2,5").missing(3, 10), [0, 3, 4]);
    assert_eq!(read("0-8").missing(3, 10), [9]);
    assert!(read("0-9").missing(3, 10).is_empty() && read("").missing(0, 10).is_empty());
}

/// The indexes of the Pods that are made.
fn made(plan: &Plan) -> Vec<u32> {
    let creations = plan.writes.iter().filter(|write| write.to_string() == "create pods");
    let index = |write: &pintle_runtime::Write| {
        write.body()["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"]
            .as_str()
            .unwrap()
            .parse()
            .unwrap()
    };
    creations.map(index).collect()
}

#[test]
fn the_first_indexes_that_wait_are_next() {
    let spec = |parallelism: u32| json!({"completions": 8, "parallelism": parallelism});
    let cases = [
        ("all", json!({}), vec![], 3, vec![0, 1, 2]),
        ("some are done", json!({"completedIndexes": "0,2"}), vec![], 3, vec![1, 3, 4]),
        ("some run", json!({"completedIndexes": "0"}), vec![pod_of(1, "r", "Running")], 3, vec![2, 3]),
        ("one has just succeeded", json!({}), vec![pod_of(0, "s", "Succeeded")], 2, vec![1, 2]),
        ("no more are left", json!({"completedIndexes": "0-6"}), vec![], 3, vec![7]),
    ];
    for (why, status, pods, parallelism, expected) in cases {
        assert_eq!(made(&planned(&indexed(spec(parallelism), status), &pods)), expected, "{why}");
    }
}

#[test]
fn a_pod_knows_its_index() {
    let named = json!({"template": {"spec": {"initContainers": [{"name": "i", "image": "i"}],
        "containers": [{"name": "c", "image": "i", "env": [{"name": "JOB_COMPLETION_INDEX", "value": "own"}]}]}}});
    let mut job = indexed(named, json!({"completedIndexes": "0"}));
    job.metadata.name = Some("w".repeat(60));
    let pod = planned(&job, &[]).writes[0].body();
    let key = "batch.kubernetes.io/job-completion-index";
    assert_eq!((&pod["metadata"]["annotations"][key], &pod["metadata"]["labels"][key]), (&json!("1"), &json!("1")));
    assert_eq!(pod["spec"]["hostname"], format!("{}-1", "w".repeat(60)));
    assert_eq!(pod["metadata"]["generateName"], format!("{}-1-", "w".repeat(55)), "the server adds five more");
    let source = &pod["spec"]["initContainers"][0]["env"][0]["valueFrom"]["fieldRef"]["fieldPath"];
    assert_eq!(*source, json!(format!("metadata.labels['{key}']")));
    assert_eq!(pod["spec"]["containers"][0]["env"], json!([{"name": "JOB_COMPLETION_INDEX", "value": "own"}]));
    assert!(pod["metadata"]["annotations"]["batch.kubernetes.io/job-index-failure-count"].is_null());
}

#[test]
fn two_pods_of_an_index_and_pods_of_none_do_not_stay() {
    let job = indexed(json!({"completions": 3, "parallelism": 3}), json!({}));
    let pods = [
        pod_of(0, "young", "Pending"),
        pod_of(0, "old", "Running"),
        pod_of(1, "fine", "Running"),
        pod_of(7, "beyond", "Running"),
        pod("none", "Running", json!({})),
    ];
    let plan = planned(&job, &pods);
    let mut deleted: Vec<String> = writes(&plan).into_iter().filter(|write| write.starts_with("delete")).collect();
    deleted.sort();
    assert_eq!(deleted, ["delete pods/beyond", "delete pods/none", "delete pods/young"]);
    assert!(made(&plan).is_empty(), "what is missing is made when these are gone");
}

#[test]
fn a_job_that_is_made_smaller_forgets_what_lies_beyond() {
    let job =
        indexed(json!({"completions": 2, "parallelism": 2}), json!({"completedIndexes": "0,3-5", "succeeded": 4}));
    let status = status(&job, &planned(&job, &[]));
    assert_eq!((&status["completedIndexes"], &status["succeeded"]), (&json!("0"), &json!(1)));
}

/// A failed Pod of an index that had failed before.
fn failed(index: u32, name: &str, before: u32, seconds_ago: i64) -> Arc<Pod> {
    let mut change = of_index(index);
    change["metadata"]["annotations"]["batch.kubernetes.io/job-index-failure-count"] = json!(before.to_string());
    merge(&mut change, exited(1, seconds_ago));
    pod(name, "Failed", change)
}

fn per_index(limit: u32) -> Value {
    json!({"completions": 2, "parallelism": 2, "backoffLimitPerIndex": limit, "backoffLimit": i32::MAX})
}

#[test]
fn each_index_waits_for_itself_and_tells_its_successor_how_often_it_failed() {
    let job = indexed(per_index(5), json!({}));
    let plan = planned(&job, &[failed(0, "f", 2, 5)]);
    assert_eq!(made(&plan), [1], "the other index does not wait");
    let plan = planned(&job, &[failed(0, "f", 2, 5), pod_of(1, "r", "Running")]);
    assert_eq!(
        (made(&plan), plan.again.map(|again| again.as_secs())),
        (vec![], Some(35)),
        "40 s after the third failure"
    );
    let status = status(&job, &plan);
    assert_eq!(status["uncountedTerminatedPods"]["failed"], Value::Null, "it is kept until its successor exists");
    let plan = planned(&job, &[failed(0, "f", 2, 50), pod_of(1, "r", "Running")]);
    assert_eq!(plan.writes[0].body()["metadata"]["annotations"]["batch.kubernetes.io/job-index-failure-count"], "3");
    let plan = planned(&job, &[failed(0, "f", 2, 50), pod_of(0, "successor", "Running"), pod_of(1, "r", "Running")]);
    assert_eq!(self::status(&job, &plan)["uncountedTerminatedPods"]["failed"], json!(["f"]));
}

#[test]
fn an_index_that_failed_too_often_is_given_up_and_the_others_go_on() {
    let job = indexed(per_index(1), json!({}));
    let plan = planned(&job, &[failed(0, "f", 1, 100), pod_of(1, "r", "Running")]);
    let status = status(&job, &plan);
    assert_eq!(status["failedIndexes"], "0");
    assert!(made(&plan).is_empty() && holding(&status).is_empty(), "{status}");
    assert_eq!(self::status(&job, &planned(&job, &[]))["failedIndexes"], "", "none has failed yet");
    let plain = indexed(json!({}), json!({}));
    assert_eq!(self::status(&plain, &planned(&plain, &[]))["failedIndexes"], Value::Null);
}
