//! A Job: Pods that run until enough of them have succeeded.

use super::job_status;
use crate::resources::check::{self, same};
use crate::resources::print::{AGE, CONTAINERS, IMAGES, NAME, count, selector, text, wide};
use crate::strategy::{Dependents, Printed, Strategy};
use crate::table;
use jiff::Timestamp;
use pintle_meta::field::{Error, Errors, Path};
use pintle_meta::{labels::Selector, object, rules};
use serde_json::{Value, json};

const COLUMNS: &[Printed] = &[
    NAME,
    text("Status", "Status of the job.", |job, _| status(job).into()),
    text("Completions", "batch.v1.JobStatus.succeeded", |job, _| completions(job).into()),
    text("Duration", "Time required to complete the job.", |job, now| duration(job, now).into()),
    AGE,
    CONTAINERS,
    IMAGES,
    wide("Selector", "batch.v1.JobSpec.selector", |job, _| selector(object::at(job, &["spec", "selector"]))),
];

const CONTROLLER_UID: &str = "batch.kubernetes.io/controller-uid";
const JOB_NAME: &str = "batch.kubernetes.io/job-name";
const IMMUTABLE: [&str; 7] = [
    "selector",
    "template",
    "completionMode",
    "podFailurePolicy",
    "backoffLimitPerIndex",
    "managedBy",
    "successPolicy",
];

pub struct Job;

impl Strategy for Job {
    fn default(&self, job: &mut Value) {
        let spec = object::map_at(job, "spec");
        let has = |key: &str| spec.get(key).is_some_and(|v| !v.is_null());
        let alone = !has("completions") && !has("parallelism");
        let backoff = if has("backoffLimitPerIndex") { i64::from(i32::MAX) } else { 6 };
        let replacement = if has("podFailurePolicy") { "Failed" } else { "TerminatingOrFailed" };
        if alone {
            object::fill(spec, "completions", 1);
        }
        object::fill(spec, "parallelism", 1);
        object::fill(spec, "backoffLimit", backoff);
        object::fill(spec, "completionMode", "NonIndexed");
        object::fill(spec, "suspend", false);
        object::fill(spec, "podReplacementPolicy", replacement);
        object::fill(spec, "manualSelector", false);
        label_like_template(job);
    }

    /// A Job selects its own Pods, by its uid, unless it says that it knows better.
    fn prepare_create(&self, job: &mut Value) {
        object::set(job, &["status"], json!({}));
        if object::flag(job, &["spec", "manualSelector"]) {
            return;
        }
        let (name, uid) = (object::name(job).to_owned(), object::uid(job).to_owned());
        let spec = object::map_at(job, "spec");
        let template = object::as_map(spec.entry("template").or_insert_with(|| json!({})));
        let metadata = object::as_map(template.entry("metadata").or_insert_with(|| json!({})));
        let labels = object::as_map(metadata.entry("labels").or_insert_with(|| json!({})));
        for (key, value) in [("job-name", &name), (JOB_NAME, &name), ("controller-uid", &uid), (CONTROLLER_UID, &uid)] {
            object::fill(labels, key, value.as_str());
        }
        let selector = object::as_map(spec.entry("selector").or_insert_with(|| json!({})));
        let wanted = object::as_map(selector.entry("matchLabels").or_insert_with(|| json!({})));
        object::fill(wanted, CONTROLLER_UID, uid);
        label_like_template(job);
    }

    fn validate(&self, job: &Value, _old: Option<&Value>, errors: &mut Errors) {
        check_generated(job, errors);
        check_host_names(job, errors);
        let spec = Path::new("spec");
        let selector = object::at(job, &["spec", "selector"]).filter(|s| !s.is_null());
        let labels = object::at(job, &["spec", "template", "metadata", "labels"]);
        match selector.and_then(|s| Selector::from_label_selector(Some(s))) {
            None => errors.push(Error::required(&spec.child("selector"), "")),
            Some(selector) if !selector.matches_labels(labels) => errors.push(Error::invalid(
                &spec.child("template").child("metadata").child("labels"),
                labels.cloned().unwrap_or_else(|| json!({})),
                "`selector` does not match template `labels`",
            )),
            Some(_) => {}
        }
    }

