//! The Lease that says that a node is there, every ten seconds if nobody asks for another pace.

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, OwnerReference};
use kube::api::{Api, PostParams};
use pintle_meta::Clock;
use pintle_runtime::{ApiError, Context, Error};

use crate::config::NodeConfig;

const NAMESPACE: &str = "kube-node-lease";

pub(super) struct Heartbeat {
    leases: Api<Lease>,
    clock: Clock,
    node: String,
    seconds: i32,
    /// As last written, so that a renewal is one request.
    held: Option<Lease>,
}

impl Heartbeat {
    pub(super) fn new(context: &Context, config: &NodeConfig) -> Self {
        let leases = Api::namespaced(context.client.clone(), NAMESPACE);
        let seconds = i32::try_from(config.lease.as_secs()).unwrap_or(i32::MAX);
        Heartbeat { leases, clock: context.clock.clone(), node: config.name.clone(), seconds, held: None }
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
        self.held = Some(self.leases.replace(&self.node, &PostParams::default(), &lease).await?);
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
