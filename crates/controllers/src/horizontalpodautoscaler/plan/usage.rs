//! The published algorithm: how many replicas bring the average of a per-Pod metric to its target.
//!
//! ```text
//! wanted = ceil(replicas × usage / target)      4 Pods at 150 % of the target → 6
//! ```
//!
//! Pods that say nothing count cautiously: on the way down as if they were at the target, on the way up as if they were idle.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;

use super::requests::Requests;
use crate::pods;

/// While a Pod is this young its CPU counts only while it is ready: starting up takes more than running.
const CPU_INITIALIZATION: SignedDuration = SignedDuration::from_mins(5);

/// A Pod that became unready this soon after its start was never ready.
const INITIAL_READINESS_DELAY: SignedDuration = SignedDuration::from_secs(30);

/// What one Pod uses, in thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Sample {
    pub(in super::super) value: i64,
    pub(in super::super) at: Timestamp,
    /// The time over which it was measured.
    pub(in super::super) window: SignedDuration,
}

/// By the Pod's name.
pub(in super::super) type Samples = BTreeMap<String, Sample>;

/// By how much usage may miss its target before anything is done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in super::super) struct Tolerance {
    pub(in super::super) up: f64,
    pub(in super::super) down: f64,
}

impl Tolerance {
    pub(super) fn allows(self, ratio: f64) -> bool {
        (1.0 - self.down..=1.0 + self.up).contains(&ratio)
    }
}

/// What is compared with the target.
#[derive(Debug)]
pub(super) enum Measure {
    /// Thousandths per Pod.
    Average { target: i64 },
    /// Percent of what the Pods request.
    Utilization { target: i32, requests: Requests },
}

/// Usage beside its target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Usage {
    pub(super) ratio: f64,
    /// Percent, if that is the measure.
    pub(super) utilization: Option<i32>,
    /// Thousandths per Pod.
    pub(super) average: i64,
}

impl Measure {
    fn of(&self, samples: &Samples) -> Result<Usage, String> {
        let sum = |values: &mut dyn Iterator<Item = i64>| values.fold(0, i64::saturating_add);
        match self {
            Measure::Average { target } => {
                let average = sum(&mut samples.values().map(|sample| sample.value)) / count(samples.len()).max(1);
                Ok(Usage { ratio: average as f64 / *target as f64, utilization: None, average })
            }
            Measure::Utilization { target, requests } => {
                let known: Vec<(i64, i64)> =
                    samples.iter().filter_map(|(name, sample)| Some((sample.value, *requests.get(name)?))).collect();
                let used = sum(&mut known.iter().map(|(value, _)| *value));
                let requested = sum(&mut known.iter().map(|(_, request)| *request));
                if requested == 0 {
                    return Err("no metrics returned matched known pods".to_owned());
                }
                let percent = (i128::from(used) * 100) / i128::from(requested);
                let percent = i32::try_from(percent).unwrap_or(i32::MAX);
                let ratio = f64::from(percent) / f64::from(*target);
                Ok(Usage { ratio, utilization: Some(percent), average: used / count(known.len()) })
            }
        }
    }

    /// What a Pod without a sample is assumed to use while the others use too little.
    fn assumed(&self, pod: &str) -> i64 {
        match self {
            Measure::Average { target } => *target,
            Measure::Utilization { target, requests } => {
                requests.get(pod).copied().unwrap_or(0).saturating_mul((*target).max(100).into()) / 100
            }
        }
    }
}

