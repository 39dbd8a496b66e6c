//! Gives devices to the containers of a Pod: asks their plugin, and puts into a container what the plugin says.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container as Spec, PodSpec};
use pintle_container::{ContainerConfig, Device, Mount, Propagation};

use super::allot::{Ask, Choice, Preference, Refused, choose};
use super::books::Holding;
use super::messages::{
    AllocateRequest, ContainerAllocateRequest, ContainerAllocateResponse, ContainerPreferredAllocationRequest,
    DevicePluginOptions, PreStartContainerRequest, PreferredAllocationRequest,
};
use super::plugin::Plugin;
use super::{Devices, Status};
use crate::make::containers;

/// Whether a Pod may need devices at all; only the resources of others than Kubernetes can be of plugins.
pub(crate) fn may_ask(spec: &PodSpec) -> bool {
    let limits = containers(spec).filter_map(|container| container.resources.as_ref()?.limits.as_ref());
    limits.flat_map(BTreeMap::keys).any(|name| name.contains('/'))
}

impl Devices {
    /// Gives all containers of a Pod what they ask for, or none of them.
    pub(crate) async fn admit(&self, pod: &str, spec: &PodSpec) -> Result<(), Refused> {
        let _turn = self.turn.lock().await;
        let before = self.state().books.of_pod(pod).cloned();
        for container in containers(spec) {
            if let Err(refused) = self.allot(pod, spec, container).await {
                self.state().books.restore(pod, before);
                return Err(refused);
            }
        }
        self.save().await.map_err(|message| {
            self.state().books.restore(pod, before);
            Refused::Failed(message)
        })
    }

    /// Readies the devices of a container that is about to start, and adds what it needs to use them.
    pub(crate) async fn give(
        &self,
        pod: &str,
        spec: &PodSpec,
        container: &Spec,
        config: &mut ContainerConfig,
    ) -> Result<(), String> {
        let asked = self.asked(container);
        if asked.is_empty() {
            return Ok(());
        }
        let has_all = |devices: &Devices| {
            let state = devices.state();
            let of = state.books.of_container(pod, &container.name);
            asked.keys().all(|resource| of.is_some_and(|of| of.contains_key(resource)))
        };
        // What was known was lost, or the plugin came after the Pod.
        if !has_all(self) {
            let _turn = self.turn.lock().await;
            self.allot(pod, spec, container).await.map_err(|refused| refused.to_string())?;
            self.save().await?;
        }
        let held = self.state().books.of_container(pod, &container.name).cloned().unwrap_or_default();
        for (resource, holding) in &held {
            self.ready(resource, holding).await?;
        }
        add(config, held.values().map(|holding| &holding.answer));
        Ok(())
    }

    /// The plugin's chance to bring the devices into a state in which a container can have them.
    async fn ready(&self, resource: &str, holding: &Holding) -> Result<(), String> {
        match self.plugin(resource) {
            Some((plugin, options)) if options.pre_start_required => {
                let devices_ids = holding.devices.iter().cloned().collect();
                let answer = plugin.pre_start(PreStartContainerRequest { devices_ids }).await;
                answer
                    .map(|_| ())
                    .map_err(|status| format!("device plugin PreStartContainer rpc failed with err: {}", told(&status)))
            }
            _ => Ok(()),
        }
    }

    /// The resources of plugins that a container asks for, and how much of each.
    fn asked(&self, container: &Spec) -> BTreeMap<String, usize> {
        let limits = container.resources.iter().filter_map(|resources| resources.limits.as_ref()).flatten();
        let state = self.state();
        limits
            .filter(|(name, _)| state.books.is_known(name))
            .filter_map(|(name, amount)| {
                let amount = pintle_meta::quantity::Quantity::parse(&amount.0).ok()?;
                let amount = usize::try_from(amount.units()).ok().filter(|amount| *amount > 0)?;
                Some((name.clone(), amount))
            })
            .collect()
    }

