//! One request on its way through the verbs: what was asked, who asks, and what to remark in the answer.

use crate::authn::User;
use crate::catalogue::Resource;
use crate::causes;
use crate::fence::Fence;
use crate::incoming::FieldValidation;
use crate::registry::{Origin, Registry, Write};
use crate::request::{Query, ResourcePath};
use crate::response::Wanted;
use bytes::Bytes;
use http::HeaderMap;
use pintle_meta::Status;
use serde_json::Value;
use std::sync::Arc;

pub struct Exchange {
    pub verb: &'static str,
    pub path: ResourcePath,
    pub resource: Arc<Resource>,
    pub query: Query,
    pub headers: HeaderMap,
    pub body: Bytes,
    pub user: User,
    /// Under which Lease the writer believes to act.
    pub fence: Option<Fence>,
    pub wanted: Wanted,
    pub warnings: Vec<String>,
    /// Taken by what hands the connection over to another protocol.
    pub upgrade: Option<hyper::upgrade::OnUpgrade>,
}

impl Exchange {
    pub fn field_validation(&self) -> Result<FieldValidation, Status> {
        FieldValidation::from(&self.query)
    }

    /// Who owns the fields that this request sets: what it says, or the program's name from its user agent.
    pub fn manager(&self) -> Result<String, Status> {
        let said = self.query.get("fieldManager");
        if said.len() > 128 {
            let error = pintle_meta::field::Error::too_long(&pintle_meta::field::Path::new("fieldManager"), 128);
            return Err(Status::invalid("meta.k8s.io", "PatchOptions", "", &[error]));
        }
        if !said.is_empty() {
            return Ok(said.to_owned());
        }
        let agent = self.headers.get(http::header::USER_AGENT).and_then(|v| v.to_str().ok()).unwrap_or("unknown");
        let name = agent.split(['/', ' ']).next().unwrap_or("unknown");
        Ok(name.chars().take(128).collect())
    }

    pub fn write<'a>(&'a self, stored: &'a Arc<Resource>, manager: &'a str) -> Result<Write<'a>, Status> {
        Ok(Write {
            resource: stored,
            namespace: if stored.namespaced { &self.path.namespace } else { "" },
            subresource: &self.path.subresource,
            user: &self.user,
            manager,
            dry_run: self.query.dry_run()?,
            origin: Origin { verb: self.verb, cause: self.headers.get(causes::HEADER), fence: self.fence.as_ref() },
        })
    }

    /// The body as an object of this resource, in the stored version.
    pub fn object(&mut self, registry: &Registry) -> Result<Value, Status> {
        let validation = self.field_validation()?;
        let parsed = crate::incoming::read(&self.headers, &self.body, &self.resource.kind, self.resource.custom)?;
        let mut value = crate::incoming::accept(&self.resource, parsed, validation, &mut self.warnings)?;
        registry.to_stored(&self.resource, &mut value);
        Ok(value)
    }

    /// The namespace for objects of this resource: none for cluster-wide ones.
    pub fn namespace(&self) -> &str {
        if self.resource.namespaced { &self.path.namespace } else { "" }
    }
}
