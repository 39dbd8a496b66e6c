//! The least that a durable write can cost: one thread that appends all that is queued to a file and syncs it.

use super::measure::Measured;
use anyhow::{Context, Result};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// The file is written full before, so that a sync has only data to write; appending begins anew at its end.
const SIZE: usize = 256 << 20;

/// More than there are writers, so that sending never waits.
const QUEUE: usize = 4096;

/// Bytes, and the sender that is told when they are on disk.
type Queued = (Vec<u8>, oneshot::Sender<()>);

/// The thread and the way to it. Dropping it ends the thread.
pub(crate) struct AppendLoop {
    queue: Option<SyncSender<Queued>>,
    thread: Option<JoinHandle<()>>,
}

impl AppendLoop {
    pub(crate) fn start(path: &Path) -> Result<AppendLoop> {
        let file = File::create(path).with_context(|| path.display().to_string())?;
        for at in (0..SIZE).step_by(1 << 20) {
            file.write_all_at(&vec![0; 1 << 20], at as u64)?;
        }
        file.sync_all()?;
        let (queue, requests) = sync_channel(QUEUE);
        let thread = std::thread::Builder::new().name("append-loop".to_owned()).spawn(move || run(&file, &requests))?;
        Ok(AppendLoop { queue: Some(queue), thread: Some(thread) })
    }

    /// Returns when the bytes are on disk.
    pub(crate) async fn append(&self, bytes: Vec<u8>) -> Result<()> {
        let (reply, answer) = oneshot::channel();
        let queue = self.queue.as_ref().context("the loop has ended")?;
        queue.try_send((bytes, reply)).map_err(|error| match error {
            TrySendError::Full(_) => anyhow::anyhow!("more writers than the queue is long"),
            TrySendError::Disconnected(_) => anyhow::anyhow!("the disk failed"),
        })?;
        answer.await.context("the disk failed")
    }
}

impl Drop for AppendLoop {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Writers that know nothing of each other: each is a thread that appends to the same file and syncs it, every time.
pub(crate) async fn each_alone(path: &Path, writers: usize, time: Duration) -> Result<Measured> {
    let file = Arc::new(OpenOptions::new().create(true).append(true).open(path)?);
    let started = Instant::now();
    let threads: Vec<_> = (0..writers)
        .map(|_| {
            let file = Arc::clone(&file);
            tokio::task::spawn_blocking(move || {
                let (mut times, bytes) = (Vec::new(), [b'x'; super::VALUE]);
                while started.elapsed() < time {
                    let began = Instant::now();
                    (&*file).write_all(&bytes)?;
                    file.sync_data()?;
                    times.push(began.elapsed());
                }
                std::io::Result::Ok(times)
            })
        })
        .collect();
    let mut times = Vec::new();
    for thread in threads {
        times.extend(thread.await??);
    }
    Ok(Measured::of(started.elapsed(), times))
}

/// Ends with its senders, or when the disk fails: then everyone who waits is told by losing the reply.
fn run(file: &File, requests: &Receiver<Queued>) {
    let (mut buffer, mut replies, mut at) = (Vec::new(), Vec::new(), 0);
    while let Ok(first) = requests.recv() {
        for (bytes, reply) in std::iter::once(first).chain(requests.try_iter()) {
            buffer.extend_from_slice(&bytes);
            replies.push(reply);
        }
        if at + buffer.len() > SIZE {
            at = 0;
        }
        if file.write_all_at(&buffer, at as u64).and_then(|()| file.sync_data()).is_err() {
            return;
        }
        at += buffer.len();
        buffer.clear();
        for reply in replies.drain(..) {
            // A writer whose time is up has dropped its end.
            let _ = reply.send(());
        }
    }
}
