//! Sees to it that a container's image is there, without holding up a worker while it comes.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container as Spec, Pod, PodSpec, Secret};
use kube::api::Api;
use pintle_container::{Credentials, Image, PullRequest, Runtime};
use pintle_runtime::Key;

use super::{Pods, Seat};
use crate::credentials;
use crate::plan::{Pull, pull_wait};

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
        let secrets: Api<Secret> = Api::namespaced(self.context.client.clone(), key.namespace());
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
        let policy = container.image_pull_policy.as_deref().unwrap_or("IfNotPresent");
        if policy != "Always"
            && let Ok(Some(present)) = seat.home.runtime.image(&image).await
        {
            say("Normal", "Pulled", format!("Container image {image:?} already present on machine"));
            return Outcome::Ready(present.id);
        }
        let now = self.context.clock.now();
        if policy == "Never" {
            let message = format!("Container image {image:?} is not present with pull policy of Never");
            say("Warning", "ErrImageNeverPull", message.clone());
            say("Warning", "Failed", "Error: ErrImageNeverPull".to_owned());
            let forbidden = Pull::Forbidden { message, retry_at: now + LOOK_AGAIN };
            seat.pulls().states.insert(container.name.clone(), forbidden);
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
            finish(seat, &container.name, pulled, now);
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
                finish(&seat, &name, pulled, pods.context.clock.now());
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

fn finish(seat: &Seat, container: &str, pulled: Result<String, String>, now: Timestamp) {
    let mut pulls = seat.pulls();
    let state = match pulled {
        Ok(image_id) => {
            pulls.failures.remove(container);
            Pull::Done(image_id)
        }
        Err(message) => {
            let failures = pulls.failures.entry(container.to_owned()).or_default();
            let wait = pull_wait(*failures);
            *failures = failures.saturating_add(1);
            Pull::Failed { message, failed_at: now, wait }
        }
    };
    pulls.states.insert(container.to_owned(), state);
}
