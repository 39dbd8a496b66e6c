//! However `pintle up` is ended, it ends cleanly: by whichever signal, while it starts, and with nobody left who reads what it says.

mod harness;

use harness::eventually;
use harness::program::{Place, Program};
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

async fn signal(child: &Child, signal: &str) {
    // One that has ended already needs none.
    let Some(id) = child.id() else { return };
    let sent = Command::new("sh").args(["-c", r#"kill -"$0" "$1""#, signal, &id.to_string()]).status().await;
    sent.expect("sh starts");
}

async fn ended(child: &mut Child) -> Option<i32> {
    let end = tokio::time::timeout(harness::PATIENCE, child.wait()).await;
    end.expect("pintle ends").expect("the state of a child").code()
}

/// The directories that the program has made for what it does not keep.
fn scratches(place: &Place) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(place.path("tmp")).expect("the test's directory");
    entries.map(|entry| entry.expect("an entry").path()).collect()
}

/// A place in which nothing else is made below `tmp`.
fn place() -> Place {
    let mut place = Place::new();
    fs::create_dir(place.path("tmp")).expect("a directory");
    place.variables.push(("TMPDIR", place.path("tmp").into_os_string()));
    place
}

async fn ready(program: &Program) {
    eventually("it says that it is ready", async || {
        let said = program.stdout();
        if said.contains("ready") { Ok(()) } else { Err(said + &program.stderr()) }
    })
    .await;
}

const EPHEMERAL: [&str; 6] = ["up", "--ephemeral", "--nodes", "1", "--listen", "127.0.0.1:0"];

#[tokio::test]
async fn nobody_else_sees_an_ephemeral_cluster_and_nothing_of_it_stays() {
    let place = place();
    let mut program = place.start(&EPHEMERAL);
    ready(&program).await;
    let made = scratches(&place);
    let [scratch] = made.as_slice() else { panic!("{made:?}") };
    assert_eq!(fs::metadata(scratch).expect("a directory").permissions().mode() & 0o777, 0o700);
    let id = program.child.id().expect("it runs").to_string();
    assert!(!scratch.to_string_lossy().contains(&id), "{} can be guessed", scratch.display());
    assert!(program.stdout().contains(&format!("{}/admin.kubeconfig", scratch.display())), "{}", program.stdout());
    signal(&program.child, "TERM").await;
    assert_eq!(ended(&mut program.child).await, Some(0));
    assert_eq!(scratches(&place), Vec::<std::path::PathBuf>::new());
}

#[tokio::test]
async fn a_terminal_that_closes_stops_the_cluster_cleanly() {
    let place = place();
    for sent in ["HUP", "INT", "TERM"] {
        let mut program = place.up(&["--ephemeral"]).await;
        signal(&program.child, sent).await;
        assert_eq!(ended(&mut program.child).await, Some(0), "{sent}");
        assert!(program.stdout().ends_with("stopping\nstopped\n"), "{sent}: {}", program.stdout());
        assert!(scratches(&place).is_empty(), "{sent}");
    }
}

#[tokio::test]
async fn a_signal_while_it_starts_stops_it_cleanly() {
    let place = place();
    for delay in [15, 20, 30, 40, 60, 90] {
        let mut program = place.start(&EPHEMERAL);
        // Long enough for signals to be listened to; before that nothing has started that could be left behind.
        tokio::time::sleep(Duration::from_millis(delay)).await;
        signal(&program.child, "HUP").await;
        let code = ended(&mut program.child).await;
        assert!(matches!(code, Some(0) | None), "after {delay} ms: {code:?} {}", program.stderr());
        assert!(scratches(&place).is_empty(), "after {delay} ms");
    }
}

#[tokio::test]
async fn a_reader_that_goes_does_not_end_the_cluster() {
    let place = place();
    let kubeconfig = place.path("kubeconfig");
    let stderr = place.path("stderr");
    let mut child = Command::new(env!("CARGO_BIN_EXE_pintle"))
        .args(EPHEMERAL)
        .args(["--write-kubeconfig", kubeconfig.to_str().expect("UTF-8")])
        .env("HOME", place.path(""))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(File::create(&stderr).expect("a file"))
        .kill_on_drop(true)
        .spawn()
        .expect("pintle starts");
    let mut first = String::new();
    let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
    stdout.read_line(&mut first).await.expect("a line");
    assert!(first.starts_with("store"), "{first}");
    drop(stdout);
    eventually("the kubeconfig is written", async || match kubeconfig.exists() {
        true => Ok(()),
        false => Err(fs::read_to_string(&stderr).unwrap_or_default()),
    })
    .await;
    place.kubectl().until("get --raw /readyz", |said| said == "ok").await;
    signal(&child, "TERM").await;
    assert_eq!(ended(&mut child).await, Some(0), "{}", fs::read_to_string(&stderr).unwrap_or_default());
    assert_eq!(fs::read_to_string(&stderr).expect("a file"), "");
}

#[tokio::test]
async fn a_full_disk_below_its_log_does_not_end_the_cluster() {
    let place = place();
    let kubeconfig = place.path("kubeconfig");
    let full = || File::options().write(true).open("/dev/full").expect("/dev/full");
    let mut child = Command::new(env!("CARGO_BIN_EXE_pintle"))
        .args(EPHEMERAL)
        .args(["--write-kubeconfig", kubeconfig.to_str().expect("UTF-8")])
        .env("HOME", place.path(""))
        .env("PINTLE_LOG", "debug")
        .stdin(Stdio::null())
        .stdout(full())
        .stderr(full())
        .kill_on_drop(true)
        .spawn()
        .expect("pintle starts");
    eventually("the kubeconfig is written", async || match (kubeconfig.exists(), child.try_wait()) {
        (true, _) => Ok(()),
        (false, state) => Err(format!("{state:?}")),
    })
    .await;
    let kubectl = place.kubectl();
    kubectl.until("get --raw /readyz", |said| said == "ok").await;
    kubectl.ok("create namespace shop").await;
    signal(&child, "TERM").await;
    assert_eq!(ended(&mut child).await, Some(0));
}
