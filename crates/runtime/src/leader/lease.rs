//! The Lease as one competitor sees it: read, judged, taken, renewed, given back.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::{Api, PostParams};
use pintle_meta::Clock;
use tokio::time::Instant;

use super::LeaderConfig;
use crate::context::Context;
use crate::error::ApiError;

/// One competitor's view of the Lease.
pub(super) struct Elector {
    api: Api<Lease>,
    clock: Clock,
    pub(super) config: LeaderConfig,
    /// The record as it was when it last changed, and when that was seen here.
    seen: Option<(LeaseSpec, Instant)>,
    /// The Lease as the server has it since this one took or renewed it.
    held: Option<Lease>,
}

/// What became of a renewal that was answered.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Renewal {
    Held,
    /// Another has it, or it is gone.
    Lost,
}

impl Elector {
    pub(super) fn new(context: &Context, config: LeaderConfig) -> Self {
        let api = Api::namespaced(context.client.clone(), &config.namespace);
        Elector { api, clock: context.clock.clone(), config, seen: None, held: None }
    }

    /// Takes the Lease if it is free, ours or expired: its term and version then, nothing if another has it.
    pub(super) async fn acquire(&mut self) -> Result<Option<(i32, String)>, kube::Error> {
        self.held = None;
        let written = match self.api.get_opt(&self.config.name).await? {
            None => {
                let metadata = ObjectMeta { name: Some(self.config.name.clone()), ..ObjectMeta::default() };
                let lease = Lease { metadata, spec: Some(self.spec(0)) };
                self.api.create(&PostParams::default(), &lease).await
            }
            Some(found) => {
                let spec = found.spec.clone().unwrap_or_default();
                if !self.may_take(&spec) {
                    return Ok(None);
                }
                let term = spec.lease_transitions.unwrap_or(0).saturating_add(1);
                // The version that was read goes back with it: the first writer wins.
                let lease = Lease { spec: Some(self.spec(term)), ..found };
                self.api.replace(&self.config.name, &PostParams::default(), &lease).await
            }
        };
        match written {
            Ok(lease) => {
                let term = lease.spec.as_ref().and_then(|spec| spec.lease_transitions).unwrap_or(0);
                let version = lease.metadata.resource_version.clone().unwrap_or_default();
                self.held = Some(lease);
                Ok(Some((term, version)))
            }
            Err(error) if error.is_conflict() || error.is_already_exists() || error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether nobody may be acting under this record.
    fn may_take(&mut self, spec: &LeaseSpec) -> bool {
        let now = Instant::now();
        let since = match &self.seen {
            Some((before, since)) if before == spec => *since,
            _ => {
                self.seen = Some((spec.clone(), now));
                now
            }
        };
        match spec.holder_identity.as_deref() {
            None | Some("") => true,
            // Left from a leadership that was lost and whose run has ended, or from a write whose answer was.
            Some(holder) if holder == self.config.identity => true,
            Some(_) => {
                // What the holder promised counts, not what this one would have.
                let seconds = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
                let duration = seconds.filter(|seconds| *seconds > 0).map(Duration::from_secs);
                now >= since + duration.unwrap_or(self.config.lease_duration)
            }
        }
    }

    /// Writes a new time into the Lease that is held.
    pub(super) async fn renew(&mut self) -> Result<Renewal, kube::Error> {
        match self.write_time().await {
            // Somebody touched the Lease, or an earlier renewal arrived whose answer did not.
            Err(error) if error.is_conflict() => {
                if !self.is_still_ours().await? {
                    return Ok(Renewal::Lost);
                }
                self.write_time().await
            }
            answer => answer,
        }
    }

    async fn write_time(&mut self) -> Result<Renewal, kube::Error> {
        let Some(mut lease) = self.held.clone() else { return Ok(Renewal::Lost) };
        lease.spec.get_or_insert_default().renew_time = Some(MicroTime(self.clock.now()));
        match self.api.replace(&self.config.name, &PostParams::default(), &lease).await {
            Ok(lease) => {
                self.held = Some(lease);
                Ok(Renewal::Held)
            }
            Err(error) if error.is_not_found() => Ok(Renewal::Lost),
            Err(error) => Err(error),
        }
    }

    /// Reads the Lease again; it is ours if it is the same object in the same term.
    async fn is_still_ours(&mut self) -> Result<bool, kube::Error> {
        fn term(lease: &Lease) -> Option<(&str, &str, i32)> {
            let spec = lease.spec.as_ref()?;
            let holder = spec.holder_identity.as_deref()?;
            Some((lease.metadata.uid.as_deref()?, holder, spec.lease_transitions?))
        }
        let found = self.api.get_opt(&self.config.name).await?;
        let ours = self.held.as_ref().and_then(term);
        let is_ours = ours.is_some() && ours == found.as_ref().and_then(term);
        if is_ours {
            self.held = found;
        }
        Ok(is_ours)
    }

    /// Gives the Lease back, so that another need not wait for it to expire.
    pub(super) async fn release(&mut self) {
        let Some(mut lease) = self.held.take() else { return };
        let now = Some(MicroTime(self.clock.now()));
        let spec = lease.spec.get_or_insert_default();
        spec.holder_identity = Some(String::new());
        spec.lease_duration_seconds = Some(1);
        (spec.acquire_time, spec.renew_time) = (now.clone(), now);
        if let Err(error) = self.api.replace(&self.config.name, &PostParams::default(), &lease).await {
            tracing::warn!(name = %self.config.name, %error, "cannot give the Lease back; it expires");
        }
    }

    fn spec(&self, term: i32) -> LeaseSpec {
        let now = Some(MicroTime(self.clock.now()));
        LeaseSpec {
            acquire_time: now.clone(),
            renew_time: now,
            holder_identity: Some(self.config.identity.clone()),
            lease_duration_seconds: Some(i32::try_from(self.config.lease_duration.as_secs()).unwrap_or(i32::MAX)),
            lease_transitions: Some(term),
            ..LeaseSpec::default()
        }
    }
}
