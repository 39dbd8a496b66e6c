//! What to do about one Website, from what is there: no I/O, so that every state can be tested.

use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use k8s_openapi::api::core::v1::{Container, PodSpec, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::api::ObjectMeta;
use kube::{Resource, ResourceExt};
use pintle_runtime::owner;

use crate::types::Website;

/// On the Deployment's Pods: the UID of what they belong to. A name may be longer than a label's value.
const LABEL: &str = "example.com/website";

const CONTAINER: &str = "main";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// There is no Deployment.
    Create,
    /// The Deployment is not as it should be.
    Correct,
    /// A Deployment of that name belongs to somebody else; it is not for us to change.
    Refuse,
    /// The Deployment is as it should be; so many of its Pods are ready, and that is all of them or not.
    Rest { ready: i32, complete: bool },
}

pub fn step(object: &Website, found: Option<&Deployment>) -> Step {
    let Some(found) = found else { return Step::Create };
    if !owner::is_controlled_by(&found.metadata, object.meta().uid.as_deref()) {
        return Step::Refuse;
    }
    if differs(object, found) {
        return Step::Correct;
    }
    let status = found.status.clone().unwrap_or_default();
    let ready = status.ready_replicas.unwrap_or_default();
    // Until the Deployment's own loop has seen the latest change, its figures are about the one before.
    let is_current = status.observed_generation >= found.metadata.generation;
    let all = Some(object.spec.replicas);
    let none_is_old = status.updated_replicas.or(Some(0)) == all && status.replicas.or(Some(0)) == all;
    let is_staying = found.metadata.deletion_timestamp.is_none();
    Step::Rest { ready, complete: is_current && none_is_old && is_staying && ready == object.spec.replicas }
}

/// Whether what people asked for is not what the Deployment says. Only what we set counts: the rest is the server's.
fn differs(object: &Website, found: &Deployment) -> bool {
    let Some(spec) = &found.spec else { return true };
    let containers = spec.template.spec.as_ref().map(|pod| pod.containers.as_slice()).unwrap_or_default();
    let image = containers.iter().find(|container| container.name == CONTAINER).and_then(|c| c.image.as_ref());
    spec.replicas != Some(object.spec.replicas) || image != Some(&object.spec.image)
}

/// The Deployment as it should be. It has the name of its owner, so that there cannot be two.
pub fn deployment_for(object: &Website) -> Deployment {
    Deployment {
        metadata: ObjectMeta {
            name: Some(object.name_any()),
            namespace: object.namespace(),
            // The garbage collector deletes it with its owner.
            owner_references: Some(vec![owner::controller_reference(object)]),
            ..ObjectMeta::default()
        },
        spec: Some(spec_for(object)),
        ..Deployment::default()
    }
}

pub fn spec_for(object: &Website) -> DeploymentSpec {
    let labels = Some([(LABEL.to_owned(), object.uid().unwrap_or_default())].into());
    let container =
        Container { name: CONTAINER.to_owned(), image: Some(object.spec.image.clone()), ..Container::default() };
    DeploymentSpec {
        replicas: Some(object.spec.replicas),
        selector: LabelSelector { match_labels: labels.clone(), ..LabelSelector::default() },
        template: PodTemplateSpec {
            metadata: Some(ObjectMeta { labels, ..ObjectMeta::default() }),
            spec: Some(PodSpec { containers: vec![container], ..PodSpec::default() }),
        },
        ..DeploymentSpec::default()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::DeploymentStatus;

    use super::*;
    use crate::types::WebsiteSpec;

    fn wanted() -> Website {
        let mut object = Website::new("x", WebsiteSpec { image: "image:1".into(), replicas: 2 });
        object.metadata.uid = Some("u".into());
        object
    }

    fn found(change: impl Fn(&mut Deployment)) -> Deployment {
        let mut deployment = deployment_for(&wanted());
        deployment.metadata.generation = Some(1);
        deployment.status = Some(DeploymentStatus {
            observed_generation: Some(1),
            replicas: Some(2),
            updated_replicas: Some(2),
            ready_replicas: Some(2),
            ..DeploymentStatus::default()
        });
        change(&mut deployment);
        deployment
    }

    #[test]
    fn every_state_has_one_step() {
        assert_eq!(step(&wanted(), None), Step::Create);
        let rest = |ready, complete| Step::Rest { ready, complete };
        type Change = fn(&mut Deployment);
        let cases: [(&str, Change, Step); 6] = [
            ("all is well", |_| (), rest(2, true)),
            ("somebody else's", |d| d.metadata.owner_references = None, Step::Refuse),
            ("scaled by hand", |d| d.spec.get_or_insert_default().replicas = Some(5), Step::Correct),
            ("not yet seen", |d| d.metadata.generation = Some(2), rest(2, false)),
            ("an old Pod is left", |d| d.status.get_or_insert_default().replicas = Some(3), rest(2, false)),
            ("one is not ready", |d| d.status.get_or_insert_default().ready_replicas = Some(1), rest(1, false)),
        ];
        for (what, change, expected) in cases {
            assert_eq!(step(&wanted(), Some(&found(change))), expected, "{what}");
        }
    }
}
