//! Reads a log from its first wanted line to its end, and on while its container runs.

use std::io::{self, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use tokio::fs::File;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncSeekExt, BufReader, Take};
use tokio::sync::mpsc;

use super::line::Line;
use super::options::Options;
use super::{place, tail};

/// How often a followed log is looked at.
const LOOK: Duration = Duration::from_millis(100);

/// After how many looks it is asked whether the container has ended.
const LOOKS: u64 = 5;

/// A longer line is told in pieces. Runtimes write at most 16 KiB of text to one.
const LONGEST: u64 = 1024 * 1024;

/// How much is gathered before it is handed on.
const BATCH: usize = 32 * 1024;

/// Says whether the container has ended.
pub(crate) type Ended = Box<dyn Fn() -> BoxFuture<'static, bool> + Send + Sync>;

/// Writes what is wanted of a log to a channel. Ends when all is written, or nobody reads any more.
pub(crate) async fn read(log: PathBuf, options: Options, ended: Ended, out: mpsc::Sender<Bytes>) -> io::Result<()> {
    let mut reading = Reading { printer: Printer::new(options), log, ended, out };
    let out = reading.out.clone();
    tokio::select! {
        biased;
        result = reading.run() => result,
        () = out.closed() => Ok(()),
    }
}

struct Reading {
    log: PathBuf,
    printer: Printer,
    ended: Ended,
    out: mpsc::Sender<Bytes>,
}

impl Reading {
    async fn run(&mut self) -> io::Result<()> {
        let mut files = self.open().await?;
        let (first, position) = match self.printer.options.tail_lines {
            Some(lines) => tail::start(&mut files, lines).await?,
            None => (0, 0),
        };
        let mut current = None;
        for (index, (mut file, end)) in files.into_iter().enumerate().skip(first) {
            let position = if index == first { position } else { 0 };
            file.seek(SeekFrom::Start(position)).await?;
            // Who does not follow is told what there was: a container that never stops writing must not keep a reader for ever.
            let most = if self.printer.options.follow { u64::MAX } else { end.saturating_sub(position) };
            let mut part = Part::new(file, most);
            if !part.copy(&mut self.printer, &self.out).await? {
                return Ok(());
            }
            current = Some(part);
        }
        if self.printer.options.follow {
            self.follow(current).await?;
        } else if let Some(mut part) = current {
            part.finish(&mut self.printer);
        }
        self.printer.flush(&self.out).await;
        Ok(())
    }

    /// All files of the log with their ends, oldest first. One that is moved away meanwhile is there once.
    async fn open(&self) -> io::Result<Vec<(File, u64)>> {
        let current = open(&self.log).await?;
        let known = match &current {
            Some(file) => Some(inode(file).await?),
            None => None,
        };
        let mut files = Vec::new();
        for path in place::rotated(&self.log).await? {
            let Some(file) = open(&path).await? else { continue };
            if Some(inode(&file).await?) != known {
                files.push(file);
            }
        }
        files.extend(current);
        let mut ends = Vec::with_capacity(files.len());
        for file in files {
            let end = file.metadata().await?.len();
            ends.push((file, end));
        }
        Ok(ends)
    }

