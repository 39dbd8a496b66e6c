//! A registry that wants to be told who pulls, and what tells it: pull secrets and plugins of the machine.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::harness::program::Place;
use crate::node::{Real, busybox, can_run};

/// What it serves, by the end of the path; and who may have it, by the repository.
struct Registry {
    blobs: BTreeMap<String, (String, Vec<u8>)>,
    users: BTreeMap<&'static str, &'static str>,
}

impl Registry {
    /// One image, the same in every repository.
    fn of(archive: &str, place: &Path, users: &[(&'static str, &'static str)]) -> Registry {
        let unpacked = place.join("unpacked");
        std::fs::create_dir(&unpacked).unwrap();
        let run = Command::new("tar").args(["-xf", archive, "-C"]).arg(&unpacked).status().unwrap();
        assert!(run.success());
        let mut blobs = BTreeMap::new();
        let mut blob = |kind: &str, bytes: Vec<u8>| {
            let digest = format!("sha256:{}", sha256(&bytes, place));
            let about = json!({"mediaType": kind, "size": bytes.len(), "digest": digest});
            blobs.insert(digest, (kind.to_owned(), bytes));
            about
        };
        let config = std::fs::read(unpacked.join("config.json")).unwrap();
        let layer = std::fs::read(unpacked.join("layer.tar")).unwrap();
        let manifest = json!({"schemaVersion": 2, "mediaType": "application/vnd.docker.distribution.manifest.v2+json",
            "config": blob("application/vnd.docker.container.image.v1+json", config),
            "layers": [blob("application/vnd.docker.image.rootfs.diff.tar", layer)]});
        let kind = manifest["mediaType"].as_str().unwrap().to_owned();
        blob(&kind, manifest.to_string().into_bytes());
        blobs.insert("1".to_owned(), (kind, manifest.to_string().into_bytes()));
        Registry { blobs, users: users.iter().copied().collect() }
    }

    async fn answer(&self, stream: TcpStream, place: &Path) -> std::io::Result<()> {
        let mut stream = BufReader::new(stream);
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line).await? == 0 || line.trim().is_empty() {
                break;
            }
            lines.push(line.trim().to_owned());
        }
        let mut first = lines.first().map(String::as_str).unwrap_or_default().split(' ');
        let (method, path) = (first.next().unwrap_or_default(), first.next().unwrap_or_default());
        let path = path.split('?').next().unwrap_or_default();
        let repository = path.split('/').nth(2).unwrap_or_default();
        let wanted = self.users.get(repository).copied().unwrap_or("nobody");
        let told = lines.iter().find_map(|line| line.strip_prefix("Authorization: Basic "));
        let (head, body): (String, &[u8]) = if told != Some(wanted) {
            ("401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"test\"".to_owned(), b"")
        } else {
            match self.blobs.get(path.rsplit('/').next().unwrap_or_default()) {
                Some((kind, bytes)) => {
                    let digest = sha256(bytes, place);
                    (format!("200 OK\r\nContent-Type: {kind}\r\nDocker-Content-Digest: sha256:{digest}"), bytes)
                }
                None => ("404 Not Found".to_owned(), b""),
            }
        };
        let head = format!("HTTP/1.1 {head}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
        stream.write_all(head.as_bytes()).await?;
        if method != "HEAD" {
            stream.write_all(body).await?;
        }
        stream.shutdown().await
    }
}

fn sha256(bytes: &[u8], place: &Path) -> String {
    let file = place.join(format!("blob-{}", bytes.len()));
    std::fs::write(&file, bytes).unwrap();
    let output = Command::new("sha256sum").arg(&file).output().unwrap();
    String::from_utf8_lossy(&output.stdout).split(' ').next().unwrap().to_owned()
}

