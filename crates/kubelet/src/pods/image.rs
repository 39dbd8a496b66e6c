//! Sees to it that a container's image is there, without holding up a worker while it comes.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container as Spec, Pod, PodSpec, Secret};
use pintle_container::{Credentials, Image, PullRequest, Runtime};
use pintle_runtime::{Key, Objects};

use super::tally::count;
use super::{Pods, Seat};
use crate::credentials;
use crate::make::image_name;
use crate::plan::{FailedPull, Pull, pull_wait};

/// How often it is looked for an image that only others may bring.
const LOOK_AGAIN: Duration = Duration::from_secs(10);

pub(super) enum Outcome {
    /// It is there, with this digest.
    Ready(String),
    /// It is coming; the Pod's key is added when it is here.
    Pending,
    /// It could not be had; the plan says when to try again.
    Failed,
}

impl Pods {
    /// What the Pod's pull secrets have for this image. One that is not there is as good as empty.
    async fn credentials(&self, key: &Key, spec: &PodSpec, image: &str) -> Vec<Credentials> {
        let secrets: Objects<Secret> = Objects::namespaced(self.context.client.clone(), key.namespace());
        let mut found = Vec::new();
        for reference in spec.image_pull_secrets.iter().flatten() {
            match secrets.get_opt(&reference.name).await {
                Ok(Some(secret)) => found.extend(credentials::matching(&secret, image)),
                Ok(None) => {}
                Err(error) => tracing::warn!(secret = %reference.name, %error, "a pull secret cannot be read"),
            }
        }
        found
    }

    pub(super) async fn image(&self, key: &Key, pod: &Pod, spec: &PodSpec, seat: &Seat, container: &Spec) -> Outcome {
        let image = container.image.clone().unwrap_or_default();
        let reference = super::act::reference(pod, spec, &container.name);
        let recorder = seat.home.recorder.clone();
        let say = move |kind: &str, reason: &str, message: String| recorder.record(&reference, kind, reason, message);
        if let Some(Pull::Done(image_id)) = take_done(seat, &container.name) {
            return Outcome::Ready(image_id);
        }
        let refuse = |reason: &'static str, message: String| {
            say("Warning", "Failed", format!("Error: {reason}"));
            let retry_at = self.context.clock.now() + LOOK_AGAIN;
            let refused = Pull::Refused { reason, image: image.clone(), message, retry_at };
            seat.pulls().states.insert(container.name.clone(), refused);
            Outcome::Failed
        };
        if let Err(why) = image_name::check(&image) {
            let message = format!("Failed to apply default image tag {image:?}: {why}");
            say("Warning", "InspectFailed", message.clone());
            return refuse("InvalidImageName", message);
        }
        let policy = container.image_pull_policy.as_deref().unwrap_or("IfNotPresent");
        if policy != "Always" {
            match seat.home.runtime.image(&image).await {
                Ok(Some(present)) => {
                    let message = format!("Container image {image:?} already present on machine");
                    say("Normal", "Pulled", format!("{message} and can be accessed by the pod"));
                    return Outcome::Ready(present.id);
                }
                Ok(None) => {}
                Err(error) => {
                    let message = format!("Failed to inspect image {image:?}: {error}");
                    say("Warning", "InspectFailed", message.clone());
                    return refuse("ImageInspectError", message);
                }
            }
        }
        let now = self.context.clock.now();
        if policy == "Never" {
            let message = format!("Container image {image:?} is not present with pull policy of Never");
            say("Warning", "ErrImageNeverPull", message.clone());
            return refuse("ErrImageNeverPull", message);
        }
        // Another container of the Pod has found out that it cannot be had.
        let failed = seat.pulls().failures.get(&image).map(|(_, failed)| failed.clone());
        if let Some(failed) = failed.filter(|failed| now < failed.retry_at()) {
            seat.pulls().states.insert(container.name.clone(), Pull::Failed(failed));
            return Outcome::Failed;
        }
        say("Normal", "Pulling", format!("Pulling image {image:?}"));
        let annotations = pod.metadata.annotations.clone().unwrap_or_default();
        let request =
            PullRequest { image: image.clone(), container: container.name.clone(), annotations, credentials: None };
        let (known, providers) = match &seat.home.machine {
            Some(machine) => (self.credentials(key, spec, &image).await, machine.providers.clone()),
            None => (Vec::new(), None),
        };
        let runtime = seat.home.runtime.clone();
        let mut pulling = Box::pin(async move {
            let mut known = known;
            // A plugin takes its time; nothing waits for it but this pull.
            if let Some(providers) = providers {
                known.extend(providers.credentials(&request.image, now).await);
            }
            pull(runtime, request, known).await
        });
        // Most pulls of a simulated node are over before they begin, and need no second look at the Pod.
        if let Some(pulled) = (&mut pulling).now_or_never() {
            let pulled = told(pulled, &image, Duration::ZERO, &say);
            finish(seat, &container.name, &image, pulled, now);
            return match take_done(seat, &container.name) {
                Some(Pull::Done(image_id)) => Outcome::Ready(image_id),
                _ => Outcome::Failed,
            };
        }
        seat.pulls().states.insert(container.name.clone(), Pull::Going);
        let (pods, key, name, uid) = (self.clone(), key.clone(), container.name.clone(), seat.uid.clone());
        tokio::spawn(async move {
            let began = tokio::time::Instant::now();
            let shutdown = pods.context.shutdown.clone();
            let pulled = tokio::select! {
                biased;
                pulled = pulling => pulled,
                () = shutdown.fired() => return,
            };
            let pulled = told(pulled, &image, began.elapsed(), &say);
            if let Some(seat) = pods.seat_of(&key, &uid) {
                finish(&seat, &name, &image, pulled, pods.context.clock.now());
                pods.waker.add(key);
            }
        });
        Outcome::Pending
    }
}

