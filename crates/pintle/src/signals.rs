//! The signals that end the program: they are listened to before anything starts, and each means a clean stop.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Ctrl-C, SIGTERM, and SIGHUP, which comes when a terminal closes.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// Nothing for one who was started by `nohup`, which has the signal ignored.
    hangup: Option<Signal>,
}

impl Signals {
    /// From here on none of them ends the program by itself.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Signals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: match is_ignored(SignalKind::hangup()) {
                true => None,
                false => Some(signal(SignalKind::hangup())?),
            },
        })
    }

    /// Waits for one.
    pub(crate) async fn told_to_stop(&mut self) {
        let hangup = async {
            match &mut self.hangup {
                Some(hangup) => _ = hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            () = hangup => {}
        }
    }
}

fn is_ignored(kind: SignalKind) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or(0);
    // The first bit is signal 1.
    ignored >> (kind.as_raw_value() - 1) & 1 == 1
}
