//! Which service accounts a namespace lacks.

use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

pub(super) const DEFAULT: &str = "default";

/// The account to create, if the namespace is in use and has none.
pub(super) fn missing(namespace: &Namespace, present: Option<&ServiceAccount>) -> Option<ServiceAccount> {
    if !is_active(namespace) || present.is_some() {
        return None;
    }
    let metadata =
        ObjectMeta { name: Some(DEFAULT.into()), namespace: namespace.metadata.name.clone(), ..ObjectMeta::default() };
    Some(ServiceAccount { metadata, ..ServiceAccount::default() })
}

/// In a namespace on its way out nothing can be created.
pub(crate) fn is_active(namespace: &Namespace) -> bool {
    let phase = namespace.status.as_ref().and_then(|status| status.phase.as_deref());
    phase == Some("Active") && namespace.metadata.deletion_timestamp.is_none()
}
