//! What people write: when, and what to run; and what they read: how far it is.

pub mod v1beta1;

use k8s_openapi::api::core::v1::Container;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use pintle_runtime::Kind;
use pintle_runtime::conditions::ConditionType;
use pintle_runtime::machine;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Runs containers once, at a given time.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "cnat.programming-kubernetes.info",
    version = "v1alpha1",
    kind = "At",
    namespaced,
    status = "AtStatus",
    printcolumn = r#"{"name": "Schedule", "type": "string", "jsonPath": ".spec.schedule"}"#,
    printcolumn = r#"{"name": "Phase", "type": "string", "jsonPath": ".status.phase"}"#,
    printcolumn = r#"{"name": "Result", "type": "string", "jsonPath": ".status.result"}"#,
    printcolumn = r#"{"name": "Pod", "type": "string", "jsonPath": ".status.pod", "priority": 1}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct AtSpec {
    /// When to run, in UTC: `2026-11-15T21:37:00Z`. A time in the past is now.
    #[serde(default)]
    #[schemars(extend("format" = "date-time"))]
    pub schedule: String,
    /// What to run, as in a Pod.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("minItems" = 1))]
    pub containers: Vec<Container>,
    /// The short form: one command, run by a shell in a busybox.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(extend("minLength" = 1))]
    pub command: String,
}

/// Ats may be watched, and written by plans.
impl Kind for At {}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AtStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// The Pod that runs, or has run, the containers. There is never another.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub pod: String,
    /// What came of it, once it is over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Outcome>,
    /// The generation that this status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum Phase {
    /// Its time has not come, or something is still missing; the conditions say what.
    Pending,
    /// The Pod exists.
    Running,
    /// The Pod has ended and will not run again.
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Outcome {
    Succeeded,
    Failed,
    /// The Pod was deleted before it ended.
    Deleted,
}

impl machine::Phase for Phase {
    fn name(self) -> &'static str {
        match self {
            Phase::Pending => "Pending",
            Phase::Running => "Running",
            Phase::Done => "Done",
        }
    }

    fn is_terminal(self) -> bool {
        self == Phase::Done
    }
}

/// The conditions of an At.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// The schedule is a time.
    Scheduled,
    /// The record in the cloud is there.
    Reserved,
    /// The Pod has ended.
    Complete,
}

impl ConditionType for Holds {
    fn as_str(&self) -> &'static str {
        match self {
            Holds::Scheduled => "Scheduled",
            Holds::Reserved => "Reserved",
            Holds::Complete => "Complete",
        }
    }
}
