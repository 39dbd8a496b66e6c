//! Takes requests away whose time is over.

use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use kube::Client;
use kube::api::{Api, DeleteParams, Preconditions};
use pintle_runtime::{Action, ApiError, Attempt, Clock, Context, Error, Informer, Key, Reconciler};

use super::plan;

pub(super) struct Cleaner {
    client: Client,
    clock: Clock,
    requests: Informer<CertificateSigningRequest>,
}

impl Cleaner {
    pub(super) fn new(context: &Context, requests: Informer<CertificateSigningRequest>) -> Self {
        Cleaner { client: context.client.clone(), clock: context.clock.clone(), requests }
    }
}

impl Reconciler for Cleaner {
    async fn reconcile(&self, key: &Key, _: &Attempt) -> Result<Action, Error> {
        let Some(csr) = self.requests.get(key) else { return Ok(Action::done()) };
        let Some(end) = plan::ends_at(&csr) else { return Ok(Action::done()) };
        let left = end.duration_since(self.clock.now());
        if left.is_positive() {
            return Ok(Action::requeue_after(left.unsigned_abs()));
        }
        let requests: Api<CertificateSigningRequest> = Api::all(self.client.clone());
        // Another of the same name is younger.
        let preconditions = Preconditions { uid: csr.metadata.uid.clone(), ..Preconditions::default() };
        match requests.delete(key.name(), &DeleteParams::default().preconditions(preconditions)).await {
            Err(error) if error.is_not_found() => {}
            other => drop(other?),
        }
        Ok(Action::done())
    }
}
