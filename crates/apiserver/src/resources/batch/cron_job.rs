//! A CronJob: a Job again and again.

use super::cron;
use crate::resources::print::{
    AGE, CONTAINERS, IMAGES, NAME, NONE, boolean, flag_word, integer, length, selector, since, text, text_or, wide,
};
use crate::strategy::{Printed, Strategy};
use pintle_meta::field::{Error, Errors, Path};
use pintle_meta::object;
use serde_json::{Value, json};

const COLUMNS: &[Printed] = &[
    NAME,
    text("Schedule", "batch.v1.CronJobSpec.schedule", |job, _| object::text(job, &["spec", "schedule"]).into()),
    text("Timezone", "batch.v1.CronJobSpec.timeZone", |job, _| text_or(job, &["spec", "timeZone"], NONE)),
    boolean("Suspend", "batch.v1.CronJobSpec.suspend", |job, _| flag_word(job, &["spec", "suspend"])),
    integer("Active", "batch.v1.CronJobStatus.active", |job, _| length(job, &["status", "active"])),
    text("Last Schedule", "batch.v1.CronJobStatus.lastScheduleTime", |job, now| {
        since(job, &["status", "lastScheduleTime"], NONE, now)
    }),
    AGE,
    CONTAINERS,
    IMAGES,
    wide("Selector", "batch.v1.JobSpec.selector", |job, _| {
        selector(object::at(job, &["spec", "jobTemplate", "spec", "selector"]))
    }),
];
/// A Job's name is this one's and a time.
const LONGEST_NAME: usize = 52;

pub struct CronJob;

impl Strategy for CronJob {
    fn prepare_create(&self, job: &mut Value) {
        object::set(job, &["status"], json!({}));
    }

    fn validate(&self, job: &Value, _old: Option<&Value>, errors: &mut Errors) {
        let spec = Path::new("spec");
        match object::text(job, &["spec", "schedule"]) {
            "" => errors.push(Error::required(&spec.child("schedule"), "")),
            schedule => {
                let here = spec.child("schedule");
                if let Some(problem) = cron::problem(schedule) {
                    errors.push(Error::invalid(&here, schedule, problem));
                }
                if schedule.contains("TZ") {
                    let detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
                    errors.push(Error::invalid(&here, schedule, detail));
                }
            }
        }
        let zone = object::text(job, &["spec", "timeZone"]);
        if !zone.is_empty() && jiff::tz::TimeZone::get(zone).is_err() {
            errors.push(Error::invalid(&spec.child("timeZone"), zone, format!("unknown time zone {zone}")));
        }
        if object::at(job, &["spec", "jobTemplate", "spec", "manualSelector"]) == Some(&Value::Bool(true)) {
            let here = spec.child("jobTemplate").child("spec").child("manualSelector");
            errors.push(Error::not_supported(&here, true, &["nil", "false"]));
        }
        let name = object::name(job);
        if name.len() > LONGEST_NAME {
            let here = Path::new("metadata").child("name");
            errors.push(Error::invalid(&here, name, format!("must be no more than {LONGEST_NAME} characters")));
        }
    }

    fn counts_generations(&self) -> bool {
        true
    }

    fn printed(&self) -> &'static [Printed] {
        COLUMNS
    }
}
