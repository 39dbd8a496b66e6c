//! Conditions in a status: found, set and removed, with transition times that only move when the status does.

use k8s_openapi::api::apps::v1::{DeploymentCondition, ReplicaSetCondition};
use k8s_openapi::api::core::v1::{NamespaceCondition, NodeCondition, PodCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

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

condition!(DeploymentCondition, ReplicaSetCondition, NamespaceCondition, NodeCondition, PodCondition);

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
