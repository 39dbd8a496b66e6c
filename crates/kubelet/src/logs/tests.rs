//! What someone who reads a log sees of it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use jiff::Timestamp;
use tokio::io::AsyncWriteExt;
use tokio::sync::mpsc;

use super::line::{Line, Stream};
use super::options::Options;
use super::read::{Ended, read};
use super::rotate::LogRotation;

const THREE: &str = "\
2026-01-02T03:04:05.1Z stdout F one
2026-01-02T03:04:06.2Z stderr F two
2026-01-02T03:04:07.3Z stdout P thr
2026-01-02T03:04:07.4Z stdout F ee
";

fn log() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("0.log");
    (directory, log)
}

fn over() -> Ended {
    Box::new(|| futures::future::ready(true).boxed())
}

async fn read_all(log: &Path, options: Options) -> String {
    let (out, mut lines) = mpsc::channel::<Bytes>(1);
    let reading = tokio::spawn(read(log.to_owned(), options, over(), out));
    let mut text = Vec::new();
    while let Some(batch) = lines.recv().await {
        text.extend(batch);
    }
    reading.await.unwrap().unwrap();
    String::from_utf8(text).unwrap()
}

fn query(text: &str) -> Options {
    let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
    let pairs: Vec<_> = pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    Options::parse(&pairs, "2026-01-02T03:04:08Z".parse().unwrap()).unwrap()
}

#[test]
fn a_line_is_read_as_runtimes_write_it() {
    let line = Line::parse(b"2026-01-02T03:04:05.6Z stderr P:x  two words").unwrap();
    assert_eq!((line.stream, line.partial, line.text), (Stream::Stderr, true, &b" two words"[..]));
    assert_eq!(line.moment().unwrap(), "2026-01-02T03:04:05.6Z".parse::<Timestamp>().unwrap());
    assert_eq!(Line::parse(b"2026-01-02T03:04:05Z stdout F").unwrap().text, b"");
    for none in [&b""[..], b"text", b"2026-01-02T03:04:05Z stdin F x", b"2026-01-02T03:04:05Z stdout X x"] {
        assert_eq!(Line::parse(none), None);
    }
}

#[test]
fn a_wrong_wish_is_refused() {
    for wrong in ["tailLines=-1", "tailLines=x", "limitBytes=0", "sinceSeconds=0", "sinceTime=x", "stream=Both"] {
        let (name, value) = wrong.split_once('=').unwrap();
        let pairs = [(name.to_owned(), value.to_owned())];
        assert!(Options::parse(&pairs, Timestamp::UNIX_EPOCH).is_err(), "{wrong}");
    }
}

#[tokio::test]
async fn every_wish_about_a_log_is_granted() {
    let (_directory, log) = log();
    std::fs::write(&log, THREE).unwrap();
    let cases = [
        ("", "one\ntwo\nthree\n"),
        ("stream=Stdout", "one\nthree\n"),
        ("stream=Stderr", "two\n"),
        ("stream=All", "one\ntwo\nthree\n"),
        ("tailLines=0", ""),
        ("tailLines=1", "ee\n"),
        ("tailLines=3", "two\nthree\n"),
        ("tailLines=9", "one\ntwo\nthree\n"),
        ("limitBytes=6", "one\ntw"),
        ("sinceSeconds=2", "two\nthree\n"),
        ("sinceTime=2026-01-02T03:04:07Z", "three\n"),
        ("timestamps=true&tailLines=3", "2026-01-02T03:04:06.2Z two\n2026-01-02T03:04:07.3Z three\n"),
    ];
    for (wish, expected) in cases {
        assert_eq!(read_all(&log, query(wish)).await, expected, "{wish}");
    }
}

#[tokio::test]
async fn a_log_that_was_never_written_is_empty() {
    let (_directory, log) = log();
    assert_eq!(read_all(&log, query("follow=true")).await, "");
    assert_eq!(read_all(&log, query("tailLines=1")).await, "");
}

#[tokio::test]
async fn what_was_rotated_away_is_still_told_and_counts_as_lines() {
    let (_directory, log) = log();
    let line = |number: u32| format!("2026-01-02T03:04:05Z stdout F {number}\n");
    std::fs::write(log.with_extension("log.20260102-030405"), line(1) + &line(2)).unwrap();
    std::fs::write(log.with_extension("log.20260102-030406"), line(3)).unwrap();
    std::fs::write(&log, line(4)).unwrap();
    assert_eq!(read_all(&log, query("")).await, "1\n2\n3\n4\n");
    assert_eq!(read_all(&log, query("tailLines=3")).await, "2\n3\n4\n");
    assert_eq!(read_all(&log, query("tailLines=2")).await, "3\n4\n");
}

#[tokio::test]
async fn the_last_lines_of_a_long_log_are_found_from_its_end() {
    let (_directory, log) = log();
    let mut text = String::new();
    for number in 0..20_000 {
        writeln!(text, "2026-01-02T03:04:05.678901234Z stdout F line {number}").unwrap();
    }
    std::fs::write(&log, &text).unwrap();
    let last: String = (15_000..20_000).map(|number| format!("line {number}\n")).collect();
    assert!(read_all(&log, query("tailLines=5000")).await == last);
    assert_eq!(read_all(&log, query("")).await.lines().count(), 20_000);
}

