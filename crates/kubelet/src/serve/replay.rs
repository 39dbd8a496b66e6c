//! The first one who attaches to a container that takes input once, as `kubectl run -i` does, is told all that it wrote: also what
//! it wrote before somebody was connected, and of one that has ended already.
//!
//! A runtime's attach begins with what is written next. What was written before is in the log:
//!
//! ```text
//! written    a b c d e f
//! log        a b c            read after the streams were opened
//! live           c d e        begins when they were: what both have is told once
//! log                  f      read again at the end, in case the streams ended first
//! ```

use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::FutureExt;
use pintle_container::{Process, Reader};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

use crate::logs::line::{Line, Stream};
use crate::logs::place;
use crate::logs::read::Ended;

/// What is told of a longer log is its end.
const MAX_REPLAYED_BYTES: usize = 4 * 1024 * 1024;

const PIPE: usize = 64 * 1024;
const CHUNK: usize = 32 * 1024;

/// How long it is waited for the end of a container whose streams have ended.
const LOOK: Duration = Duration::from_millis(50);
const LOOKS: usize = 100;

/// How long a piece may be on its way from the runtime.
const ON_ITS_WAY: Duration = Duration::from_secs(2);

/// The streams of a container that has ended: what its log has of them.
pub(super) async fn of_log(log: &Path) -> Process {
    let mut streams = Vec::new();
    for stream in [Stream::Stdout, Stream::Stderr] {
        let content = written(log, stream).await;
        streams.push(Some(Box::new(std::io::Cursor::new(content)) as Reader));
    }
    let (stderr, stdout) = (streams.pop().flatten(), streams.pop().flatten());
    Process { stdin: None, stdout, stderr, resize: None, ended: async { Ok(0) }.boxed() }
}

/// The same process, with all that it wrote from its start to its end.
pub(super) fn from_the_start(process: Process, log: &Path, ended: impl Fn() -> Ended) -> Process {
    let relayed = |live: Option<Reader>, stream| {
        let live = live?;
        let (near, far) = tokio::io::duplex(PIPE);
        tokio::spawn(relay(live, log.to_owned(), stream, ended(), far));
        Some(Box::new(near) as Reader)
    };
    let Process { stdin, stdout, stderr, resize, ended: over } = process;
    let (stdout, stderr) = (relayed(stdout, Stream::Stdout), relayed(stderr, Stream::Stderr));
    let has_ended = ended();
    let over = async move {
        let Err(error) = over.await else { return Ok(0) };
        // Runtimes complain of one that ended while somebody was being attached. All that it wrote was told, and a client that heard
        // of an error would ask for its log and show it twice.
        match is_over(&has_ended).await {
            true => Ok(0),
            false => Err(error),
        }
    };
    Process { stdin, stdout, stderr, resize, ended: over.boxed() }
}

/// Waits for the end of a container whose streams have ended, for a while.
async fn is_over(ended: &Ended) -> bool {
    for _ in 0..LOOKS {
        if ended().await {
            return true;
        }
        tokio::time::sleep(LOOK).await;
    }
    false
}

/// Until the stream has ended or nobody reads any more.
async fn relay(mut live: Reader, log: PathBuf, stream: Stream, ended: Ended, mut out: DuplexStream) {
    let mut told = written(&log, stream).await;
    if out.write_all(&told).await.is_err() {
        return;
    }
    let opened = tokio::time::Instant::now();
    let mut is_first = true;
    let mut buffer = vec![0; CHUNK];
    loop {
        let read = live.read(&mut buffer).await.unwrap_or(0);
        let mut piece = buffer.get(..read).unwrap_or_default();
        if read == 0 {
            break;
        }
        // What was on its way while the log was read may have been in it.
        if is_first && opened.elapsed() < ON_ITS_WAY && overlaps(&told, piece).next_back() != Some(0) {
            tokio::time::sleep(LOOK).await;
            let all = written(&log, stream).await;
            let since = all.get(told.len()..).unwrap_or_default();
            piece = piece.get(known(&told, since, piece)..).unwrap_or_default();
        }
        is_first = false;
        if out.write_all(piece).await.is_err() {
            return;
        }
        // Of one that wrote so much nothing is missing at the end.
        if told.len() <= MAX_REPLAYED_BYTES {
            told.extend_from_slice(piece);
        }
    }
    if is_over(&ended).await {
        let all = written(&log, stream).await;
        // The log ends a last line that the container did not end.
        if let Some(rest) = all.strip_prefix(told.as_slice()).filter(|rest| *rest != b"\n") {
            // Whoever has gone does not miss it.
            let _ = out.write_all(rest).await;
        }
    }
}

/// How much of a piece may have been told before: each length of which the one's end is the other's begin, the smallest first.
fn overlaps<'a>(told: &'a [u8], piece: &'a [u8]) -> impl DoubleEndedIterator<Item = usize> + 'a {
    let most = told.len().min(piece.len());
    (0..=most).filter(move |length| piece.get(..*length).is_some_and(|begin| told.ends_with(begin)))
}

