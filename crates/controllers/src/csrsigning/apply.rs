//! Signs, and writes the certificate or why there is none.

use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use pintle_runtime::{Action, Attempt, Clock, Context, Error, Informer, Key, Random, Reconciler, error};
use serde_json::{Value, json};

use super::plan::{self, Authority, Step};

pub(super) struct Signer {
    client: Client,
    clock: Clock,
    random: Random,
    requests: Informer<CertificateSigningRequest>,
    authority: Authority,
}

impl Signer {
    pub(super) fn new(context: &Context, requests: Informer<CertificateSigningRequest>, authority: Authority) -> Self {
        let (clock, random) = (context.clock.clone(), context.random.clone());
        Signer { client: context.client.clone(), clock, random, requests, authority }
    }

    fn failed(&self, csr: &CertificateSigningRequest, message: &str) -> Value {
        let now = Some(Time(self.clock.now()));
        let mut conditions = csr.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
        conditions.push(CertificateSigningRequestCondition {
            type_: "Failed".to_owned(),
            status: "True".to_owned(),
            reason: Some("SignerValidationFailure".to_owned()),
            message: Some(message.to_owned()),
            last_update_time: now.clone(),
            last_transition_time: now,
        });
        json!({"conditions": conditions})
    }
}

impl Reconciler for Signer {
    async fn reconcile(&self, key: &Key, _: &Attempt) -> Result<Action, Error> {
        let Some(csr) = self.requests.get(key) else { return Ok(Action::done()) };
        let serial = (u128::from(self.random.next()) << 64) | u128::from(self.random.next());
        let status = match plan::step(&csr, self.clock.now(), serial) {
            Step::Nothing => return Ok(Action::done()),
            Step::Fail(why) => self.failed(&csr, why),
            Step::Sign(order) => match (self.authority)(&order) {
                Ok(pem) => json!({"certificate": ByteString(pem.into_bytes())}),
                Err(why) => self.failed(&csr, &why),
            },
        };
        let patch = json!({"metadata": {"resourceVersion": csr.metadata.resource_version}, "status": status});
        let requests: Api<CertificateSigningRequest> = Api::all(self.client.clone());
        let written = requests.patch_status(key.name(), &PatchParams::default(), &Patch::Merge(patch)).await;
        error::ignore_not_found(written)?;
        Ok(Action::done())
    }
}