#[tokio::test]
async fn images_that_need_a_password_come_with_a_pull_secret_or_a_plugin_and_not_without() {
    if !can_run() {
        return;
    }
    let place = Place::new();
    let plugins = place.path("plugins");
    std::fs::create_dir(&plugins).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let host = format!("localhost:{}", listener.local_addr().unwrap().port());
    // "secret:one" and "plugin:two".
    let users = [("with-secret", "c2VjcmV0Om9uZQ=="), ("with-plugin", "cGx1Z2luOnR3bw==")];
    let files = place.path("registry");
    let archive = busybox(&files, "made", 0);
    let registry = Arc::new(Registry::of(&archive, &files, &users));
    let serving = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (registry, files) = (registry.clone(), files.clone());
            tokio::spawn(async move { registry.answer(stream, &files).await });
        }
    });

    let version = "credentialprovider.kubelet.k8s.io/v1";
    let answer = json!({"apiVersion": version, "kind": "CredentialProviderResponse", "cacheKeyType": "Image",
        "auth": {format!("{host}/with-plugin"): {"username": "plugin", "password": "two"}}});
    std::fs::write(plugins.join("tell"), format!("#!/bin/sh\ncat > /dev/null\ncat <<'EOF'\n{answer}\nEOF\n")).unwrap();
    Command::new("chmod").arg("755").arg(plugins.join("tell")).status().unwrap();
    let config = json!({"apiVersion": "kubelet.config.k8s.io/v1", "kind": "CredentialProviderConfig", "providers": [
        {"name": "tell", "apiVersion": version, "matchImages": [format!("{host}/with-plugin")], "defaultCacheDuration": "1m"}]});
    let file = place.path("providers.yaml");
    std::fs::write(&file, config.to_string()).unwrap();
    let (file, plugins) = (file.display().to_string(), plugins.display().to_string());
    let flags = ["--image-credential-provider-config", &file, "--image-credential-provider-bin-dir", &plugins];
    let cluster = Real::start_in(place, &flags).await;

    let server = format!("--docker-server={host}");
    cluster
        .ok(&format!("create secret docker-registry key {server} --docker-username=secret --docker-password=one"))
        .await;
    let spec = |repository: &str, secrets: &[&str]| {
        let secrets: Vec<_> = secrets.iter().map(|name| json!({"name": name})).collect();
        json!({"restartPolicy": "Never", "imagePullSecrets": secrets,
            "containers": [{"name": "c", "image": format!("{host}/{repository}/web:1"), "script": "true"}]})
    };
    cluster.pod("without", spec("with-secret", &[])).await;
    let waits = |pod: &serde_json::Value| {
        let waiting = &pod["status"]["containerStatuses"][0]["state"]["waiting"];
        waiting["reason"] == "ImagePullBackOff" || waiting["reason"] == "ErrImagePull"
    };
    cluster.pod_until("without", "is refused", waits).await;
    cluster.pod("with-secret", spec("with-secret", &["key"])).await;
    cluster.phase("with-secret", "Succeeded").await;
    cluster.pod("with-plugin", spec("with-plugin", &[])).await;
    cluster.phase("with-plugin", "Succeeded").await;

    // What a policy means shows when nothing can be pulled any more.
    serving.abort();
    let with = |policy: &str, image: &str| {
        let mut spec = spec(image, &["key"]);
        spec["containers"][0]["imagePullPolicy"] = policy.into();
        spec
    };
    let waits_with = |reason: &'static str| {
        move |pod: &serde_json::Value| pod["status"]["containerStatuses"][0]["state"]["waiting"]["reason"] == reason
    };
    cluster.pod("present-never", with("Never", "with-secret")).await;
    cluster.pod("present-if-not", with("IfNotPresent", "with-secret")).await;
    cluster.pod("present-always", with("Always", "with-secret")).await;
    cluster.pod("absent-never", with("Never", "elsewhere")).await;
    cluster.phase("present-never", "Succeeded").await;
    cluster.phase("present-if-not", "Succeeded").await;
    cluster.pod_until("present-always", "asks the registry", waits_with("ImagePullBackOff")).await;
    cluster.pod_until("absent-never", "asks nobody", waits_with("ErrImageNeverPull")).await;
    let told =
        cluster.ok("get events --field-selector involvedObject.name=absent-never,reason=ErrImageNeverPull").await;
    assert!(told.contains("is not present with pull policy of Never"), "{told}");
}
