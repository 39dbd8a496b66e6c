//! What people write: what to run, and how often; and what they read: how far it is.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use pintle_runtime::Kind;
use pintle_runtime::conditions::ConditionType;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Runs an image, so many times.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "example.com",
    version = "v1alpha1",
    kind = "Website",
    plural = "websites",
    namespaced,
    status = "WebsiteStatus",
    printcolumn = r#"{"name": "Image", "type": "string", "jsonPath": ".spec.image"}"#,
    printcolumn = r#"{"name": "Wanted", "type": "integer", "jsonPath": ".spec.replicas"}"#,
    printcolumn = r#"{"name": "Ready", "type": "integer", "jsonPath": ".status.readyReplicas"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct WebsiteSpec {
    /// The image to run.
    #[schemars(length(min = 1))]
    pub image: String,
    /// How many Pods run it.
    #[serde(default = "one")]
    #[schemars(range(min = 0, max = 1000))]
    pub replicas: i32,
}

/// Websites may be watched, and written by plans.
impl Kind for Website {}

fn one() -> i32 {
    1
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebsiteStatus {
    /// How many Pods are ready.
    #[serde(default)]
    pub ready_replicas: i32,
    /// The generation that this status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "pintle_runtime::conditions::schema")]
    pub conditions: Vec<Condition>,
}

/// The conditions of each Website.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// Everything that was asked for runs.
    Ready,
}

impl ConditionType for Holds {
    fn as_str(&self) -> &'static str {
        match self {
            Holds::Ready => "Ready",
        }
    }
}
