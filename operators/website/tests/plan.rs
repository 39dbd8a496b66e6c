//! Every state of a Website and its Deployment, and what is to be done about it.

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentStatus};
use website_operator::plan::{deployment_for, plan};
use website_operator::types::{Website, WebsiteSpec};

fn wanted() -> Website {
    let mut object = Website::new("x", WebsiteSpec { image: "image:1".into(), replicas: 2 });
    (object.metadata.uid, object.metadata.namespace) = (Some("u".into()), Some("shop".into()));
    object
}

fn found(change: impl Fn(&mut Deployment)) -> Deployment {
    let mut deployment = deployment_for(&wanted());
    (deployment.metadata.generation, deployment.metadata.uid) = (Some(1), Some("d".into()));
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
fn every_state_has_one_plan() {
    type Change = fn(&mut Deployment);
    let cases: [(&str, Option<Change>, &str, &str); 6] = [
        ("nothing is there", None, "create deployments/x", "InProgress"),
        ("all is well", Some(|_| ()), "apply deployments/x", "AllReady"),
        ("somebody else's", Some(|d| d.metadata.owner_references = None), "", "NameTaken"),
        ("not yet seen", Some(|d| d.metadata.generation = Some(2)), "apply deployments/x", "InProgress"),
        (
            "an old Pod is left",
            Some(|d| d.status.get_or_insert_default().replicas = Some(3)),
            "apply deployments/x",
            "InProgress",
        ),
        (
            "one is not ready",
            Some(|d| d.status.get_or_insert_default().ready_replicas = Some(1)),
            "apply deployments/x",
            "InProgress",
        ),
    ];
    for (what, change, writes, reason) in cases {
        let found = change.map(found);
        let plan = plan(&wanted(), found.as_ref(), Timestamp::UNIX_EPOCH);
        assert_eq!(plan.to_string(), writes, "{what}");
        let status = plan.status.unwrap();
        assert_eq!(status.wanted()["conditions"][0]["reason"], reason, "{what}");
    }
}
