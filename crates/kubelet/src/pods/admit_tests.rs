//! What becomes of Pods whose devices or whose room others have.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use pintle_container::Simulated;
use pintle_runtime::Context;
use pintle_runtime::reflector::Delta;
use serde_json::json;

use super::*;
use crate::devices::scripted::{LAMP, Lamps, devices, register};
use crate::machine::Machine;
use crate::machine::scripted::{Server, machine, with_devices};
use crate::pods::guards::Guards;

fn pod(uid: &str, phase: &str) -> Pod {
    let spec = json!({"nodeName": "m", "containers": [{"name": "c", "resources": {"limits": {LAMP: "1"}}}]});
    let metadata = json!({"namespace": "shop", "name": uid, "uid": uid});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec, "status": {"phase": phase}})).unwrap()
}

fn home(context: &Context, machine: Option<Machine>, pods: u32) -> Arc<Home> {
    Arc::new(Home {
        name: "m".into(),
        address: [192, 0, 2, 7].into(),
        config: Arc::new(crate::NodeConfig::simulated("m", 1)),
        tallies: Default::default(),
        nodes: pintle_runtime::Informer::detached(),
        claims: Default::default(),
        allocatable: [("pods".to_owned(), Quantity(pods.to_string()))].into(),
        runtime: Simulated::new(context.clock.clone()).node("m", 1),
        recorder: context.recorder("kubelet"),
        meter: Default::default(),
        pressure: Arc::default(),
        guards: Guards::simulated(Vec::new()),
        machine,
        dead: crate::Collection::default(),
    })
}

#[tokio::test(start_paused = true)]
async fn a_pod_without_its_device_fails_and_waits_only_for_one_that_is_about_to_end() {
    let directory = tempfile::tempdir().unwrap();
    let context = Server::default().context();
    let devices = devices(directory.path(), &context.clock);
    let (plugin, _shelf) = Lamps::new("a");
    register(&devices, &plugin).await;
    let (_, pods) = Pods::new(&context, context.informers.of());
    let machine = with_devices(machine(&context, directory.path(), Vec::new()), devices.clone());
    let home = home(&context, Some(machine), 110);
    let look = async |uid: &str| {
        let (pod, seat, mut memory) = (pod(uid, "Pending"), Seat::new(home.clone(), uid), Memory::default());
        let status = pod.status.clone().unwrap();
        pods.admit(&pod, pod.spec.as_ref().unwrap(), &seat, &mut memory, &status).await.unwrap()
    };
    pods.pods.take(Delta::replaced(vec![pod("first", "Running"), pod("second", "Pending")]));
    assert!(matches!(look("first").await, Admission::Granted));
    let Admission::Refused(status) = look("second").await else { panic!("there is no lamp for it") };
    assert_eq!((status.phase.as_deref(), status.reason.as_deref()), (Some("Failed"), Some("UnexpectedAdmissionError")));
    assert_eq!(
        status.message.as_deref(),
        Some(
            "Pod was rejected: Allocate failed due to requested number of devices unavailable for example.com/lamp. \
             Requested: 1, Available: 0, which is unexpected"
        )
    );
    // The scheduler does not count one that has failed, though its container may still be about to end.
    pods.pods.take(Delta::replaced(vec![pod("first", "Failed"), pod("third", "Pending")]));
    assert!(matches!(look("third").await, Admission::Later(AGAIN)));
    devices.release("first").await;
    assert!(matches!(look("third").await, Admission::Granted));
}

#[tokio::test(start_paused = true)]
async fn a_pod_waits_for_the_room_of_one_that_was_deleted_without_grace() {
    let context = Server::default().context();
    let (_, pods) = Pods::new(&context, context.informers.of());
    let home = home(&context, None, 1);
    let look = async |uid: &str| {
        let (pod, seat, mut memory) = (pod(uid, "Pending"), Seat::new(home.clone(), uid), Memory::default());
        let status = pod.status.clone().unwrap();
        pods.admit(&pod, pod.spec.as_ref().unwrap(), &seat, &mut memory, &status).await.unwrap()
    };
    pods.pods.take(Delta::replaced(vec![pod("first", "Running"), pod("second", "Pending")]));
    assert!(matches!(look("first").await, Admission::Granted));
    let Admission::Refused(status) = look("second").await else { panic!("there is room for one") };
    assert_eq!(status.reason.as_deref(), Some("OutOfpods"));
    // The scheduler sends another as soon as the first is gone from the API, before its containers are.
    pods.pods.take(Delta::replaced(vec![pod("third", "Pending")]));
    assert!(matches!(look("third").await, Admission::Later(AGAIN)));
    home.claims.release("first");
    assert!(matches!(look("third").await, Admission::Granted));
}
