//! Writes bindings and phases, and tells people about them.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Client, Resource};
use pintle_runtime::{
    Action, Attempt, Clock, Context, Error, Informer, Key, Objects, Reconciler, Recorder, error, storage,
};
use serde_json::{Value, json};

use super::plan::{self, Around, ClaimVerdict, Note, Reclaim, VolumeVerdict};
use super::{host_path, used_claims};
use crate::pods;

pub(super) struct Binder {
    client: Client,
    clock: Clock,
    recorder: Recorder,
    /// Whether this machine is the cluster's node.
    is_node: bool,
    claims: Informer<PersistentVolumeClaim>,
    volumes: Informer<PersistentVolume>,
    classes: Informer<StorageClass>,
    pods: Informer<Pod>,
}

impl Reconciler for Binder {
    async fn reconcile(&self, key: &Key, _: &Attempt) -> Result<Action, Error> {
        if key.namespace().is_empty() {
            if let Some(volume) = self.volumes.get(key) {
                self.settle_volume(volume).await?;
            }
        } else if let Some(claim) = self.claims.get(key) {
            self.settle_claim(key, &claim).await?;
        }
        Ok(Action::done())
    }
}

impl Binder {
    pub(super) fn new(
        context: &Context,
        is_node: bool,
        claims: Informer<PersistentVolumeClaim>,
        volumes: Informer<PersistentVolume>,
        classes: Informer<StorageClass>,
        pods: Informer<Pod>,
    ) -> Self {
        let (client, clock) = (context.client.clone(), context.clock.clone());
        let recorder = context.recorder("persistentvolume-controller");
        Binder { client, clock, recorder, is_node, claims, volumes, classes, pods }
    }

    async fn settle_claim(&self, key: &Key, claim: &PersistentVolumeClaim) -> Result<(), Error> {
        let (volumes, classes) = (self.volumes.all(), self.classes.all());
        let users = self.pods.by(used_claims, &key.to_string());
        let waits = |pod: &&Arc<Pod>| !pods::is_terminal(pod) && pods::node_name(pod).is_empty();
        let waiting: Vec<String> = users.iter().filter(waits).filter_map(|pod| pod.metadata.name.clone()).collect();
        let around = Around { volumes: &volumes, classes: &classes, waiting: &waiting };
        match plan::judge_claim(claim, &around) {
            ClaimVerdict::Bind(volume) => self.bind(claim, volume).await,
            ClaimVerdict::Classify(class) => {
                let mut patch = storage::at_version(&claim.metadata);
                patch["spec"] = json!({"storageClassName": class});
                self.patch_claim(claim, patch).await.map(drop)
            }
            ClaimVerdict::Provision(provisioner) => {
                if let Some(patch) = plan::provisioner(claim, &provisioner) {
                    self.patch_claim(claim, patch).await?;
                }
                let message = format!(
                    "Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually by \
                     the system administrator. If volume creation is delayed, please verify that the provisioner is \
                     running and correctly registered."
                );
                self.recorder.normal(claim, "ExternalProvisioning", message);
                Ok(())
            }
            ClaimVerdict::Wait(note) => {
                self.tell(claim, note.as_ref());
                self.write_claim_status(claim, plan::unbound_status(claim, "Pending")).await
            }
            ClaimVerdict::Lost(note) => self.lose(claim, &note).await,
        }
    }

    async fn lose(&self, claim: &PersistentVolumeClaim, note: &Note) -> Result<(), Error> {
        let Some(patch) = plan::unbound_status(claim, "Lost") else { return Ok(()) };
        if let Some(name) = storage::volume_name(claim) {
            // The cache may not have seen the volume yet, or not as it is.
            let volumes: Vec<_> = self.volumes_api().get_opt(name).await?.map(Arc::new).into_iter().collect();
            let around = Around { volumes: &volumes, classes: &[], waiting: &[] };
            if !matches!(plan::judge_claim(claim, &around), ClaimVerdict::Lost(_)) {
                return Err(Error::Stale);
            }
        }
        self.write_claim_status(claim, Some(patch)).await?;
        self.tell(claim, Some(note));
        Ok(())
    }

