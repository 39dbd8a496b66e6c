//! The phases of an At, one handler each. Each write can be the last before a crash; the next process goes on from what is there.
//!
//! - The Pod's name is made of the At's UID, so that there cannot be two, and a successor At has another.
//! - The Pod carries a finalizer of ours: it cannot vanish before its end is written down, so that a Pod which is not
//!   there was never started.
//! - The At carries a finalizer of ours: it cannot vanish before its record in the cloud is released.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use kube::api::{ObjectMeta, PostParams};
use kube::{Resource, ResourceExt};
use pintle_runtime::conditions::{Report, Truth};
use pintle_runtime::error::ignore_not_found;
use pintle_runtime::machine::{Machine, Next, Phases};
use pintle_runtime::{
    ApiError, Attempt, Context, Controller, Error, Finalizer, Held, Informer, Key, Recorder, owner, when, write,
};

use crate::cloud::Cloud;
use crate::plan::{Due, Run, due, run_of};
use crate::types::{At, AtStatus, Holds, Outcome, Phase};

/// On an At: its record in the cloud is not released yet.
const RECORD: Finalizer = Finalizer("cnat.programming-kubernetes.info/record");

/// On a Pod: its end is not written down yet.
const UNTOLD: &str = "cnat.programming-kubernetes.info/untold";

/// Runs the operator until its context's shutdown fires.
pub async fn run(context: Context, cloud: Cloud) {
    let recorder = context.recorder("at-operator");
    let machine = Ats { recorder: recorder.clone(), pods: context.informers.of(), cloud };
    Controller::new("at", &context)
        .for_each::<At>(when::spec)
        .owns::<Pod>(when::anything)
        .workers(2)
        .run(Phases::new(machine, context.informers.of(), recorder))
        .await;
}

struct Ats {
    recorder: Recorder,
    pods: Informer<Pod>,
    cloud: Cloud,
}

/// ```text
///            time comes,                   Pod ends
///            record is there               or is deleted
/// PENDING ───────────────────▶ RUNNING ───────────────────▶ DONE
///    │ ▲
///    └─┘ schedule is edited
/// ```
impl Machine for Ats {
    type Object = At;
    type Phase = Phase;

    const FINALIZER: Option<Finalizer> = Some(RECORD);

    fn phase(status: &mut AtStatus) -> &mut Option<Phase> {
        &mut status.phase
    }

    async fn handle(
        &self,
        phase: Option<Phase>,
        at: &Held<At>,
        status: &mut AtStatus,
        attempt: &Attempt,
    ) -> Result<Next<Phase>, Error> {
        let (pod, report) = (self.pod_of(at), Report::on(at.meta(), attempt.now()));
        let edited = status.observed_generation.is_some() && status.observed_generation != at.meta().generation;
        if edited && phase != Some(Phase::Pending) {
            self.recorder.warning(&**at, "EditIgnored", "it has been started; edits change nothing any more");
        }
        status.observed_generation = at.meta().generation;
        match phase {
            None => Ok(Next::enter(Phase::Pending, format!("runs at {}", at.spec.schedule))),
            Some(Phase::Pending) => self.pending(at, run_of(pod.as_deref()), (status, report), attempt).await,
            Some(Phase::Running) => self.running(at, run_of(pod.as_deref()), (status, report), attempt).await,
            Some(Phase::Done) => {
                // Only now: the end of the Pod is written down.
                let_go(pod.as_deref(), attempt).await?;
                Ok(Next::Stay)
            }
        }
    }

    async fn clean_up(&self, at: &At, attempt: &Attempt) -> Result<(), Error> {
        if let Err(away) = self.cloud.release(at) {
            self.recorder.warning(at, "ReleaseFailed", away.to_string());
            return Err(Error::Outside(away.to_string()));
        }
        // Nobody will read what came of it. The garbage collector deletes it with its owner.
        let_go(self.pod_of(at).as_deref(), attempt).await
    }
}

impl Ats {
    /// Waits for the time, with a record in the cloud, and starts the Pod.
    async fn pending(
        &self,
        at: &Held<At>,
        run: Run,
        (status, report): (&mut AtStatus, Report),
        attempt: &Attempt,
    ) -> Result<Next<Phase>, Error> {
        self.reserve(at, status, report)?;
        match due(at, run, attempt.now()) {
            Due::Never => {
                let message = format!("{:?} is not a time such as 2026-11-15T21:37:00Z", at.spec.schedule);
                if report.set(&mut status.conditions, Holds::Scheduled, false, "InvalidSchedule", &message) {
                    self.recorder.warning(&**at, "InvalidSchedule", message);
                }
                return Ok(Next::Stay);
            }
            Due::In(time) => {
                let message = format!("runs at {}", at.spec.schedule);
                report.set(&mut status.conditions, Holds::Scheduled, true, "TimeKnown", message);
                return Ok(Next::StayFor(time));
            }
            Due::Now => self.start(at, attempt).await?,
            Due::Started => {}
        }
        report.set(&mut status.conditions, Holds::Scheduled, true, "TimeHasCome", "its time has come");
        status.pod = pod_name(at);
        let message = format!("Pod {} was started; it was due at {}", status.pod, at.spec.schedule);
        Ok(Next::enter(Phase::Running, message))
    }

