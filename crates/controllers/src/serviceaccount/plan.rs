//! Which service accounts a namespace lacks.

use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use pintle_runtime::{Plan, Write};

pub(super) const DEFAULT: &str = "default";

/// Creates the account if the namespace is in use and has none.
pub(super) fn plan(namespace: Option<&Namespace>, present: Option<&ServiceAccount>) -> Plan {
    let Some(namespace) = namespace.filter(|namespace| is_active(namespace) && present.is_none()) else {
        return Plan::default();
    };
    let metadata =
        ObjectMeta { name: Some(DEFAULT.into()), namespace: namespace.metadata.name.clone(), ..ObjectMeta::default() };
    Plan::of(vec![Write::create(&ServiceAccount { metadata, ..ServiceAccount::default() }).unless_there()])
}

/// In a namespace on its way out nothing can be created.
fn is_active(namespace: &Namespace) -> bool {
    let phase = namespace.status.as_ref().and_then(|status| status.phase.as_deref());
    phase == Some("Active") && namespace.metadata.deletion_timestamp.is_none()
}
