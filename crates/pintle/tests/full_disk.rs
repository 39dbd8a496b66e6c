//! A disk that is full: writes are refused and say why, reads go on, and after room is made everything is there.

mod harness;
#[path = "../../../xtask/src/test/skip.rs"]
mod skip;

use harness::PATIENCE;
use harness::program::{Place, Program};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ListParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::Status;
use serde_json::json;
use std::fs;
use std::path::PathBuf;
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

/// The disk, in MiB: enough for the store to begin with, and full after some dozens of objects.
const SIZE: usize = 96;
/// What is in the way until room is made.
const BALLAST: usize = 32 << 20;
/// Bytes of one object.
const OBJECT: usize = 900 << 10;

/// A small disk that exists as long as this does: a tmpfs in a mount namespace of a process that does nothing else,
/// reached through that process' root. It takes no privileges.
struct Disk {
    _holder: Child,
    root: PathBuf,
}

impl Disk {
    /// In a user's namespace, or with root's privileges; nothing where the system allows neither.
    async fn mount(place: &Place) -> Option<Disk> {
        fs::create_dir(place.path("disk")).expect("a directory");
        for namespaces in [&["--user", "--map-root-user", "--mount"][..], &["--mount"]] {
            if let Some(disk) = Disk::mount_in(namespaces, place.path("disk")).await {
                return Some(disk);
            }
        }
        None
    }

    async fn mount_in(namespaces: &[&str], point: PathBuf) -> Option<Disk> {
        let script = format!(r#"mount -t tmpfs -o size={SIZE}m none "$0" && echo mounted && exec sleep 600"#);
        let mut holder = Command::new("unshare")
            .args(namespaces)
            .args(["sh", "-c", &script])
            .arg(&point)
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .ok()?;
        let mut said = String::new();
        BufReader::new(holder.stdout.take()?).read_line(&mut said).await.ok()?;
        let root = PathBuf::from(format!("/proc/{}/root{}", holder.id()?, point.display()));
        (said == "mounted\n").then_some(Disk { _holder: holder, root })
    }
}

async fn config_maps(place: &Place) -> Api<ConfigMap> {
    let kubeconfig = Kubeconfig::read_from(place.path("kubeconfig")).expect("a kubeconfig");
    let mut config =
        kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.expect("a config");
    // The first answer counts.
    (config.default_retry, config.read_timeout) = (false, Some(PATIENCE));
    Api::namespaced(kube::Client::try_from(config).expect("a client"), "default")
}

fn object(number: usize) -> ConfigMap {
    // Nothing that an engine could make smaller.
    let random = pintle_meta::Random::seeded(number as u64);
    let content: String = (0..OBJECT / 16).map(|_| format!("{:016x}", random.next())).collect();
    serde_json::from_value(json!({"metadata": {"name": format!("object-{number}")}, "data": {"content": content}}))
        .expect("a ConfigMap")
}

/// Creates objects until one is refused: those that were acknowledged, and why the last was not.
async fn fill(api: &Api<ConfigMap>) -> (usize, Box<Status>) {
    for number in 0..2 * (SIZE << 20) / OBJECT {
        match api.create(&PostParams::default(), &object(number)).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) => return (number, status),
            Err(other) => panic!("object {number} has no answer: {other}"),
        }
    }
    panic!("the disk of {SIZE} MiB takes everything")
}

/// Every acknowledged object is there as it was sent.
async fn assert_all(api: &Api<ConfigMap>, acknowledged: usize) {
    let found = api.list(&ListParams::default()).await.expect("a list").items;
    for number in 0..acknowledged {
        let sent = object(number);
        let found = found.iter().find(|found| found.metadata.name == sent.metadata.name);
        assert_eq!(found.map(|found| &found.data), Some(&sent.data), "object {number} of {acknowledged}");
    }
}

/// Asks the program to stop, and waits: its exit code.
async fn stop(program: &mut Program) -> Option<i32> {
    let id = program.child.id().expect("the program still runs").to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().await.expect("kill").success());
    tokio::time::timeout(PATIENCE, program.child.wait()).await.expect("it ends").expect("its state").code()
}

#[tokio::test]
async fn a_full_disk_refuses_writes_and_after_room_is_made_everything_acknowledged_is_there() {
    let place = Place::new();
    let Some(disk) = Disk::mount(&place).await else {
        skip::skip(&["a tmpfs in a mount namespace"]);
        return;
    };
    let (data, ballast) = (disk.root.join("data"), disk.root.join("ballast"));
    fs::write(&ballast, vec![1; BALLAST]).expect("room for the ballast");
    let flags = ["--nodes", "0", "--data-dir", data.to_str().expect("UTF-8")];
    let mut program = place.up(&flags).await;
    let (api, kubectl) = (config_maps(&place).await, place.kubectl());
    let (acknowledged, refused) = fill(&api).await;
    assert!(acknowledged > 0, "{refused:?}");
    assert_eq!((refused.code, refused.reason.as_str()), (503, "ServiceUnavailable"), "{refused:?}");
    assert!(refused.message.contains("the store takes no writes: "), "{}", refused.message);
    let reason = refused.message.split("takes no writes: ").last().expect("a reason").to_owned();
    assert!(reason.contains("No space left on device"), "{reason}");

    // Nothing but reads from now on, also when a write would find room.
    fs::remove_file(&ballast).expect("room is made");
    let again = api.create(&PostParams::default(), &object(9999)).await;
    assert!(matches!(&again, Err(kube::Error::Api(status)) if status.code == 503), "{again:?}");
    assert_all(&api, acknowledged).await;
    let ready = kubectl.run("get --raw /readyz").await;
    assert_ne!(ready.code, Some(0), "{ready}");
    assert!(ready.stderr.contains("[-]store failed: "), "{ready}");
    // kubectl quotes what the server said.
    assert!(ready.stderr.replace('\\', "").contains(&reason), "{reason} is not in {ready}");
    harness::eventually("it says so on its terminal", async || {
        let said = program.stderr();
        if said.contains("pintle: the store stopped: ") { Ok(()) } else { Err(said) }
    })
    .await;
    kubectl.ok("get configmap object-0 -o name").await;
    assert_eq!(stop(&mut program).await, Some(4), "{}", program.stderr());

    let mut program = place.up(&flags).await;
    let api = config_maps(&place).await;
    assert_all(&api, acknowledged).await;
    api.create(&PostParams::default(), &object(9999)).await.expect("there is room again");
    assert_eq!(stop(&mut program).await, Some(0), "{}", program.stderr());
    println!(
        "{acknowledged} objects acknowledged before the disk of {SIZE} MiB was full, all found; it said: {reason}"
    );
}