    /// Waits for the end of the Pod, and writes down what came of it.
    async fn running(
        &self,
        at: &Held<At>,
        run: Run,
        (status, report): (&mut AtStatus, Report),
        attempt: &Attempt,
    ) -> Result<Next<Phase>, Error> {
        let outcome = match run {
            Run::Unfinished => return Ok(Next::Stay),
            Run::Over(outcome) => outcome,
            // Nobody but this operator may let the Pod go, so somebody took its finalizer off by hand, or the cache is behind.
            Run::Absent if attempt.api::<Pod>().get_opt(&pod_name(at)).await?.is_some() => return Err(Error::Stale),
            Run::Absent => Outcome::Deleted,
        };
        status.result = Some(outcome);
        let message = match outcome {
            Outcome::Succeeded => "every container succeeded",
            Outcome::Failed => "a container failed",
            Outcome::Deleted => "the Pod was deleted before it ended",
        };
        report.set(&mut status.conditions, Holds::Complete, true, reason_of(outcome), message);
        Ok(Next::enter(Phase::Done, format!("Pod {} has ended", pod_name(at))))
    }

    /// Books the record, again and again while the cloud is away: nothing runs without it.
    fn reserve(&self, at: &Held<At>, status: &mut AtStatus, report: Report) -> Result<(), Error> {
        match self.cloud.reserve(at) {
            Ok(()) => {
                report.set(&mut status.conditions, Holds::Reserved, true, "Booked", "the cloud has a record");
                Ok(())
            }
            Err(away) => {
                let message = away.to_string();
                if report.set(&mut status.conditions, Holds::Reserved, Truth::Unknown, "CloudAway", &message) {
                    self.recorder.warning(&**at, "CloudAway", &message);
                }
                Err(Error::Outside(message))
            }
        }
    }

    /// Starts the Pod unless it was started. Asks the server first: a cache may show an At as it was before it was done.
    async fn start(&self, at: &Held<At>, attempt: &Attempt) -> Result<(), Error> {
        let latest = attempt.api::<At>().get(&at.name_any()).await?;
        let is_same = latest.uid() == at.uid() && latest.meta().deletion_timestamp.is_none();
        let is_pending = latest.status.as_ref().and_then(|status| status.phase) == Some(Phase::Pending);
        if !is_same || !is_pending || due(&latest, Run::Absent, attempt.now()) != Due::Now {
            return Err(Error::Stale);
        }
        let pods = attempt.api::<Pod>();
        match pods.create(&PostParams::default(), &pod_for(at)).await {
            Err(error) if error.is_already_exists() => {
                let present = pods.get(&pod_name(at)).await?;
                match owner::is_controlled_by(&present.metadata, at.meta().uid.as_deref()) {
                    true => Ok(()),
                    false => Err(Error::Invalid(format!("Pod {} is not this At's; delete it", pod_name(at)))),
                }
            }
            other => other.map(drop).map_err(Error::from),
        }
    }

    /// The one Pod that this At has, if it is there.
    fn pod_of(&self, at: &At) -> Option<Arc<Pod>> {
        let key = Key::new(at.namespace().unwrap_or_default(), pod_name(at));
        self.pods.get(&key).filter(|pod| owner::is_controlled_by(&pod.metadata, at.meta().uid.as_deref()))
    }
}

/// Takes our finalizer off the Pod.
async fn let_go(pod: Option<&Pod>, attempt: &Attempt) -> Result<(), Error> {
    if let Some(pod) = pod {
        ignore_not_found(write::remove_finalizer(&attempt.api::<Pod>(), &pod.metadata, UNTOLD).await)?;
    }
    Ok(())
}

fn reason_of(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Succeeded => "Succeeded",
        Outcome::Failed => "Failed",
        Outcome::Deleted => "Deleted",
    }
}

fn pod_name(at: &At) -> String {
    let uid = at.uid().unwrap_or_default();
    // The name stays recognisable and within 63 characters; the first block of a UID tells two lives of a name apart.
    let name: String = at.name_any().chars().take(50).collect();
    let name = name.trim_end_matches(['-', '.']);
    format!("{name}-{}", uid.split('-').next().unwrap_or_default())
}

fn pod_for(at: &At) -> Pod {
    let short = || Container {
        name: "command".to_owned(),
        image: Some("busybox".to_owned()),
        command: Some(["sh", "-c", &at.spec.command].map(str::to_owned).to_vec()),
        ..Container::default()
    };
    // What kubectl notes on the At is about the At.
    let is_own = |name: &String| !name.starts_with("kubectl.kubernetes.io/");
    let annotations = at.annotations().clone().into_iter().filter(|(name, _)| is_own(name));
    let containers = if at.spec.containers.is_empty() { vec![short()] } else { at.spec.containers.clone() };
    Pod {
        metadata: ObjectMeta {
            name: Some(pod_name(at)),
            namespace: at.namespace(),
            labels: Some([("cnat.programming-kubernetes.info/at".to_owned(), at.name_any())].into()),
            annotations: Some(annotations.collect()),
            owner_references: Some(vec![owner::controller_reference(at)]),
            finalizers: Some(vec![UNTOLD.to_owned()]),
            ..ObjectMeta::default()
        },
        spec: Some(PodSpec { containers, restart_policy: Some("Never".to_owned()), ..PodSpec::default() }),
        ..Pod::default()
    }
}
