//! What a device plugin can be asked, and the ones that are asked over their sockets.

use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::BoxStream;
use pintle_container::grpc::client::Caller;
use tonic::{Code, Status};

use super::messages::{
    ALLOCATE, AllocateRequest, AllocateResponse, DevicePluginOptions, Empty, LIST_AND_WATCH, ListAndWatchResponse,
    OPTIONS, PRE_START, PREFERRED, PreStartContainerRequest, PreStartContainerResponse, PreferredAllocationRequest,
    PreferredAllocationResponse,
};

/// How long a plugin may take for an answer on which a Pod waits; upstream gives as much before a start.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long a plugin that has registered may take until it serves.
const CONNECT: Duration = Duration::from_secs(10);
const CONNECT_AGAIN: Duration = Duration::from_millis(50);

/// The lists of a plugin's devices, as they change.
pub type Lists = BoxStream<'static, Result<ListAndWatchResponse, Status>>;

/// One that offers the devices of one resource.
#[async_trait]
pub trait Plugin: Send + Sync + 'static {
    async fn options(&self) -> Result<DevicePluginOptions, Status> {
        Ok(DevicePluginOptions::default())
    }

    async fn list_and_watch(&self) -> Result<Lists, Status>;

    /// Asked for only if the options say so.
    async fn preferred(&self, _: PreferredAllocationRequest) -> Result<PreferredAllocationResponse, Status> {
        Ok(PreferredAllocationResponse::default())
    }

    async fn allocate(&self, request: AllocateRequest) -> Result<AllocateResponse, Status>;

    /// Asked for only if the options say so.
    async fn pre_start(&self, _: PreStartContainerRequest) -> Result<PreStartContainerResponse, Status> {
        Ok(PreStartContainerResponse::default())
    }
}

/// A plugin behind its socket.
pub(super) struct Remote(Caller);

impl Remote {
    pub(super) fn new(socket: &Path) -> Self {
        Remote(Caller::new(socket))
    }
}

#[async_trait]
impl Plugin for Remote {
    /// The first question: the plugin may register before it serves.
    async fn options(&self) -> Result<DevicePluginOptions, Status> {
        let asked = tokio::time::timeout(CONNECT, async {
            loop {
                match self.0.call(OPTIONS, Empty {}, CONNECT).await {
                    Err(status) if status.code() == Code::Unavailable => tokio::time::sleep(CONNECT_AGAIN).await,
                    answer => return answer,
                }
            }
        });
        asked.await.unwrap_or_else(|_| Err(Status::unavailable("it does not serve its socket")))
    }

    async fn list_and_watch(&self) -> Result<Lists, Status> {
        Ok(self.0.follow(LIST_AND_WATCH, Empty {}).await?.boxed())
    }

    async fn preferred(&self, request: PreferredAllocationRequest) -> Result<PreferredAllocationResponse, Status> {
        self.0.call(PREFERRED, request, PATIENCE).await
    }

    async fn allocate(&self, request: AllocateRequest) -> Result<AllocateResponse, Status> {
        self.0.call(ALLOCATE, request, PATIENCE).await
    }

    async fn pre_start(&self, request: PreStartContainerRequest) -> Result<PreStartContainerResponse, Status> {
        self.0.call(PRE_START, request, PATIENCE).await
    }
}