    /// Waits for more until the container has ended and all it wrote is told.
    async fn follow(&mut self, mut current: Option<Part>) -> io::Result<()> {
        for look in 0_u64.. {
            // Asked first: what it wrote before its end is in the file then. Not each time: the runtime has other work.
            let ended = look % LOOKS == 0 && (self.ended)().await;
            if current.is_none() {
                current = open(&self.log).await?.map(|file| Part::new(file, u64::MAX));
            }
            if let Some(part) = &mut current {
                let moved = moved(part, &self.log).await?;
                if !part.copy(&mut self.printer, &self.out).await? {
                    return Ok(());
                }
                if moved {
                    // What was on its way when the new file was made may have come into the old one.
                    tokio::time::sleep(LOOK).await;
                    if !part.copy(&mut self.printer, &self.out).await? {
                        return Ok(());
                    }
                    part.finish(&mut self.printer);
                    current = None;
                    continue;
                }
            }
            self.printer.flush(&self.out).await;
            if ended {
                if let Some(part) = &mut current {
                    part.finish(&mut self.printer);
                }
                return Ok(());
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }
}

/// One file, and the begin of a line whose end is not written yet.
struct Part {
    file: Take<BufReader<File>>,
    line: Vec<u8>,
}

impl Part {
    /// Of which no more than so many bytes are told.
    fn new(file: File, most: u64) -> Self {
        Part { file: BufReader::with_capacity(BATCH, file).take(most), line: Vec::new() }
    }

    /// Tells all whole lines that are there. False if no more is wanted.
    async fn copy(&mut self, printer: &mut Printer, out: &mpsc::Sender<Bytes>) -> io::Result<bool> {
        loop {
            let room = LONGEST.saturating_sub(self.line.len() as u64);
            let read = (&mut self.file).take(room).read_until(b'\n', &mut self.line).await?;
            let whole = self.line.ends_with(b"\n") || self.line.len() as u64 >= LONGEST;
            if whole {
                printer.print(self.line.strip_suffix(b"\n").unwrap_or(&self.line));
                self.line.clear();
                let full = printer.batch.len() >= BATCH;
                if (full || printer.is_done()) && !printer.flush(out).await {
                    return Ok(false);
                }
            } else if read == 0 {
                return Ok(true);
            }
        }
    }

    /// Tells a last line that was never ended.
    fn finish(&mut self, printer: &mut Printer) {
        if !self.line.is_empty() {
            printer.print(&std::mem::take(&mut self.line));
        }
    }
}

/// Turns lines of the file into lines for the reader.
pub(super) struct Printer {
    options: Options,
    batch: Vec<u8>,
    told: u64,
    /// The next piece begins a line.
    begins: bool,
}

impl Printer {
    pub(super) fn new(options: Options) -> Self {
        Printer { options, batch: Vec::new(), told: 0, begins: true }
    }

    fn is_done(&self) -> bool {
        self.options.limit_bytes.is_some_and(|limit| self.told >= limit)
    }

    pub(super) fn print(&mut self, line: &[u8]) {
        // What the runtime did not write as a line is no word of the container.
        let Some(line) = Line::parse(line) else { return };
        if self.options.stream.is_some_and(|wanted| wanted != line.stream) {
            return;
        }
        if self.options.since.is_some_and(|since| line.moment().is_none_or(|moment| moment < since)) {
            return;
        }
        if self.options.timestamps && self.begins {
            self.push(line.time.as_bytes());
            self.push(b" ");
        }
        self.push(line.text);
        if !line.partial {
            self.push(b"\n");
        }
        self.begins = !line.partial;
    }

    fn push(&mut self, bytes: &[u8]) {
        let left = self.options.limit_bytes.map_or(u64::MAX, |limit| limit - self.told.min(limit));
        let bytes = bytes.get(..usize::try_from(left).unwrap_or(usize::MAX)).unwrap_or(bytes);
        self.told += bytes.len() as u64;
        self.batch.extend_from_slice(bytes);
    }

    /// Hands on what was gathered. False if no more is wanted.
    pub(super) async fn flush(&mut self, out: &mpsc::Sender<Bytes>) -> bool {
        let batch = std::mem::take(&mut self.batch);
        (batch.is_empty() || out.send(batch.into()).await.is_ok()) && !self.is_done()
    }
}

async fn open(path: &Path) -> io::Result<Option<File>> {
    match File::open(path).await {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

async fn inode(file: &File) -> io::Result<(u64, u64)> {
    let metadata = file.metadata().await?;
    Ok((metadata.dev(), metadata.ino()))
}

/// Whether the log's name leads elsewhere by now. A name that leads nowhere is one between two steps of a rotation.
async fn moved(part: &Part, log: &Path) -> io::Result<bool> {
    match tokio::fs::metadata(log).await {
        Ok(metadata) => Ok((metadata.dev(), metadata.ino()) != inode(part.file.get_ref().get_ref()).await?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}