    fn validate_update(&self, job: &Value, old: &Value, _subresource: &str, errors: &mut Errors) {
        for key in IMMUTABLE {
            if key == "template" && rests(old) {
                check_template(job, old, errors);
            } else {
                check::immutable(job, old, &["spec", key], errors);
            }
        }
        let indexed = object::text(job, &["spec", "completionMode"]) == "Indexed";
        let number = |value: &Value, key: &str| object::integer(value, &["spec", key]);
        if !indexed {
            check::immutable(job, old, &["spec", "completions"], errors);
        } else if number(job, "completions") != number(old, "completions")
            && number(job, "completions") != number(job, "parallelism")
        {
            let here = Path::new("spec").child("completions");
            let shown = number(job, "completions").unwrap_or(0);
            errors.push(Error::invalid(&here, shown, "can only be modified in tandem with spec.parallelism"));
        }
    }

    fn validate_status(&self, job: &Value, old: &Value, errors: &mut Errors) {
        job_status::check(job, old, errors);
    }

    fn warnings(&self, job: &Value, _old: Option<&Value>) -> Vec<String> {
        let problems = rules::dns_label(object::name(job));
        if problems.is_empty() {
            return Vec::new();
        }
        vec![format!(
            "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended: [{}]",
            problems.join(" ")
        )]
    }

    fn counts_generations(&self) -> bool {
        true
    }

    fn selectable_fields(&self) -> &'static [&'static str] {
        &["status.successful"]
    }

    fn selectable_field(&self, job: &Value, _field: &str) -> String {
        count(job, &["status", "succeeded"]).to_string()
    }

    fn unknown_field(&self, field: &str) -> String {
        format!("field label {field:?} not supported for Job")
    }

    fn dependents(&self) -> Dependents {
        Dependents::Orphan
    }

    fn deletion_warning(&self) -> Option<&'static str> {
        Some(
            "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning",
        )
    }

    fn printed(&self) -> &'static [Printed] {
        COLUMNS
    }
}

/// What the server generates must be as generated: labels of somebody else's would select somebody else's Pods.
fn check_generated(job: &Value, errors: &mut Errors) {
    if object::flag(job, &["spec", "manualSelector"]) {
        return;
    }
    let (name, uid) = (object::name(job), object::uid(job));
    let labels = object::at(job, &["spec", "template", "metadata", "labels"]);
    let here = Path::new("spec").child("template").child("metadata").child("labels");
    // Jobs of old servers do not have the prefixed labels.
    let is_old = labels.is_some_and(|labels| labels.get(JOB_NAME).is_none() || labels.get(CONTROLLER_UID).is_none());
    for (key, wanted) in [("controller-uid", uid), ("job-name", name), (CONTROLLER_UID, uid), (JOB_NAME, name)] {
        let label = labels.and_then(|labels| labels.get(key)).and_then(Value::as_str);
        match label {
            Some(label) if label == wanted => {}
            Some(_) => {
                let shown = labels.cloned().unwrap_or_default();
                errors.push(Error::invalid(&here.key(key), shown, format!("must be '{wanted}'")));
            }
            None if is_old && key.contains('/') => {}
            None => errors.push(Error::required(&here.key(key), format!("must be '{wanted}'"))),
        }
    }
}

/// A Pod of an indexed Job has the Job's name and its index as a host name.
fn check_host_names(job: &Value, errors: &mut Errors) {
    let completions = object::integer(job, &["spec", "completions"]).filter(|completions| *completions > 0);
    let indexed = object::text(job, &["spec", "completionMode"]) == "Indexed";
    let Some(completions) = completions.filter(|_| indexed) else { return };
    let longest = format!("{}-{}", object::name(job), completions - 1);
    if !rules::dns_label(&longest).is_empty() {
        let detail = format!("will not able to create pod with invalid DNS label: {longest}");
        errors.push(Error::invalid(&Path::new("metadata").child("name"), object::name(job), detail));
    }
}

