//! What the cluster has to say about a write before it is checked: one place that lists all admission, in order.

mod namespaces;
pub(crate) mod node_restriction;
mod nodes;
mod pods;
mod requests;
mod rights;
mod runtime_class;
mod volumes;

use crate::authz::Authorizer;
use crate::registry::{Registry, Write};
use pintle_meta::Status;
use serde_json::Value;
use std::sync::Arc;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Create,
    Update,
    Delete,
}

/// What admission has to know besides the objects.
pub struct Admission {
    pub authorizer: Arc<Authorizer>,
}

impl Admission {
    /// May change the object, in this order.
    pub async fn admit(
        &self,
        registry: &Registry,
        write: &Write<'_>,
        operation: Operation,
        old: Option<&Value>,
        object: &mut Value,
    ) -> Result<(), Status> {
        node_restriction::on_write(registry, write, operation, old, object).await?;
        if operation == Operation::Create {
            namespaces::must_be_active(registry, write).await?;
        }
        if write.subresource.is_empty() && operation == Operation::Create {
            match (write.resource.group.as_str(), write.resource.name.as_str()) {
                ("", "pods") => {
                    runtime_class::admit(registry, write, object).await?;
                    pods::admit(registry, write, object).await?;
                }
                ("", "nodes") => nodes::not_ready(object),
                ("", "persistentvolumeclaims") => {
                    volumes::default_class(registry, object).await;
                    volumes::protect(object, "kubernetes.io/pvc-protection");
                }
                ("", "persistentvolumes") => volumes::protect(object, "kubernetes.io/pv-protection"),
                ("certificates.k8s.io", "certificatesigningrequests") => requests::sign(write.user, object),
                _ => {}
            }
        }
        let is_pod = write.resource.group.is_empty() && write.resource.name == "pods";
        if write.subresource.is_empty() && operation == Operation::Update && is_pod {
            pods::tolerations(object);
        }
        if write.resource.group == requests::GROUP && write.resource.kind == "CertificateSigningRequest" {
            requests::must_be_entitled(&self.authorizer, write, operation, old, object).await?;
        }
        Ok(())
    }

    /// May refuse the object, after everything has changed that changes.
    pub async fn validate(
        &self,
        write: &Write<'_>,
        operation: Operation,
        old: Option<&Value>,
        object: &Value,
    ) -> Result<(), Status> {
        if operation == Operation::Delete {
            node_restriction::on_delete(write, object)?;
            namespaces::protect(write, object)?;
        }
        if operation != Operation::Delete && write.resource.group == rights::GROUP {
            rights::must_be_held(&self.authorizer, write, old, object).await?;
        }
        Ok(())
    }
}

pub(crate) fn forbidden(write: &Write<'_>, name: &str, why: &str) -> Status {
    let resource = pintle_meta::names::qualified_resource(&write.resource.group, &write.resource.name);
    let message = format!("{resource} {name:?} is forbidden: {why}");
    Status::new(403, "Forbidden", message).with_details(pintle_meta::status::about(
        name,
        &write.resource.group,
        &write.resource.name,
    ))
}