#[tokio::test]
async fn a_container_that_never_stops_writing_keeps_nobody_who_does_not_follow() {
    let (_directory, log) = log();
    let line = |text: &str| format!("2026-01-02T03:04:05Z stdout F {text}\n");
    std::fs::write(&log, line("before").repeat(20_000)).unwrap();
    let (out, mut told) = mpsc::channel(1);
    let reading = tokio::spawn(read(log.clone(), query(""), over(), out));
    let mut all = told.recv().await.unwrap().to_vec();
    let mut file = std::fs::OpenOptions::new().append(true).open(&log).unwrap();
    std::io::Write::write_all(&mut file, line("after").as_bytes()).unwrap();
    while let Some(more) = told.recv().await {
        all.extend_from_slice(&more);
    }
    reading.await.unwrap().unwrap();
    assert!(String::from_utf8(all).unwrap() == "before\n".repeat(20_000));
}

/// A log that is read while it is written.
struct Followed {
    lines: mpsc::Receiver<Bytes>,
    over: Arc<AtomicBool>,
    task: tokio::task::JoinHandle<std::io::Result<()>>,
}

impl Followed {
    fn start(log: &Path, options: Options) -> Self {
        let (out, lines) = mpsc::channel(1);
        let over = Arc::new(AtomicBool::new(false));
        let ended: Ended = {
            let over = over.clone();
            Box::new(move || futures::future::ready(over.load(Ordering::SeqCst)).boxed())
        };
        Followed { lines, over, task: tokio::spawn(read(log.to_owned(), options, ended, out)) }
    }

    /// Waits until this text has come.
    async fn expect(&mut self, expected: &str) {
        let mut text = String::new();
        while text.len() < expected.len() {
            let next = tokio::time::timeout(Duration::from_secs(20), self.lines.recv()).await;
            let batch = next.unwrap_or_else(|_| panic!("nothing comes after {text:?}")).expect("it ended early");
            text.push_str(std::str::from_utf8(&batch).unwrap());
        }
        assert_eq!(text, expected);
    }
}

async fn append(log: &Path, text: &str) {
    let mut file = tokio::fs::OpenOptions::new().append(true).create(true).open(log).await.unwrap();
    file.write_all(text.as_bytes()).await.unwrap();
    file.flush().await.unwrap();
}

#[tokio::test]
async fn a_followed_log_goes_on_across_rotations_until_the_container_ends() {
    let (_directory, log) = log();
    let mut followed = Followed::start(&log, query("follow=true"));
    append(&log, "2026-01-02T03:04:05Z stdout F one\n2026-01-02T03:04:06Z stdout F tw").await;
    followed.expect("one\n").await;
    append(&log, "o\n").await;
    followed.expect("two\n").await;
    tokio::fs::rename(&log, log.with_extension("log.20260102-030407")).await.unwrap();
    append(&log.with_extension("log.20260102-030407"), "2026-01-02T03:04:07Z stdout F three\n").await;
    append(&log, "2026-01-02T03:04:08Z stdout F four\n").await;
    followed.expect("three\nfour\n").await;
    append(&log, "2026-01-02T03:04:09Z stdout F five\n").await;
    followed.over.store(true, Ordering::SeqCst);
    followed.expect("five\n").await;
    followed.task.await.unwrap().unwrap();
    assert_eq!(followed.lines.recv().await, None);
}

#[tokio::test]
async fn whoever_stops_following_leaves_nothing_behind() {
    let (_directory, log) = log();
    let followed = Followed::start(&log, query("follow=true"));
    drop(followed.lines);
    tokio::time::timeout(Duration::from_secs(20), followed.task).await.expect("it reads on").unwrap().unwrap();
}

#[tokio::test]
async fn a_log_that_has_grown_is_moved_away_and_the_oldest_are_removed() {
    let (directory, log) = log();
    let rotation = LogRotation { max_size: 10, max_files: 3 };
    let at = |second: i64| Timestamp::from_second(second).unwrap();
    let names = || {
        let entries = std::fs::read_dir(directory.path()).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    std::fs::write(&log, "short").unwrap();
    rotation.apply(&log, at(0), async { panic!("it is small enough") }).await.unwrap();
    for second in 1..5 {
        std::fs::write(&log, "long enough").unwrap();
        let reopen = async {
            assert!(!log.exists());
            std::fs::write(&log, "").unwrap();
            Ok(())
        };
        rotation.apply(&log, at(second), reopen).await.unwrap();
    }
    assert_eq!(names(), ["0.log", "0.log.19700101-000003", "0.log.19700101-000004"]);
}

#[tokio::test]
async fn a_runtime_that_does_not_open_the_log_anew_loses_no_line() {
    let (_directory, log) = log();
    std::fs::write(&log, "long enough").unwrap();
    let rotation = LogRotation { max_size: 10, max_files: 3 };
    let refuse = async { Err(pintle_container::Error::Unsupported("reopen logs")) };
    assert!(rotation.apply(&log, Timestamp::UNIX_EPOCH, refuse).await.is_err());
    assert_eq!(std::fs::read_to_string(&log).unwrap(), "long enough");
}
