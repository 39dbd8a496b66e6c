//! The log of a container that is not there: the text in its script.

use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use tokio::sync::mpsc;

use super::options::Options;
use super::read::{Ended, Printer};

/// How often it is looked whether a followed container has ended.
const LOOK: Duration = Duration::from_secs(1);

/// Tells the wanted part of a text as if it had been written when the container started.
pub(crate) async fn tell(
    text: Option<String>,
    started_at: Option<Timestamp>,
    options: Options,
    ended: Ended,
    out: mpsc::Sender<Bytes>,
) {
    let lines: Vec<&str> = text.iter().flat_map(|text| text.lines()).collect();
    let wanted = options.tail_lines.and_then(|lines| usize::try_from(lines).ok()).unwrap_or(usize::MAX);
    let time = pintle_meta::clock::rfc3339(started_at.unwrap_or(Timestamp::UNIX_EPOCH));
    let follow = options.follow;
    let mut printer = Printer::new(options);
    for line in lines.iter().skip(lines.len().saturating_sub(wanted)) {
        printer.print(format!("{time} stdout F {line}").as_bytes());
    }
    if !printer.flush(&out).await || !follow {
        return;
    }
    let waiting = async {
        while !ended().await {
            tokio::time::sleep(LOOK).await;
        }
    };
    tokio::select! {
        biased;
        () = waiting => {}
        () = out.closed() => {}
    }
}