fn label_like_template(job: &mut Value) {
    let none =
        object::at(job, &["metadata", "labels"]).and_then(Value::as_object).is_none_or(serde_json::Map::is_empty);
    if let Some(labels) = object::at(job, &["spec", "template", "metadata", "labels"]).filter(|l| none && l.is_object())
    {
        object::set(job, &["metadata", "labels"], labels.clone());
    }
}

/// Whether the Job is suspended and no Pod of it runs: then its Pods may still move elsewhere, or become larger.
fn rests(job: &Value) -> bool {
    let conditions = object::list(job, &["status", "conditions"]);
    let is_told = conditions.iter().any(|c| c["type"] == "Suspended" && c["status"] == "True");
    let never_started = object::text(job, &["status", "startTime"]).is_empty();
    object::flag(job, &["spec", "suspend"])
        && (never_started || is_told)
        && object::integer(job, &["status", "active"]).unwrap_or(0) == 0
}

/// Of the template of a Job that rests, what says where Pods run and what they request may change.
fn check_template(job: &Value, old: &Value, errors: &mut Errors) {
    let without_place = |job: &Value| {
        let mut template = object::at(job, &["spec", "template"]).cloned().unwrap_or_default();
        for key in ["nodeSelector", "tolerations", "affinity", "schedulingGates"] {
            object::remove(&mut template, &["spec", key]);
        }
        for key in ["labels", "annotations"] {
            object::remove(&mut template, &["metadata", key]);
        }
        for key in ["containers", "initContainers"] {
            let containers = template.get_mut("spec").and_then(|spec| spec.get_mut(key)).and_then(Value::as_array_mut);
            for container in containers.into_iter().flatten() {
                object::remove(container, &["resources"]);
            }
        }
        template
    };
    if !same(&without_place(job), &without_place(old)) {
        let shown = object::at(job, &["spec", "template"]).cloned().unwrap_or_default();
        errors.push(Error::invalid(&Path::new("spec").child("template"), shown, check::IMMUTABLE));
    }
}

fn status(job: &Value) -> &'static str {
    let is = |kind: &str| {
        object::list(job, &["status", "conditions"]).iter().any(|c| c["type"] == kind && c["status"] == "True")
    };
    match () {
        () if is("Complete") => "Complete",
        () if is("Failed") => "Failed",
        () if object::is_being_deleted(job) => "Terminating",
        () if is("Suspended") => "Suspended",
        () if is("FailureTarget") => "FailureTarget",
        () if is("SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    }
}

fn completions(job: &Value) -> String {
    let done = count(job, &["status", "succeeded"]);
    match object::integer(job, &["spec", "completions"]) {
        Some(wanted) => format!("{done}/{wanted}"),
        None => match object::integer(job, &["spec", "parallelism"]).unwrap_or(0) {
            parallel if parallel > 1 => format!("{done}/1 of {parallel}"),
            _ => format!("{done}/1"),
        },
    }
}

fn duration(job: &Value, now: Timestamp) -> String {
    let time = |key: &str| object::text(job, &["status", key]).parse::<Timestamp>().ok();
    match (time("startTime"), time("completionTime")) {
        (None, _) => String::new(),
        (Some(start), end) => table::duration(end.unwrap_or(now).as_second() - start.as_second()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_finds_its_own_pods() {
        let mut job = json!({"metadata": {"name": "j", "uid": "u"}, "spec": {"template": {"spec": {}}}});
        Job.default(&mut job);
        Job.prepare_create(&mut job);
        assert_eq!(job["spec"]["selector"], json!({"matchLabels": {CONTROLLER_UID: "u"}}));
        assert_eq!(job["spec"]["template"]["metadata"]["labels"]["job-name"], "j");
        assert_eq!(job["metadata"]["labels"], job["spec"]["template"]["metadata"]["labels"]);
        let mut errors = Errors::new();
        Job.validate(&job, None, &mut errors);
        assert!(errors.is_empty());
    }
}
