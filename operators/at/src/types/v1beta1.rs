//! The second version of the kind: the time has its own name, and what to run stands together. It says neither more nor less than
//! the first, so that an At can be read and written in either.

use k8s_openapi::api::core::v1::Container;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::AtStatus;

/// Runs containers once, at a given time.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "cnat.programming-kubernetes.info",
    version = "v1beta1",
    kind = "At",
    namespaced,
    status = "AtStatus",
    printcolumn = r#"{"name": "Time", "type": "string", "jsonPath": ".spec.time"}"#,
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
    pub time: String,
    /// What to run.
    #[serde(default)]
    pub run: Run,
}

/// Either containers or a command.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Run {
    /// As in a Pod.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("minItems" = 1))]
    pub containers: Vec<Container>,
    /// One command, run by a shell in a busybox.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(extend("minLength" = 1))]
    pub command: String,
}

impl From<super::At> for At {
    fn from(at: super::At) -> Self {
        let super::AtSpec { schedule, containers, command } = at.spec;
        let spec = AtSpec { time: schedule, run: Run { containers, command } };
        At { metadata: at.metadata, spec, status: at.status }
    }
}

impl From<At> for super::At {
    fn from(at: At) -> Self {
        let AtSpec { time, run: Run { containers, command } } = at.spec;
        let spec = super::AtSpec { schedule: time, containers, command };
        super::At { metadata: at.metadata, spec, status: at.status }
    }
}
