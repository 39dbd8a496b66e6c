//! For tests: a plugin that has lamps and does as it is told.

use std::path::Path;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures::StreamExt;
use pintle_meta::Clock;
use tokio::sync::watch;

use super::messages::{
    AllocateRequest, AllocateResponse, CdiDevice, ContainerAllocateResponse, ContainerPreferredAllocationResponse,
    DevicePluginOptions, DeviceSpec, ListAndWatchResponse, Mount, PreStartContainerRequest, PreStartContainerResponse,
    PreferredAllocationRequest, PreferredAllocationResponse,
};
use super::*;

pub(crate) const LAMP: &str = "example.com/lamp";

/// A plugin of [`LAMP`]. It ends when its list of devices is dropped.
pub(crate) struct Lamps {
    lists: Mutex<Option<watch::Receiver<Vec<Device>>>>,
    options: DevicePluginOptions,
    /// What it would give first.
    preferred: Vec<String>,
    /// What it was asked, in words.
    asked: Mutex<Vec<String>>,
}

/// A sender of lists of devices as in `a b !c`, where the last is not well.
pub(crate) struct Shelf(watch::Sender<Vec<Device>>);

impl Shelf {
    pub(crate) fn put(&self, devices: &str) {
        self.0.send_replace(parsed(devices));
    }
}

impl Lamps {
    pub(crate) fn new(devices: &str) -> (Arc<Self>, Shelf) {
        Lamps::preferring(devices, "", DevicePluginOptions::default())
    }

    pub(crate) fn preferring(devices: &str, preferred: &str, options: DevicePluginOptions) -> (Arc<Self>, Shelf) {
        let (sender, receiver) = watch::channel(parsed(devices));
        let preferred = preferred.split_whitespace().map(str::to_owned).collect();
        let lamps = Lamps { lists: Mutex::new(Some(receiver)), options, preferred, asked: Mutex::default() };
        (Arc::new(lamps), Shelf(sender))
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }

    fn note(&self, question: String) {
        self.asked.lock().unwrap().push(question);
    }
}

fn parsed(devices: &str) -> Vec<Device> {
    let device = |word: &str| match word.strip_prefix('!') {
        Some(id) => Device { id: id.to_owned(), health: messages::UNHEALTHY.to_owned() },
        None => Device { id: word.to_owned(), health: messages::HEALTHY.to_owned() },
    };
    devices.split_whitespace().map(device).collect()
}

#[async_trait]
impl Plugin for Lamps {
    async fn options(&self) -> Result<DevicePluginOptions, Status> {
        Ok(self.options)
    }

    async fn list_and_watch(&self) -> Result<Lists, Status> {
        let receiver = self.lists.lock().unwrap().take();
        let receiver = receiver.ok_or_else(|| Status::unavailable("it was listened to before"))?;
        let lists = futures::stream::unfold((receiver, true), async |(mut receiver, first)| {
            if !first {
                receiver.changed().await.ok()?;
            }
            let devices = receiver.borrow_and_update().clone();
            Some((Ok(ListAndWatchResponse { devices }), (receiver, false)))
        });
        Ok(lists.boxed())
    }

    async fn preferred(&self, request: PreferredAllocationRequest) -> Result<PreferredAllocationResponse, Status> {
        let of = &request.container_requests[0];
        self.note(format!(
            "prefer {} of {} with {}",
            of.allocation_size,
            of.available_device_ids.join(" "),
            of.must_include_device_ids.join(" ")
        ));
        let response = ContainerPreferredAllocationResponse { device_ids: self.preferred.clone() };
        Ok(PreferredAllocationResponse { container_responses: vec![response] })
    }

    async fn allocate(&self, request: AllocateRequest) -> Result<AllocateResponse, Status> {
        let ids = request.container_requests[0].devices_ids.clone();
        self.note(format!("allocate {}", ids.join(" ")));
        let devices = ids.iter().map(|id| DeviceSpec {
            container_path: format!("/dev/{id}"),
            host_path: "/dev/null".to_owned(),
            permissions: "rw".to_owned(),
        });
        let response = ContainerAllocateResponse {
            envs: [("LAMPS".to_owned(), ids.join(" "))].into(),
            mounts: vec![Mount { container_path: "/lamp".into(), host_path: "/opt/lamp".into(), read_only: true }],
            devices: devices.collect(),
            annotations: [("lamp".to_owned(), "on".to_owned())].into(),
            cdi_devices: ids.iter().map(|id| CdiDevice { name: format!("example.com/lamp={id}") }).collect(),
        };
        Ok(AllocateResponse { container_responses: vec![response] })
    }

    async fn pre_start(&self, request: PreStartContainerRequest) -> Result<PreStartContainerResponse, Status> {
        self.note(format!("ready {}", request.devices_ids.join(" ")));
        Ok(PreStartContainerResponse {})
    }
}

/// The devices of a node that keeps what it must remember below `directory`.
pub(crate) fn devices(directory: &Path, clock: &Clock) -> Arc<Devices> {
    let checkpoint = directory.join("devices.checkpoint");
    Arc::new(Devices::new(directory.join("plugins"), checkpoint, clock.clone()))
}

/// Has the plugin register and be followed until the test's runtime ends; it was heard when this is done.
pub(crate) async fn register(devices: &Arc<Devices>, lamps: &Arc<Lamps>) {
    let mut changes = devices.changes();
    let watch = devices.take_on(LAMP, lamps.clone()).await.unwrap();
    let devices = devices.clone();
    tokio::spawn(async move { devices.watch(watch).await });
    changes.changed().await.unwrap();
}
