//! Conditions in a status: found, set and removed, with transition times that only move when the status does.

use k8s_openapi::api::apps::v1::{DeploymentCondition, ReplicaSetCondition};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscalerCondition;
use k8s_openapi::api::core::v1::{NamespaceCondition, NodeCondition, PodCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta, Time};

/// How a CustomResourceDefinition describes them: a list in which each type stands once, so that others may apply conditions of their own
/// beside ours. For `#[schemars(schema_with = "pintle_runtime::conditions::schema")]`.
pub fn schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "array",
        "description": "What holds, and since when.",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "required": ["type", "status", "reason", "message", "lastTransitionTime"],
            "properties": {
                "type": {"type": "string"},
                "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
                "reason": {"type": "string"},
                "message": {"type": "string"},
                "lastTransitionTime": {"type": "string", "format": "date-time"},
                "observedGeneration": {"type": "integer", "format": "int64"},
            },
        },
    })
}

/// What a condition says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Truth {
    True,
    False,
    Unknown,
}

impl Truth {
    pub fn as_str(self) -> &'static str {
        match self {
            Truth::True => "True",
            Truth::False => "False",
            Truth::Unknown => "Unknown",
        }
    }
}

impl From<bool> for Truth {
    fn from(value: bool) -> Self {
        if value { Truth::True } else { Truth::False }
    }
}

/// Which conditions a kind has: an enum of the operator's own, so that no two places spell one differently.
pub trait ConditionType {
    fn as_str(&self) -> &'static str;
}

/// Writes conditions about one generation of an object, at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Report {
    pub generation: Option<i64>,
    pub now: jiff::Timestamp,
}

impl Report {
    /// Of the object as it was read, now.
    pub fn on(meta: &ObjectMeta, now: jiff::Timestamp) -> Self {
        Report { generation: meta.generation, now }
    }

    /// Says what holds. The transition time moves only if the truth does; true if anything is not what it was.
    pub fn set(
        &self,
        conditions: &mut Vec<Condition>,
        kind: impl ConditionType,
        truth: impl Into<Truth>,
        reason: &str,
        message: impl Into<String>,
    ) -> bool {
        let before = find(conditions, kind.as_str()).cloned();
        let condition = Condition {
            type_: kind.as_str().to_owned(),
            status: truth.into().as_str().to_owned(),
            reason: reason.to_owned(),
            message: message.into(),
            observed_generation: self.generation,
            last_transition_time: whole_seconds(self.now),
        };
        set(conditions, condition);
        before.as_ref() != find(conditions, kind.as_str())
    }
}

/// The API keeps whole seconds; what is compared with an answer must have no more.
fn whole_seconds(now: jiff::Timestamp) -> Time {
    Time(jiff::Timestamp::from_second(now.as_second()).unwrap_or(now))
}

/// What all condition types of the API have in common.
pub trait AnyCondition: Clone + PartialEq {
    fn kind(&self) -> &str;
    fn status(&self) -> &str;
    fn reason(&self) -> &str;
    fn transition_time(&self) -> Option<&Time>;
    fn set_transition_time(&mut self, time: Option<Time>);
}

pub fn find<'a, C: AnyCondition>(conditions: &'a [C], kind: &str) -> Option<&'a C> {
    conditions.iter().find(|condition| condition.kind() == kind)
}

pub fn is_true<C: AnyCondition>(conditions: &[C], kind: &str) -> bool {
    find(conditions, kind).is_some_and(|condition| condition.status() == "True")
}

/// Puts a condition in the place of the one of its kind. If the status is the same the old transition time stays.
pub fn set<C: AnyCondition>(conditions: &mut Vec<C>, mut condition: C) {
    match conditions.iter_mut().find(|present| present.kind() == condition.kind()) {
        Some(present) => {
            if present.status() == condition.status() {
                condition.set_transition_time(present.transition_time().cloned());
            }
            *present = condition;
        }
        None => conditions.push(condition),
    }
}

pub fn remove<C: AnyCondition>(conditions: &mut Vec<C>, kind: &str) {
    conditions.retain(|condition| condition.kind() != kind);
}

macro_rules! condition {
    ($($type:ty),+) => {$(
        impl AnyCondition for $type {
            fn kind(&self) -> &str {
                &self.type_
            }

            fn status(&self) -> &str {
                &self.status
            }

            fn reason(&self) -> &str {
                self.reason.as_deref().unwrap_or_default()
            }

            fn transition_time(&self) -> Option<&Time> {
                self.last_transition_time.as_ref()
            }

            fn set_transition_time(&mut self, time: Option<Time>) {
                self.last_transition_time = time;
            }
        }
    )+};
}

condition!(
    DeploymentCondition,
    ReplicaSetCondition,
    HorizontalPodAutoscalerCondition,
    NamespaceCondition,
    NodeCondition,
    PodCondition
);

impl AnyCondition for Condition {
    fn kind(&self) -> &str {
        &self.type_
    }

    fn status(&self) -> &str {
        &self.status
    }

    fn reason(&self) -> &str {
        &self.reason
    }

    fn transition_time(&self) -> Option<&Time> {
        Some(&self.last_transition_time)
    }

    fn set_transition_time(&mut self, time: Option<Time>) {
        if let Some(time) = time {
            self.last_transition_time = time;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_on_a_new_generation_does_not_claim_a_transition() {
        struct Ready;
        impl ConditionType for Ready {
            fn as_str(&self) -> &'static str {
                "Ready"
            }
        }
        let at = |second| jiff::Timestamp::from_second(second).unwrap();
        let mut conditions = Vec::new();
        let first = Report { generation: Some(1), now: at(1) };
        assert!(first.set(&mut conditions, Ready, true, "Up", "it is up"));
        assert!(!Report { now: at(2), ..first }.set(&mut conditions, Ready, true, "Up", "it is up"));
        assert!(Report { generation: Some(2), now: at(3) }.set(&mut conditions, Ready, true, "Up", "it is up"));
        assert_eq!((conditions[0].observed_generation, conditions[0].last_transition_time.0), (Some(2), at(1)));
        assert!(Report { generation: Some(2), now: at(4) }.set(&mut conditions, Ready, Truth::Unknown, "Lost", ""));
        assert_eq!(conditions[0].last_transition_time.0, at(4));
    }

    #[test]
    fn the_time_of_a_transition_is_not_the_time_of_a_report() {
        let at = |second| jiff::Timestamp::from_second(second).unwrap().into();
        let ready = |status: &str, second| PodCondition {
            type_: "Ready".into(),
            status: status.into(),
            last_transition_time: Some(at(second)),
            ..PodCondition::default()
        };
        let mut conditions = vec![ready("True", 1)];
        set(&mut conditions, ready("True", 2));
        assert_eq!(conditions[0].last_transition_time, Some(at(1)));
        set(&mut conditions, ready("False", 3));
        assert_eq!(conditions[0].last_transition_time, Some(at(3)));
        remove(&mut conditions, "Ready");
        assert!(find(&conditions, "Ready").is_none());
    }
}