/// How many replicas there should be by this measure, and what was measured.
pub(super) fn replicas(
    measure: impl FnOnce() -> Result<Measure, String>,
    (now_there, tolerance): (i32, Tolerance),
    samples: &Samples,
    groups: &Groups<'_>,
) -> Result<(i32, Usage), String> {
    let mut counted = samples.clone();
    counted.retain(|name, _| !groups.ignored.contains(name.as_str()) && !groups.unready.contains(name.as_str()));
    if counted.is_empty() {
        return Err("did not receive metrics for targeted pods (pods might be unready)".to_owned());
    }
    let measure = measure()?;
    let usage = measure.of(&counted)?;
    let is_above = usage.ratio > 1.0;
    let counts_unready = is_above && !groups.unready.is_empty();
    if !counts_unready && groups.missing.is_empty() {
        let wanted = match tolerance.allows(usage.ratio) {
            true => now_there,
            false => whole(usage.ratio * groups.ready as f64),
        };
        return Ok((wanted, usage));
    }
    let mut assume = |names: &BTreeSet<&str>, value: &dyn Fn(&str) -> i64| {
        let sample = |name| Sample { value: value(name), at: Timestamp::UNIX_EPOCH, window: SignedDuration::ZERO };
        counted.extend(names.iter().map(|name| ((*name).to_owned(), sample(name))));
    };
    if usage.ratio < 1.0 {
        assume(&groups.missing, &|name| measure.assumed(name));
    } else if is_above {
        assume(&groups.missing, &|_| 0);
    }
    if counts_unready {
        assume(&groups.unready, &|_| 0);
    }
    let cautious = measure.of(&counted)?.ratio;
    let turned = (usage.ratio < 1.0 && cautious > 1.0) || (is_above && cautious < 1.0);
    if turned || tolerance.allows(cautious) {
        return Ok((now_there, usage));
    }
    let wanted = whole(cautious * counted.len() as f64);
    // Those that were assumed may be more than there should be: never the other way than the measure says.
    let is_contrary = (cautious < 1.0 && wanted > now_there) || (cautious > 1.0 && wanted < now_there);
    Ok((if is_contrary { now_there } else { wanted }, usage))
}

/// The Pods of a target, by how their samples count.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Groups<'a> {
    /// How many count as they are.
    pub(super) ready: usize,
    /// Not running yet, or starting up: what they use says nothing.
    pub(super) unready: BTreeSet<&'a str>,
    /// Nothing is known of what they use.
    pub(super) missing: BTreeSet<&'a str>,
    /// Failed, or on their way out.
    pub(super) ignored: BTreeSet<&'a str>,
}

impl<'a> Groups<'a> {
    /// Readiness counts for CPU alone.
    pub(super) fn of(
        pods: impl Iterator<Item = &'a Pod>,
        samples: &Samples,
        resource: Option<&str>,
        now: Timestamp,
    ) -> Self {
        let mut groups = Groups::default();
        for pod in pods {
            let name = pod.metadata.name.as_deref().unwrap_or_default();
            let sample = samples.get(name);
            if pod.metadata.deletion_timestamp.is_some() || pods::phase(pod) == "Failed" {
                groups.ignored.insert(name);
            } else if pods::phase(pod) == "Pending" {
                groups.unready.insert(name);
            } else if let Some(sample) = sample {
                match resource == Some("cpu") && is_starting(pod, sample, now) {
                    true => drop(groups.unready.insert(name)),
                    false => groups.ready += 1,
                }
            } else {
                groups.missing.insert(name);
            }
        }
        groups
    }
}

/// Whether a Pod's CPU is that of a start.
fn is_starting(pod: &Pod, sample: &Sample, now: Timestamp) -> bool {
    let started = pod.status.as_ref().and_then(|status| status.start_time.as_ref());
    let (Some(ready), Some(started)) = (pods::ready_condition(pod), started) else { return true };
    let is_unready = ready.status == "False";
    let turned = ready.last_transition_time.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0);
    match started.0 + CPU_INITIALIZATION > now {
        // It must have been measured for a whole window since it became ready.
        true => is_unready || sample.at < turned + sample.window,
        false => is_unready && started.0 + INITIAL_READINESS_DELAY > turned,
    }
}

/// A number of replicas, rounded up.
pub(super) fn whole(replicas: f64) -> i32 {
    #[expect(clippy::cast_possible_truncation, reason = "what is too large becomes the largest number")]
    let whole = replicas.ceil() as i32;
    whole
}

fn count(length: usize) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
}