/// With each of the credentials until one is taken, or without any.
async fn pull(
    runtime: Arc<dyn Runtime>,
    request: PullRequest,
    known: Vec<Credentials>,
) -> Result<Image, pintle_container::Error> {
    let mut refused = None;
    for credentials in known {
        match runtime.pull_image(PullRequest { credentials: Some(credentials), ..request.clone() }).await {
            Ok(image) => return Ok(image),
            Err(error) => refused = Some(error),
        }
    }
    match refused {
        Some(error) => Err(error),
        None => runtime.pull_image(request).await,
    }
}

fn take_done(seat: &Seat, container: &str) -> Option<Pull> {
    let mut pulls = seat.pulls();
    match pulls.states.get(container) {
        Some(Pull::Done(_)) => pulls.states.remove(container),
        _ => None,
    }
}

/// Tells how a pull ended and keeps what matters of it.
fn told(
    pulled: Result<Image, pintle_container::Error>,
    image: &str,
    took: Duration,
    say: &impl Fn(&str, &str, String),
) -> Result<String, String> {
    match pulled {
        Ok(pulled) => {
            // Go writes nothing as `0s`.
            let took = if took.is_zero() { "0s".to_owned() } else { format!("{took:?}") };
            let message = format!(
                "Successfully pulled image {image:?} in {took} ({took} including waiting). Image size: {} bytes.",
                pulled.size
            );
            say("Normal", "Pulled", message);
            Ok(pulled.id)
        }
        Err(error) => {
            say("Warning", "Failed", format!("Failed to pull image {image:?}: {error}"));
            say("Warning", "Failed", "Error: ErrImagePull".to_owned());
            Err(error.to_string())
        }
    }
}

fn finish(seat: &Seat, container: &str, image: &str, pulled: Result<String, String>, now: Timestamp) {
    let mut pulls = seat.pulls();
    let state = match pulled {
        Ok(image_id) => {
            pulls.failures.remove(image);
            Pull::Done(image_id)
        }
        Err(message) => {
            count(&seat.home.tallies.pull_errors);
            let times = pulls.failures.get(image).map_or(0, |(times, _)| *times);
            let failed = FailedPull { image: image.to_owned(), message, failed_at: now, wait: pull_wait(times) };
            pulls.failures.insert(image.to_owned(), (times.saturating_add(1), failed.clone()));
            Pull::Failed(failed)
        }
    };
    pulls.states.insert(container.to_owned(), state);
}
