//! What runs between a container and someone who is connected to it.

use std::fmt;

use futures::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;

use crate::error::Error;

pub type Reader = Box<dyn AsyncRead + Send + Unpin>;
pub type Writer = Box<dyn AsyncWrite + Send + Unpin>;

/// Which of a process's streams are wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    pub stdin: bool,
    pub stdout: bool,
    /// Never with a terminal, which has one output.
    pub stderr: bool,
    pub tty: bool,
}

/// The size of a terminal, in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    pub width: u16,
    pub height: u16,
}

/// A process that someone is connected to.
pub struct Process {
    /// Dropping it, or shutting it down, tells the process that its input has ended.
    pub stdin: Option<Writer>,
    pub stdout: Option<Reader>,
    pub stderr: Option<Reader>,
    /// Sizes of the terminal, if there is one.
    pub resize: Option<mpsc::Sender<Size>>,
    /// How a command ended: its exit code. For an attached container, 0 when the connection ends.
    pub ended: BoxFuture<'static, Result<i32, Error>>,
}

impl fmt::Debug for Process {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let streams = (self.stdin.is_some(), self.stdout.is_some(), self.stderr.is_some());
        formatter.debug_struct("Process").field("stdin, stdout, stderr", &streams).finish_non_exhaustive()
    }
}

/// A connection to a port of a Pod, both ways.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

pub type Connection = Box<dyn Duplex>;