    /// Chooses devices for a container and has its plugins give them.
    async fn allot(&self, pod: &str, spec: &PodSpec, container: &Spec) -> Result<(), Refused> {
        for (resource, required) in self.asked(container) {
            let choice = {
                let state = self.state();
                let books = &state.books;
                let has = books.of_container(pod, &container.name).and_then(|of| of.get(&resource));
                choose(&Ask {
                    pod,
                    container: &container.name,
                    resource: &resource,
                    required,
                    has: has.map(|holding| &holding.devices),
                    healthy: books.healthy(&resource),
                    taken: &books.taken(&resource),
                    reusable: &books.reusable(pod, spec, &container.name, &resource),
                })?
            };
            let devices = match choice {
                Choice::Keep => continue,
                Choice::Take(devices) => devices,
                Choice::Prefer(preference) => {
                    let preferred = self.preferred(&resource, &preference, required).await?;
                    preference.complete(&preferred)
                }
            };
            let answer = self.allocate(&resource, &devices).await?;
            self.state().books.give(pod, &container.name, &resource, Holding { devices, answer });
        }
        Ok(())
    }

    async fn preferred(
        &self,
        resource: &str,
        preference: &Preference,
        required: usize,
    ) -> Result<BTreeSet<String>, Refused> {
        let Some((plugin, options)) = self.plugin(resource) else { return Ok(BTreeSet::new()) };
        if !options.get_preferred_allocation_available {
            return Ok(BTreeSet::new());
        }
        let request = ContainerPreferredAllocationRequest {
            available_device_ids: preference.free.union(&preference.chosen).cloned().collect(),
            must_include_device_ids: preference.chosen.iter().cloned().collect(),
            allocation_size: i32::try_from(required).unwrap_or(i32::MAX),
        };
        let answer = plugin.preferred(PreferredAllocationRequest { container_requests: vec![request] }).await;
        let answer = answer.map_err(|status| {
            Refused::Failed(format!("device plugin GetPreferredAllocation rpc failed with err: {}", told(&status)))
        })?;
        let first = answer.container_responses.into_iter().next().unwrap_or_default();
        Ok(first.device_ids.into_iter().collect())
    }

    async fn allocate(&self, resource: &str, devices: &BTreeSet<String>) -> Result<ContainerAllocateResponse, Refused> {
        let Some((plugin, _)) = self.plugin(resource) else {
            return Err(Refused::Failed(format!("unknown Device Plugin {resource}")));
        };
        let request = ContainerAllocateRequest { devices_ids: devices.iter().cloned().collect() };
        let answer = plugin.allocate(AllocateRequest { container_requests: vec![request] }).await;
        let answer = answer.map_err(|status| Refused::Failed(told(&status)))?;
        let first = answer.container_responses.into_iter().next();
        first.ok_or_else(|| Refused::Failed(format!("no containers return in allocation response of {resource}")))
    }

    fn plugin(&self, resource: &str) -> Option<(Arc<dyn Plugin>, DevicePluginOptions)> {
        let state = self.state();
        state.plugins.get(resource).map(|registered| (registered.plugin.clone(), registered.options))
    }
}

/// What a plugin's refusal says, in the form that its logs and those of others have.
fn told(status: &Status) -> String {
    format!("rpc error: code = {:?} desc = {}", status.code(), status.message())
}

/// Adds what plugins have answered. The first word on a name or path counts; the Pod's own variables come before any.
fn add<'a>(config: &mut ContainerConfig, answers: impl Iterator<Item = &'a ContainerAllocateResponse>) {
    let (mut variables, mut mounts) = (Vec::<(String, String)>::new(), Vec::<Mount>::new());
    let mut annotations = BTreeMap::new();
    for answer in answers {
        for (name, value) in &answer.envs {
            if !config.environment.iter().chain(&variables).any(|(known, _)| known == name) {
                variables.push((name.clone(), value.clone()));
            }
        }
        for mount in &answer.mounts {
            if !mounts.iter().any(|known| known.container_path == mount.container_path) {
                mounts.push(Mount {
                    host_path: mount.host_path.clone(),
                    container_path: mount.container_path.clone(),
                    read_only: mount.read_only,
                    propagation: Propagation::Private,
                });
            }
        }
        for device in &answer.devices {
            if !config.devices.iter().any(|known| known.container_path == device.container_path) {
                config.devices.push(Device {
                    host_path: device.host_path.clone(),
                    container_path: device.container_path.clone(),
                    permissions: device.permissions.clone(),
                });
            }
        }
        for (name, value) in &answer.annotations {
            annotations.entry(name.clone()).or_insert_with(|| value.clone());
        }
        for device in &answer.cdi_devices {
            if !config.cdi_devices.contains(&device.name) {
                config.cdi_devices.push(device.name.clone());
            }
        }
    }
    // The Pod's own mounts come after these, so that they can lie inside of them.
    config.environment.splice(0..0, variables);
    config.annotations.extend(annotations);
    config.mounts.splice(0..0, mounts);
}
