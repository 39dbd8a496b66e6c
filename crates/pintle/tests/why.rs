//! `pintle why` as a person meets it: the story of a Pod, and what it says when there is none.

mod harness;

use harness::program::{Place, Program};
use harness::{PATIENCE, eventually};

impl Program {
    /// Waits for the end: the code, what was printed, what was complained about.
    async fn finish(mut self) -> (Option<i32>, String, String) {
        let ended = tokio::time::timeout(PATIENCE, self.child.wait()).await.expect("pintle why ends");
        (ended.expect("the state of a child").code(), self.stdout(), self.stderr())
    }
}

async fn why(place: &Place, arguments: &[&str]) -> (Option<i32>, String, String) {
    let kubeconfig = place.path("kubeconfig");
    let mut all = vec!["why", "--kubeconfig", kubeconfig.to_str().unwrap()];
    all.extend(arguments);
    place.start(&all).finish().await
}

#[tokio::test]
async fn a_pod_of_a_deployment_has_a_story_that_begins_with_its_maker() {
    let place = Place::new();
    let _program = place.up(&["--ephemeral"]).await;
    let kubectl = place.kubectl();
    kubectl.ok("create deployment web --image=nginx").await;
    let pod =
        kubectl.until("get pods -o name --field-selector=status.phase=Running", |said| said.contains("pod/web-")).await;
    let story = eventually("the story of the Pod has every chapter", async || {
        let (code, told, complaint) = why(&place, &[pod.trim()]).await;
        let chapters = [
            "created Deployment default/web\n",
            " created ReplicaSet default/web-",
            " because Deployment default/web was added",
            " created Pod default/web-",
            " because ReplicaSet default/web-",
            " bound Pod default/web-",
            " updated the status of Pod default/web-",
        ];
        let whole = code == Some(0) && chapters.iter().all(|chapter| told.contains(chapter));
        if whole { Ok(told) } else { Err(format!("{told}{complaint}")) }
    })
    .await;
    println!("{story}");
    let (code, told, complaint) = why(&place, &["deploy/web", "-o", "json"]).await;
    assert_eq!((code, complaint.as_str()), (Some(0), ""));
    assert!(told.contains("\"kind\": \"CauseChain\""), "{told}");
    let (_, told, _) = why(&place, &["deployments.apps/web"]).await;
    let first = told.lines().next().unwrap_or_default();
    assert!(first.ends_with("kubectl-create (kubernetes-admin) created Deployment default/web"), "{told}");
}

#[tokio::test]
async fn who_asks_for_nothing_is_told_what_to_do() {
    let place = Place::new();
    let _program = place.up(&["--ephemeral"]).await;
    for (arguments, complaint) in [
        (&["unicorn/x"][..], "pintle: the server has no kind \"unicorn\"; `kubectl api-resources` lists what it has\n"),
        (&["pod/x", "-n", "nowhere"], "pintle: there is no Pod nowhere/x, and none was written"),
        (&["pod"], "pintle: \"pod\" names no object; write KIND/NAME, such as pod/web-1\n"),
        // Part of a new cluster, and written before anybody counts.
        (&["ns/default"], "pintle: Namespace default is older than what the server remembers"),
    ] {
        let (code, told, said) = why(&place, arguments).await;
        assert!(
            code == Some(2) && told.is_empty() && said.starts_with(complaint),
            "{arguments:?}: {code:?} {told}{said}"
        );
    }
    let (code, _, said) = place.start(&["why", "pod/x", "--kubeconfig", "/nowhere"]).finish().await;
    assert!(code == Some(2) && said.contains("name a kubeconfig with --kubeconfig"), "{said}");
}

#[tokio::test]
async fn kubectl_tells_the_story_when_the_program_is_its_plugin() {
    let place = Place::new();
    let _program = place.up(&["--ephemeral"]).await;
    let kubectl = place.kubectl();
    kubectl.ok("create configmap story").await;
    let plugin = place.path("kubectl-pintle");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_pintle"), &plugin).unwrap();
    let directories = std::env::var_os("PATH").unwrap_or_default();
    let own = plugin.parent().expect("it is in a directory").to_owned();
    let path = std::env::join_paths(std::iter::once(own).chain(std::env::split_paths(&directories))).unwrap();
    let line = "pintle why configmap/story";
    let answer = kubectl.finish(line, kubectl.command(line).env("PATH", path).output()).await;
    assert_eq!(answer.code, Some(0), "{answer}");
    assert!(answer.stdout.contains("created ConfigMap default/story"), "{answer}");
}
