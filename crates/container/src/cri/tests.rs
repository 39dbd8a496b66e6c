//! A runtime that hangs, refuses or restarts, by a scripted server of the container runtime interface.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::net::UnixListener;
use tokio::task::JoinHandle;
use tonic::Status;

use super::*;
use crate::grpc::server::{self, Answer, Call, Service};

/// What it has made, and what it does to calls. Clones are the same.
#[derive(Clone, Default)]
struct Scripted(Arc<Mutex<Vec<cri::SandboxItem>>>);

impl Scripted {
    /// Listens until the task is aborted: what it has made stays, as a runtime that restarts finds it again.
    fn listen(&self, socket: &Path) -> JoinHandle<()> {
        let _ = std::fs::remove_file(socket);
        tokio::spawn(server::serve(UnixListener::bind(socket).unwrap(), self.clone()))
    }

    async fn run(&self, request: cri::RunSandboxRequest) -> Result<cri::SandboxIdMessage, Status> {
        let metadata = request.config.unwrap_or_default().metadata.unwrap_or_default();
        if metadata.name.starts_with("hangs") {
            std::future::pending::<()>().await;
        }
        if metadata.name.starts_with("fails") {
            return Err(Status::unknown("failed to set up network: no addresses left"));
        }
        let id = format!("sandbox-{}", metadata.name);
        let item = cri::SandboxItem { id: id.clone(), metadata: Some(metadata), ..Default::default() };
        self.0.lock().unwrap().push(item);
        Ok(cri::SandboxIdMessage { id })
    }
}

impl Service for Scripted {
    async fn answer(&self, call: Call) -> Answer {
        let method = call.uri().path().rsplit('/').next().unwrap_or_default().to_owned();
        match method.as_str() {
            "Version" => {
                let told = cri::VersionResponse { runtime_name: "scripted".into(), runtime_version: "1".into() };
                server::unary(call, move |_: cri::VersionRequest| std::future::ready(Ok(told.clone()))).await
            }
            "RunPodSandbox" => {
                server::unary(call, |request| {
                    let server = self.clone();
                    async move { server.run(request).await }
                })
                .await
            }
            "ListPodSandbox" => {
                let items = self.0.lock().unwrap().clone();
                let listed = cri::ListSandboxesResponse { items };
                server::unary(call, move |_: cri::ListSandboxesRequest| std::future::ready(Ok(listed.clone()))).await
            }
            "ListContainers" => {
                let none = cri::ListContainersResponse::default();
                server::unary(call, move |_: cri::ListContainersRequest| std::future::ready(Ok(none.clone()))).await
            }
            "PodSandboxStatus" => {
                let none = cri::SandboxStatusResponse::default();
                server::unary(call, move |_: cri::SandboxIdMessage| std::future::ready(Ok(none.clone()))).await
            }
            "CreateContainer" => {
                let refused = || Err::<cri::ContainerIdMessage, _>(Status::unknown("no such executable: /bin/nothing"));
                server::unary(call, move |_: cri::CreateContainerRequest| std::future::ready(refused())).await
            }
            "PullImage" => {
                let refused = || Err::<cri::PullImageResponse, _>(Status::not_found("manifest unknown"));
                server::unary(call, move |_: cri::PullImageRequest| std::future::ready(refused())).await
            }
            _ => server::unknown(&call),
        }
    }
}

struct Scene {
    server: Scripted,
    listening: JoinHandle<()>,
    socket: PathBuf,
    cri: Arc<Cri>,
    _directory: tempfile::TempDir,
}

impl Scene {
    async fn new() -> Scene {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("runtime.sock");
        let server = Scripted::default();
        let listening = server.listen(&socket);
        let cri = Arc::new(Cri::connect(&socket).await.unwrap());
        Scene { server, listening, socket, cri, _directory: directory }
    }

    fn run(&self, name: &str) -> JoinHandle<Result<SandboxId, Error>> {
        let pod = PodRef { namespace: "default".into(), name: name.into(), uid: format!("uid-{name}") };
        let (cri, config) = (self.cri.clone(), SandboxConfig { pod, ..SandboxConfig::default() });
        tokio::spawn(async move { cri.run_sandbox(config).await })
    }
}

async fn soon<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), work).await.expect("it takes too long")
}

#[tokio::test]
async fn sandboxes_that_hang_hold_up_no_other_call() {
    let scene = Scene::new().await;
    let hanging: Vec<_> = (0..150).map(|index| scene.run(&format!("hangs-{index}"))).collect();
    for name in ["a", "b", "c"] {
        let made = soon(scene.run(name)).await.unwrap().unwrap();
        assert_eq!(made.0, format!("sandbox-{name}"));
    }
    assert_eq!(soon(scene.cri.list_sandboxes(None)).await.unwrap().len(), 3);
    assert!(hanging.iter().all(|call| !call.is_finished()));
    hanging.iter().for_each(JoinHandle::abort);
}

#[tokio::test]
async fn what_a_runtime_refuses_is_told_in_its_own_words() {
    let scene = Scene::new().await;
    let refused = soon(scene.run("fails")).await.unwrap().unwrap_err();
    assert!(refused.to_string().contains("failed to set up network: no addresses left"), "{refused}");
    let sandbox = SandboxId("sandbox-a".into());
    let shared = SandboxConfig::default();
    let refused = soon(scene.cri.create_container(&sandbox, &shared, ContainerConfig::default())).await;
    assert_eq!(refused.unwrap_err().detail(), "no such executable: /bin/nothing");
    let request =
        PullRequest { image: "ghost:1".into(), container: "c".into(), annotations: BTreeMap::new(), credentials: None };
    let refused = soon(scene.cri.pull_image(request)).await.unwrap_err();
    assert!(matches!(&refused, Error::PullFailed(message) if message == "manifest unknown"), "{refused}");
}

#[tokio::test]
async fn a_runtime_that_restarts_is_found_again_with_what_it_had() {
    let mut scene = Scene::new().await;
    soon(scene.run("old")).await.unwrap().unwrap();
    scene.listening.abort();
    let _ = (&mut scene.listening).await;
    assert!(soon(scene.cri.list_sandboxes(None)).await.is_err());
    assert!(scene.cri.health().await.runtime.is_err());
    scene.listening = scene.server.listen(&scene.socket);
    let listed = soon(async {
        loop {
            match scene.cri.list_sandboxes(None).await {
                Ok(listed) => return listed,
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    });
    let names: Vec<String> = listed.await.into_iter().map(|sandbox| sandbox.pod.name).collect();
    assert_eq!(names, ["old"]);
    soon(scene.run("new")).await.unwrap().unwrap();
}