/// How much of a piece was told before, as what has come into the log since then tells: the log may be ahead of the piece, and a
/// line that has not ended is in the piece alone.
fn known(told: &[u8], since: &[u8], piece: &[u8]) -> usize {
    let new = |length: &usize| piece.get(*length..).unwrap_or_default();
    let is_ahead =
        |length: &usize| new(length).strip_prefix(since).is_some_and(|unfinished| !unfinished.contains(&b'\n'));
    let mut all = overlaps(told, piece);
    match since.is_empty() {
        true => all.next_back(),
        false => all
            .find(|length| new(length) == since)
            .or_else(|| overlaps(told, piece).find(|length| since.starts_with(new(length))))
            .or_else(|| overlaps(told, piece).find(is_ahead)),
    }
    .unwrap_or(0)
}

/// What a container has written to a stream, as far as its log is kept.
async fn written(log: &Path, stream: Stream) -> Vec<u8> {
    let mut files = place::rotated(log).await.unwrap_or_default();
    files.push(log.to_owned());
    let mut content = Vec::new();
    for file in files {
        let Ok(text) = tokio::fs::read(&file).await else { continue };
        for line in text.split(|byte| *byte == b'\n').filter_map(Line::parse).filter(|line| line.stream == stream) {
            content.extend_from_slice(line.text);
            if !line.partial {
                content.push(b'\n');
            }
        }
    }
    let from = content.len().saturating_sub(MAX_REPLAYED_BYTES);
    content.split_off(from)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Scene {
        directory: tempfile::TempDir,
    }

    impl Scene {
        fn new(written: &[&str]) -> Self {
            let scene = Scene { directory: tempfile::tempdir().unwrap() };
            scene.write(written);
            scene
        }

        fn log(&self) -> PathBuf {
            self.directory.path().join("0.log")
        }

        fn write(&self, lines: &[&str]) {
            let text: String = lines.iter().map(|line| format!("2026-01-02T03:04:05Z stdout F {line}\n")).collect();
            std::fs::write(self.log(), text + "2026-01-02T03:04:05Z stderr F not this\n").unwrap();
        }
    }

    /// What a client is told of a stream that says `live` and then ends, when the log had `before` and has `after` in the end.
    async fn told(before: &[&str], live: &str, after: &[&str]) -> String {
        let scene = Scene::new(before);
        let (mut source, reader) = tokio::io::duplex(1024);
        source.write_all(live.as_bytes()).await.unwrap();
        let (near, far) = tokio::io::duplex(1024);
        let ended: Ended = Box::new(|| async { true }.boxed());
        let relaying = tokio::spawn(relay(Box::new(reader), scene.log(), Stream::Stdout, ended, far));
        let mut near = near;
        let mut said = Vec::new();
        // It is asked for more only when what was there has been taken in.
        tokio::time::sleep(Duration::from_millis(20)).await;
        scene.write(after);
        drop(source);
        near.read_to_end(&mut said).await.unwrap();
        relaying.await.unwrap();
        String::from_utf8(said).unwrap()
    }

    #[tokio::test]
    async fn what_a_container_wrote_before_somebody_attached_is_told_once() {
        assert_eq!(told(&["early"], "", &["early"]).await, "early\n");
        assert_eq!(told(&["early"], "late\n", &["early", "late"]).await, "early\nlate\n");
        assert_eq!(told(&["early", "both"], "both\nlate\n", &["early", "both", "late"]).await, "early\nboth\nlate\n");
        assert_eq!(told(&["tick"], "tick\n", &["tick"]).await, "tick\n");
        assert_eq!(told(&["tick"], "tick\n", &["tick", "tick"]).await, "tick\ntick\n");
    }

    #[test]
    fn the_log_tells_whether_the_same_line_was_written_twice() {
        for (told, since, piece, expected) in [
            ("tick\n", "", "tick\n", 5),
            ("tick\n", "tick\n", "tick\n", 0),
            ("tick\ntick\n", "tick\n", "tick\ntick\n", 5),
            ("a\nb\n", "c\n", "b\nc\n", 2),
            ("a\n", "", "b\n", 0),
            ("a\n", "", "a\nprompt", 2),
        ] {
            assert_eq!(known(told.as_bytes(), since.as_bytes(), piece.as_bytes()), expected, "{told:?} {piece:?}");
        }
    }

    #[tokio::test]
    async fn what_came_into_the_log_after_the_streams_ended_is_told_too() {
        assert_eq!(told(&[], "", &["one", "two"]).await, "one\ntwo\n");
        assert_eq!(told(&[], "unfinished", &["unfinished"]).await, "unfinished");
    }

    #[tokio::test]
    async fn a_container_that_has_ended_is_read_from_its_log() {
        let scene = Scene::new(&["gone"]);
        let mut process = of_log(&scene.log()).await;
        let (mut stdout, mut stderr) = (String::new(), String::new());
        process.stdout.take().unwrap().read_to_string(&mut stdout).await.unwrap();
        process.stderr.take().unwrap().read_to_string(&mut stderr).await.unwrap();
        assert_eq!((stdout.as_str(), stderr.as_str()), ("gone\n", "not this\n"));
        assert_eq!(process.ended.await.unwrap(), 0);
    }
}
