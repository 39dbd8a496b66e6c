//! Exec, attach and port-forward with a real containerd: needs root, containerd, runc, CNI plugins and a static busybox.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use pintle_container::cri::private::{Private, import};
use pintle_container::{
    ContainerConfig, ContainerId, Cri, PodRef, Reader, Runtime, SandboxConfig, SandboxId, Size, Wanted,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[path = "../../../xtask/src/test/skip.rs"]
mod skip;
mod unwired;

const IMAGE: &str = "localhost/busybox:1";
const OUT: Wanted = Wanted { stdin: false, stdout: true, stderr: true, tty: false };
const ALL: Wanted = Wanted { stdin: true, stdout: true, stderr: true, tty: false };

fn shell(directory: &Path, script: &str) {
    let output = Command::new("sh").args(["-ec", script]).current_dir(directory).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

struct World {
    cri: Cri,
    sandbox: SandboxId,
    container: ContainerId,
}

async fn run(cri: Cri, directory: &Path) -> World {
    let pod = PodRef { namespace: "default".to_owned(), name: "web".to_owned(), uid: "u1".to_owned() };
    let logs = directory.join("logs");
    std::fs::create_dir_all(logs.join("main")).unwrap();
    let log_directory = logs.display().to_string();
    let around = SandboxConfig { pod, log_directory, ..SandboxConfig::default() };
    let sandbox = cri.run_sandbox(around.clone()).await.unwrap();
    let script = "nc -ll -p 8080 -e cat & while read line; do echo got $line; done; sleep 1000";
    let config = ContainerConfig {
        name: "main".to_owned(),
        image: IMAGE.to_owned(),
        image_id: IMAGE.to_owned(),
        command: ["/bin/sh", "-c", script].map(str::to_owned).to_vec(),
        log_path: "main/0.log".to_owned(),
        stdin: true,
        ..ContainerConfig::default()
    };
    let container = cri.create_container(&sandbox, &around, config).await.unwrap();
    cri.start_container(&container).await.unwrap();
    World { cri, sandbox, container }
}

async fn all(reader: Option<Reader>) -> String {
    let mut text = String::new();
    reader.unwrap().read_to_string(&mut text).await.unwrap();
    text
}

impl World {
    async fn exec(&self, script: &str, wanted: Wanted) -> pintle_container::Process {
        let command = ["/bin/sh", "-c", script].map(str::to_owned);
        self.cri.exec_streams(&self.container, &command, wanted).await.unwrap()
    }

    async fn a_command_tells_both_outputs_and_its_exit_code(&self) {
        let process = self.exec("echo out; echo err >&2; exit 7", OUT).await;
        let (out, err) = tokio::join!(all(process.stdout), all(process.stderr));
        assert_eq!((out.as_str(), err.as_str()), ("out\n", "err\n"));
        assert_eq!(process.ended.await, Ok(7));
        let process = self.exec("true", OUT).await;
        let (out, _) = tokio::join!(all(process.stdout), all(process.stderr));
        assert_eq!((out.as_str(), process.ended.await), ("", Ok(0)));
    }

    async fn the_last_output_of_many_commands_is_never_lost(&self) {
        for _ in 0..10 {
            let process = self.exec("head -c 1000000 /dev/zero | tr '\\0' x; echo end", OUT).await;
            let (out, _) = tokio::join!(all(process.stdout), all(process.stderr));
            assert_eq!(out.len(), 1_000_004);
            assert!(out.ends_with("xend\n"));
            assert_eq!(process.ended.await, Ok(0));
        }
    }

    async fn a_large_input_arrives_whole(&self) {
        let mut process = self.exec("wc -c", ALL).await;
        let mut stdin = process.stdin.take().unwrap();
        stdin.write_all(&vec![b'x'; 3_000_000]).await.unwrap();
        drop(stdin);
        let (out, _) = tokio::join!(all(process.stdout), all(process.stderr));
        assert_eq!((out.trim(), process.ended.await), ("3000000", Ok(0)));
    }

    async fn a_terminal_has_the_size_it_was_told(&self) {
        // The size comes on another way than the command: it looks until it is there.
        let script = "until [ \"$(stty size)\" = '43 132' ]; do sleep 0.05; done; stty size";
        let mut process = self.exec(script, Wanted { tty: true, ..ALL }).await;
        process.resize.as_ref().unwrap().send(Size { width: 132, height: 43 }).await.unwrap();
        let out = all(process.stdout.take()).await;
        assert!(out.contains("43 132"), "{out:?}");
        assert_eq!(process.ended.await, Ok(0));
    }

    async fn a_command_that_is_not_there_says_so(&self) {
        let command = ["/bin/nosuch".to_owned()];
        let process = self.cri.exec_streams(&self.container, &command, OUT).await.unwrap();
        let error = process.ended.await.unwrap_err().to_string();
        assert!(error.contains("nosuch"), "{error}");
    }

    async fn whoever_attaches_talks_to_the_container_itself(&self) {
        let mut process = self.cri.attach(&self.container, ALL).await.unwrap();
        process.stdin.as_mut().unwrap().write_all(b"hello\n").await.unwrap();
        let mut answer = [0; 10];
        process.stdout.as_mut().unwrap().read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"got hello\n");
    }

    async fn a_port_of_the_pod_is_reached(&self) {
        let mut connection = self.cri.connect(&self.sandbox, 8080).await.unwrap();
        connection.write_all(b"ping").await.unwrap();
        let mut answer = [0; 4];
        connection.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"ping");
        let mut nobody = self.cri.connect(&self.sandbox, 8081).await.unwrap();
        let error = nobody.read(&mut answer).await.unwrap_err().to_string();
        assert!(error.contains("8081"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_user_types_reaches_a_real_container_and_what_it_says_comes_back() {
    let needs = [("root", rustix::process::geteuid().is_root()), ("containerd, runc and ctr", Private::is_possible())];
    let missing: Vec<&str> = needs.into_iter().filter(|(_, there)| !there).map(|(need, _)| need).collect();
    if !missing.is_empty() {
        return skip::skip(&missing);
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_owned();
    let config = unwired::config(&path, "10.247.9");
    let (private, cri) = Private::start(&config).await.unwrap();
    shell(&path, include_str!("busybox.sh"));
    import(private.socket(), &path.join("image.tar")).await.unwrap();
    let known = async {
        while cri.image(IMAGE).await.unwrap().is_none() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), known).await.expect("the image is there");
    let world = run(cri, &path).await;
    let work = async {
        world.a_command_tells_both_outputs_and_its_exit_code().await;
        world.the_last_output_of_many_commands_is_never_lost().await;
        world.a_large_input_arrives_whole().await;
        world.a_terminal_has_the_size_it_was_told().await;
        world.a_command_that_is_not_there_says_so().await;
        world.whoever_attaches_talks_to_the_container_itself().await;
        world.a_port_of_the_pod_is_reached().await;
    };
    let outcome = futures::FutureExt::catch_unwind(std::panic::AssertUnwindSafe(tokio::time::timeout(
        Duration::from_secs(60),
        work,
    )));
    let outcome = outcome.await;
    // Whatever came of it, nothing is left on the machine.
    let _ = world.cri.stop_sandbox(&world.sandbox).await;
    let _ = world.cri.remove_sandbox(&world.sandbox).await;
    private.stop().await;
    match outcome {
        Ok(in_time) => in_time.expect("it took longer than a minute"),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}