    /// The volume first: of two who want it, the one whose write goes through has it. Wherever this ends, the next look at
    /// the claim goes on from there.
    async fn bind(&self, claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> Result<(), Error> {
        let name = volume.metadata.name.as_deref().unwrap_or_default();
        if volume.spec.as_ref().and_then(|spec| spec.capacity.as_ref()?.get("storage")).is_none() {
            return Err(Error::Invalid(format!("PersistentVolume {name:?} is without a storage capacity")));
        }
        let mut volume = volume.clone();
        if let Some(patch) = storage::reservation(&volume, claim) {
            volume = self.volumes_api().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?;
        }
        self.write_phase(&volume, "Bound", "").await?;
        let mut claim = claim.clone();
        if let Some(patch) = plan::completion(&claim, &volume) {
            match self.patch_claim(&claim, patch).await? {
                Some(written) => claim = written,
                None => return Ok(()),
            }
        }
        self.write_claim_status(&claim, plan::bound_status(&claim, &volume)).await
    }

    async fn settle_volume(&self, volume: Arc<PersistentVolume>) -> Result<(), Error> {
        let holder = plan::holder(&volume);
        let claim = holder.as_ref().and_then(|key| self.claims.get(key));
        let mut verdict = plan::judge_volume(&volume, claim.as_deref());
        if verdict == VolumeVerdict::Release && !is_settled(&volume) {
            // What is on a volume must not be given up because the cache is behind.
            let fresh = self.volumes_api().get_opt(&name_of(volume.as_ref())).await?;
            if fresh.is_none_or(|fresh| fresh.metadata.resource_version != volume.metadata.resource_version) {
                return Err(Error::Stale);
            }
            let claim = match holder {
                Some(key) => self.claims_api(key.namespace()).get_opt(key.name()).await?,
                None => None,
            };
            verdict = plan::judge_volume(&volume, claim.as_ref());
        }
        match verdict {
            VolumeVerdict::Phase(phase) => self.write_phase(&volume, phase, "").await.map(drop),
            VolumeVerdict::Unbind => {
                let name = name_of(volume.as_ref());
                let patch = Patch::Merge(plan::unbinding(&volume));
                let freed = self.volumes_api().patch(&name, &PatchParams::default(), &patch).await;
                match error::ignore_not_found(freed)? {
                    Some(freed) => self.write_phase(&freed, "Available", "").await.map(drop),
                    None => Ok(()),
                }
            }
            VolumeVerdict::Await(notes) => {
                if let (Some([of_volume, of_claim]), Some(claim)) = (notes, claim) {
                    self.tell(volume.as_ref(), Some(&of_volume));
                    self.tell(claim.as_ref(), Some(&of_claim));
                }
                Ok(())
            }
            VolumeVerdict::Release => self.release(&volume).await,
        }
    }

    async fn release(&self, volume: &PersistentVolume) -> Result<(), Error> {
        let mut volume = volume.clone();
        // That it failed before stays to be seen while it is tried again.
        if plan::phase(&volume) != "Failed" {
            match self.write_phase(&volume, "Released", "").await? {
                Some(written) => volume = written,
                None => return Ok(()),
            }
        }
        match plan::reclaim(&volume) {
            Reclaim::Keep | Reclaim::LeaveToMaker => Ok(()),
            Reclaim::Fail(note) => self.fail(&volume, note).await,
            Reclaim::Remove(path) => {
                let removed = match self.is_node {
                    true => host_path::remove(&path).await.map_err(|error| error.to_string()),
                    false => Err("the loop that would remove it does not run on the node that has it".to_owned()),
                };
                match removed {
                    Ok(()) => self.delete(&volume).await,
                    Err(error) => {
                        let message = format!("{} cannot be removed: {error}", path.display());
                        self.fail(&volume, Note { warns: true, reason: "VolumeFailedDelete", message }).await
                    }
                }
            }
        }
    }

    async fn delete(&self, volume: &PersistentVolume) -> Result<(), Error> {
        let uid = volume.metadata.uid.clone();
        let how = DeleteParams::default().preconditions(Preconditions { uid, resource_version: None });
        error::ignore_not_found(self.volumes_api().delete(&name_of(volume), &how).await)?;
        Ok(())
    }

    async fn fail(&self, volume: &PersistentVolume, note: Note) -> Result<(), Error> {
        let is_news = plan::phase(volume) != "Failed";
        self.write_phase(volume, "Failed", &note.message).await?;
        self.tell(volume, is_news.then_some(&note));
        Ok(())
    }

    /// The volume as it is then; nothing if it is gone.
    async fn write_phase(
        &self,
        volume: &PersistentVolume,
        phase: &str,
        message: &str,
    ) -> Result<Option<PersistentVolume>, Error> {
        if plan::phase(volume) == phase {
            return Ok(Some(volume.clone()));
        }
        let now = Time(self.clock.now());
        let mut patch = storage::at_version(&volume.metadata);
        let message = if message.is_empty() { Value::Null } else { message.into() };
        patch["status"] = json!({"phase": phase, "message": message, "lastPhaseTransitionTime": now});
        let parameters = PatchParams::default();
        let written = self.volumes_api().patch_status(&name_of(volume), &parameters, &Patch::Merge(patch)).await;
        Ok(error::ignore_not_found(written)?)
    }

    async fn write_claim_status(&self, claim: &PersistentVolumeClaim, patch: Option<Value>) -> Result<(), Error> {
        let Some(patch) = patch else { return Ok(()) };
        let api = self.claims_api(claim.metadata.namespace.as_deref().unwrap_or_default());
        let written = api.patch_status(&name_of(claim), &PatchParams::default(), &Patch::Merge(patch)).await;
        error::ignore_not_found(written)?;
        Ok(())
    }

    /// The claim as it is then; nothing if it is gone.
    async fn patch_claim(
        &self,
        claim: &PersistentVolumeClaim,
        patch: Value,
    ) -> Result<Option<PersistentVolumeClaim>, Error> {
        let api = self.claims_api(claim.metadata.namespace.as_deref().unwrap_or_default());
        let written = api.patch(&name_of(claim), &PatchParams::default(), &Patch::Merge(patch)).await;
        Ok(error::ignore_not_found(written)?)
    }

    fn tell<K: Resource<DynamicType = ()>>(&self, object: &K, note: Option<&Note>) {
        match note {
            Some(note) if note.warns => self.recorder.warning(object, note.reason, note.message.clone()),
            Some(note) => self.recorder.normal(object, note.reason, note.message.clone()),
            None => {}
        }
    }

    fn volumes_api(&self) -> Objects<PersistentVolume> {
        Objects::all(self.client.clone())
    }

    fn claims_api(&self, namespace: &str) -> Objects<PersistentVolumeClaim> {
        Objects::namespaced(self.client.clone(), namespace)
    }
}

fn name_of<K: Resource>(object: &K) -> String {
    object.meta().name.clone().unwrap_or_default()
}

/// Released, and nothing is left to be done: most volumes that are kept stay so for long.
fn is_settled(volume: &PersistentVolume) -> bool {
    plan::phase(volume) == "Released" && matches!(plan::reclaim(volume), Reclaim::Keep | Reclaim::LeaveToMaker)
}
