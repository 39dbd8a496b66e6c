//! What the program says to people. A reader that has gone, as in `pintle up | head -1`, and a full disk below a log file are
//! no reason to stop: what cannot be written is dropped.

use std::fmt::Arguments;
use std::io::{self, Write};

/// A line on stdout.
macro_rules! say {
    () => { $crate::say::out(format_args!("")) };
    ($($arguments:tt)*) => { $crate::say::out(format_args!($($arguments)*)) };
}

/// A line on stderr.
macro_rules! complain {
    ($($arguments:tt)*) => { $crate::say::err(format_args!($($arguments)*)) };
}

pub(crate) use {complain, say};

pub(crate) fn out(line: Arguments<'_>) {
    // Written at once: a line that comes in pieces may end in the middle.
    let _ = io::stdout().lock().write_all(format!("{line}\n").as_bytes());
}

/// Text that has its own line ends.
pub(crate) fn text(text: &str) {
    let _ = io::stdout().lock().write_all(text.as_bytes());
}

pub(crate) fn err(line: Arguments<'_>) {
    let _ = io::stderr().lock().write_all(format!("{line}\n").as_bytes());
}

/// Where the log goes: stderr, without telling anyone that it could not be written.
pub(crate) struct Log;

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = io::stderr().lock().write_all(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
