//! The Lease that says that a node is there, every ten seconds if nobody asks for another pace.

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, OwnerReference};
use kube::Client;
use kube::api::PostParams;
use kube::core::Request;
use pintle_meta::Clock;
use pintle_runtime::{ApiError, Context, Error, Objects};
use serde::Deserialize;

use crate::config::NodeConfig;

const NAMESPACE: &str = "kube-node-lease";

pub(super) struct Heartbeat {
    client: Client,
    leases: Objects<Lease>,
    clock: Clock,
    node: String,
    seconds: i32,
    /// As last written, so that a renewal is one request.
    held: Option<Lease>,
}

/// All that the answer to a renewal is read for.
#[derive(Deserialize)]
struct Renewed {
    metadata: Version,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    resource_version: Option<String>,
}

impl Heartbeat {
    pub(super) fn new(context: &Context, config: &NodeConfig) -> Self {
        let client = context.client.clone();
        let leases = Objects::namespaced(client.clone(), NAMESPACE);
        let seconds = i32::try_from(config.lease.as_secs()).unwrap_or(i32::MAX);
        Heartbeat { client, leases, clock: context.clock.clone(), node: config.name.clone(), seconds, held: None }
    }

    pub(super) async fn renew(&mut self, node_uid: &str) -> Result<(), Error> {
        if let Some(held) = self.held.take() {
            match self.replace(held).await {
                Ok(()) => return Ok(()),
                // Someone touched it, or took it away: look at it anew.
                Err(error) if error.is_conflict() || error.is_not_found() => {}
                Err(error) => return Err(error.into()),
            }
        }
        if let Some(present) = self.leases.get_opt(&self.node).await? {
            return Ok(self.replace(present).await?);
        }
        self.held = Some(self.leases.create(&PostParams::default(), &self.fresh(node_uid)).await?);
        Ok(())
    }

    async fn replace(&mut self, mut lease: Lease) -> Result<(), kube::Error> {
        lease.spec = Some(self.spec());
        // The server keeps what it is not told of.
        lease.metadata.managed_fields = None;
        let body = serde_json::to_vec(&lease).map_err(kube::Error::SerdeError)?;
        let request = Request::new(self.leases.path()).replace(&self.node, &PostParams::default(), body);
        let renewed: Renewed = self.client.request(request.map_err(kube::Error::BuildRequest)?).await?;
        lease.metadata.resource_version = renewed.metadata.resource_version;
        self.held = Some(lease);
        Ok(())
    }

    /// Owned by its Node, so that it goes with it.
    fn fresh(&self, node_uid: &str) -> Lease {
        let owner = OwnerReference {
            api_version: "v1".to_owned(),
            kind: "Node".to_owned(),
            name: self.node.clone(),
            uid: node_uid.to_owned(),
            ..OwnerReference::default()
        };
        Lease {
            metadata: ObjectMeta {
                name: Some(self.node.clone()),
                namespace: Some(NAMESPACE.to_owned()),
                owner_references: (!node_uid.is_empty()).then(|| vec![owner]),
                ..ObjectMeta::default()
            },
            spec: Some(self.spec()),
        }
    }

    fn spec(&self) -> LeaseSpec {
        LeaseSpec {
            holder_identity: Some(self.node.clone()),
            lease_duration_seconds: Some(self.seconds),
            renew_time: Some(MicroTime(self.clock.now())),
            ..LeaseSpec::default()
        }
    }
}
