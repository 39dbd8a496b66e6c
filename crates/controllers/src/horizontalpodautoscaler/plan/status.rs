//! The status and the Events of an autoscaler: what could be read, what was decided, and what held it back.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::autoscaling::v2::{
    HorizontalPodAutoscaler, HorizontalPodAutoscalerCondition, HorizontalPodAutoscalerStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use pintle_runtime::plan::{Note, StatusUpdate};
use pintle_runtime::{Plan, Write, conditions};

use super::BadSelector;
use super::limits::{Direction, Limit, Limited};
use super::metric::Unmeasured;

const ABLE: &str = "AbleToScale";
const ACTIVE: &str = "ScalingActive";
const LIMITED: &str = "ScalingLimited";

/// A status under construction.
pub(super) struct Report {
    pub(super) status: HorizontalPodAutoscalerStatus,
    /// The same if the Scale cannot be written.
    if_failed: Option<HorizontalPodAutoscalerStatus>,
    events: Vec<Note>,
    now: Timestamp,
}

impl Report {
    pub(super) fn of(autoscaler: &HorizontalPodAutoscaler, now: Timestamp) -> Self {
        let status = autoscaler.status.clone().unwrap_or_default();
        // The API keeps whole seconds.
        let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
        Report { status, if_failed: None, events: Vec::new(), now }
    }

    pub(super) fn reached(&mut self) {
        self.set(ABLE, true, "SucceededGetScale", "the HPA controller was able to get the target's current scale");
        self.status.current_metrics = None;
    }

    pub(super) fn unreachable(&mut self, error: &str) {
        self.events.push(Note::warning("FailedGetScale", error));
        let message = format!("the HPA controller was unable to get the target's current scale: {error}");
        self.set(ABLE, false, "FailedGetScale", message);
    }

    pub(super) fn disabled(&mut self) {
        let message = "scaling is disabled since the replica count of the target is zero";
        self.set(ACTIVE, false, "ScalingDisabled", message);
    }

    pub(super) fn bad_selector(&mut self, error: &BadSelector) {
        let (event, reason, message, told) = match error {
            BadSelector::Missing => (
                "SelectorRequired",
                "InvalidSelector",
                "the HPA target's scale is missing a selector".to_owned(),
                "selector is required".to_owned(),
            ),
            BadSelector::Unreadable(error) => {
                let message =
                    format!("couldn't convert selector into a corresponding internal selector object: {error}");
                ("InvalidSelector", "InvalidSelector", message.clone(), message)
            }
            BadSelector::Ambiguous(message) => {
                ("AmbiguousSelector", "AmbiguousSelector", message.clone(), message.clone())
            }
        };
        self.events.push(Note::warning(event, told.clone()));
        self.events.push(Note::warning("FailedComputeMetricsReplicas", told));
        self.set(ACTIVE, false, reason, message);
    }

    pub(super) fn unmeasured(&mut self, failures: &[Unmeasured]) {
        let told = |failure: &Unmeasured| Note::warning(failure.reason, failure.message.clone());
        self.events.extend(failures.iter().map(told));
    }

    /// Too few metrics can be told to decide anything.
    pub(super) fn inactive(&mut self, first: &Unmeasured, failed: usize, all: usize) {
        let message = format!("the HPA was unable to compute the replica count: {}", first.message);
        self.set(ACTIVE, false, first.reason, message);
        let told = format!("invalid metrics ({failed} invalid out of {all}), first error is: {}", first.told);
        self.events.push(Note::warning("FailedComputeMetricsReplicas", told));
    }

    pub(super) fn active(&mut self, metric: &str) {
        let message = format!("the HPA was able to successfully calculate a replica count from {metric}");
        self.set(ACTIVE, true, "ValidMetricFound", message);
    }

    pub(super) fn limited(&mut self, limited: &Limited) {
        let (reason, message) = match limited.stabilized {
            Some(Direction::Up) => (
                "ScaleUpStabilized",
                "recent recommendations were lower than current one, applying the lowest recent recommendation",
            ),
            Some(Direction::Down) => (
                "ScaleDownStabilized",
                "recent recommendations were higher than current one, applying the highest recent recommendation",
            ),
            None => ("ReadyForNewScale", "recommended size matches current size"),
        };
        self.set(ABLE, true, reason, message);
        let (reason, message) = match limited.limit {
            Limit::WithinRange => ("DesiredWithinRange", "the desired count is within the acceptable range"),
            Limit::TooMany => ("TooManyReplicas", "the desired replica count is more than the maximum replica count"),
            Limit::TooFew => ("TooFewReplicas", "the desired replica count is less than the minimum replica count"),
            Limit::UpRate => {
                ("ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate")
            }
            Limit::DownRate => {
                ("ScaleDownLimit", "the desired replica count is decreasing faster than the maximum scale rate")
            }
        };
        self.set(LIMITED, limited.is_limited, reason, message);
    }

    /// The Scale is written: the status tells it once it is, and if it cannot be.
    pub(super) fn rescaled(&mut self, replicas: i32) {
        let before = self.status.clone();
        let message = "the HPA controller was unable to update the target scale: {error}";
        self.set(ABLE, false, "FailedUpdateScale", message);
        // What was desired before stays: nothing came of this.
        self.if_failed = Some(std::mem::replace(&mut self.status, before));
        let message = format!("the HPA controller was able to update the target scale to {replicas}");
        self.set(ABLE, true, "SucceededRescale", message);
        self.status.last_scale_time = Some(Time(self.now));
    }

    pub(super) fn into_plan(self, autoscaler: &HorizontalPodAutoscaler, writes: Vec<Write>, again: Duration) -> Plan {
        let before = autoscaler.status.as_ref();
        let mut update = StatusUpdate::of(autoscaler, before, &self.status);
        if let Some(mut failed) = self.if_failed {
            failed.desired_replicas = before.map_or(0, |before| before.desired_replicas);
            update = update.if_failed(&failed);
        }
        Plan { writes, status: Some(update), events: self.events, again: Some(again), ..Plan::default() }
    }

    fn set(&mut self, kind: &str, is_true: bool, reason: &str, message: impl Into<String>) {
        let condition = HorizontalPodAutoscalerCondition {
            type_: kind.to_owned(),
            status: if is_true { "True" } else { "False" }.to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message.into()),
            last_transition_time: Some(Time(self.now)),
        };
        conditions::set(self.status.conditions.get_or_insert_default(), condition);
    }
}
