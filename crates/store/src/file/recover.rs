//! Reads a directory back: the newest state, then the logs from it on.

use std::collections::BTreeSet;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use super::block::BLOCK;
use super::checkpoint::{self, number_of};
use super::disk::Disk;
use super::frames::{Frames, Next};
use super::record::{self, BadHeader, FORMAT, GroupHead, Header, Piece, Role};
use super::{OpenError, log};
use crate::failpoint::{Failpoint, Failpoints};
use crate::snapshot::Snapshot;
use crate::{Options, Revision};

/// What a directory held.
pub(super) struct Recovered {
    pub(super) snapshot: Snapshot,
    /// Relaxed transactions up to here may have been seen, and be lost.
    pub(super) reserved: Revision,
    /// The last log's number and how many of its blocks count; none if the directory is new.
    pub(super) last_log: Option<(u64, u64)>,
    pub(super) logs: usize,
    pub(super) log_bytes: u64,
    pub(super) state_bytes: u64,
    /// The newest log that is marked as begun; the next one's mark takes its place.
    pub(super) marked: Option<u64>,
    /// Files that count for nothing: cut off when they were begun, or replaced.
    pub(super) leftover: Vec<String>,
}

/// Why a directory cannot be read.
#[derive(Debug)]
pub(super) enum Problem {
    Read { file: String, source: io::Error },
    Format { found: String },
    Damaged { file: String, place: String },
    Failed(String),
}

impl Problem {
    pub(super) fn at(self, dir: &Path) -> OpenError {
        let dir = dir.to_owned();
        match self {
            Self::Read { file, source } => OpenError::Read { dir, file, source },
            Self::Format { found } => OpenError::Format { dir, found, expected: FORMAT },
            Self::Damaged { file, place } => OpenError::Damaged { dir, file, place },
            Self::Failed(reason) => OpenError::Failed { dir, reason },
        }
    }

    fn damaged(file: &str, block: u64) -> Self {
        Self::Damaged { file: file.to_owned(), place: format!("at byte {}", block * BLOCK as u64) }
    }
}

pub(super) type Input = Frames<Box<dyn Read + Send>>;

/// Reads everything, and changes nothing.
pub(super) fn read(disk: &dyn Disk, options: &Options, failpoints: &dyn Failpoints) -> Result<Recovered, Problem> {
    let files = Files::list(disk)?;
    failpoints.reached(Failpoint::RecoveryListed).map_err(Problem::Failed)?;
    let (mut snapshot, state_bytes) = match files.state {
        Some(number) => {
            let name = checkpoint::name(number);
            read_state(open(disk, &name)?, &name, Some(number))?
        }
        None => (Snapshot::new(1, []), 0),
    };
    failpoints.reached(Failpoint::RecoveryState).map_err(Problem::Failed)?;
    let mut leftover = files.leftover;
    let mut logs = Vec::new();
    for (index, &number) in files.logs.iter().enumerate() {
        let name = log::name(number);
        let mut input = open(disk, &name)?;
        match read_header(&mut input, &name)? {
            Some(header) => logs.push((check_header(header, &name, Role::Log, number)?, input)),
            // It was being made when the machine stopped, and nothing was written to it.
            None if index + 1 == files.logs.len() && files.marked != Some(number) => {
                find_damage(&mut input, &name, 0)?;
                leftover.push(name);
            }
            None => return Err(Problem::damaged(&name, 0)),
        }
    }
    let limits: Vec<_> = logs.iter().skip(1).map(|(header, _)| Some(header.previous_blocks)).chain([None]).collect();
    let mut recovered = Recovered {
        snapshot: Snapshot::new(1, []),
        reserved: 0,
        last_log: None,
        logs: logs.len(),
        log_bytes: 0,
        state_bytes,
        marked: files.marked,
        leftover,
    };
    let mut reserved = 0;
    for ((header, input), limit) in logs.into_iter().zip(limits) {
        let name = log::name(header.number);
        if header.revision < snapshot.revision() {
            return Err(Problem::damaged(&name, 0));
        }
        snapshot.jump(header.revision);
        // Reservations are made anew in each log.
        let (blocks, last) = replay(input, &name, &header, limit, &mut snapshot, options)?;
        reserved = last;
        recovered.last_log = Some((header.number, blocks));
        recovered.log_bytes += blocks * BLOCK as u64;
        failpoints.reached(Failpoint::RecoveryLog).map_err(Problem::Failed)?;
    }
    (recovered.snapshot, recovered.reserved) = (snapshot, reserved);
    Ok(recovered)
}

/// The directory's files, sorted out.
struct Files {
    state: Option<u64>,
    /// Those that the state does not hold, without a gap.
    logs: Vec<u64>,
    /// The newest log that is known to have been begun.
    marked: Option<u64>,
    leftover: Vec<String>,
}

impl Files {
    fn list(disk: &dyn Disk) -> Result<Self, Problem> {
        let names = || disk.names().map_err(|source| Problem::Read { file: ".".to_owned(), source });
        // A log that begins while the names are read may be missed the first time, and its mark be seen.
        Self::sort(&names()?).or_else(|_| Self::sort(&names()?))
    }

    fn sort(names: &[String]) -> Result<Self, Problem> {
        if names.iter().any(|name| name == "fjall") {
            return Err(Problem::Format { found: "1".to_owned() });
        }
        let numbers = |wanted| -> BTreeSet<u64> {
            let found = names.iter().filter_map(|name| number_of(name));
            found.filter(|(role, _)| *role == wanted).map(|(_, number)| number).collect()
        };
        let (states, logs) = (numbers(Role::State), numbers(Role::Log));
        let state = states.last().copied();
        let first = state.unwrap_or(1);
        let marked = names.iter().filter_map(|name| log::marked(name)).max();
        let is_replaced = |name: &str| {
            name.ends_with(".new")
                || number_of(name).is_some_and(|(_, number)| number < first)
                || log::marked(name).is_some_and(|number| Some(number) < marked)
        };
        let leftover = names.iter().filter(|name| is_replaced(name)).cloned().collect();
        let logs: Vec<_> = logs.range(first..).copied().collect();
        let missing = (first..).zip(&logs).find(|(expected, found)| expected != *found);
        if let Some((expected, _)) = missing.or((state.is_some() && logs.is_empty()).then_some((first, &0))) {
            return Err(Problem::Damaged { file: log::name(expected), place: "it is missing".to_owned() });
        }
        if let Some(lost) = marked.filter(|number| *number >= first && logs.last() < Some(number)) {
            return Err(Problem::Damaged { file: log::name(lost), place: "it is missing".to_owned() });
        }
        Ok(Self { state, logs, marked, leftover })
    }
}

/// Reads a file that holds a state; `number` is what its name says.
pub(super) fn read_state(mut input: Input, name: &str, number: Option<u64>) -> Result<(Snapshot, u64), Problem> {
    let header = read_header(&mut input, name)?.ok_or_else(|| Problem::damaged(name, 0))?;
    let number = number.unwrap_or(header.number);
    let header = check_header(header, name, Role::State, number)?;
    input.set_salt(header.salt());
    let mut entries = Vec::new();
    loop {
        let start = input.block();
        let piece = match next(&mut input, name)? {
            Next::Frame(frame) => record::decode_piece(frame),
            Next::Missing { block } | Next::Damaged { block } => return Err(Problem::damaged(name, block)),
        };
        match piece {
            Some(Piece::Entries(more)) => entries.extend(more),
            Some(Piece::End(count)) if count == entries.len() as u64 => break,
            _ => return Err(Problem::damaged(name, start)),
        }
    }
    if entries.iter().any(|entry| entry.mod_revision > header.revision) {
        return Err(Problem::damaged(name, 0));
    }
    let bytes = input.block() * BLOCK as u64;
    Ok((Snapshot::new(header.revision, entries), bytes))
}

/// Applies a log's groups; says how many blocks count, and which revision is reserved at its end.
fn replay(
    mut input: Input,
    name: &str,
    header: &Header,
    limit: Option<u64>,
    snapshot: &mut Snapshot,
    options: &Options,
) -> Result<(u64, Revision), Problem> {
    input.set_salt(header.salt());
    let mut reserved = 0;
    while limit.is_none_or(|limit| input.block() < limit) {
        let start = input.block();
        match next(&mut input, name)? {
            Next::Frame(frame) => {
                let group = apply(frame, snapshot, options).ok_or_else(|| Problem::damaged(name, start))?;
                reserved = group.reserved;
            }
            Next::Missing { block } if limit.is_none() => {
                find_damage(&mut input, name, block)?;
                return Ok((block, reserved));
            }
            Next::Missing { block } | Next::Damaged { block } => return Err(Problem::damaged(name, block)),
        }
    }
    match limit {
        Some(limit) if limit != input.block() => Err(Problem::damaged(name, limit)),
        _ => Ok((input.block(), reserved)),
    }
}

/// Applies one group; `None` if it does not follow on what was there.
fn apply(mut frame: &[u8], snapshot: &mut Snapshot, options: &Options) -> Option<GroupHead> {
    let head = GroupHead::decode(&mut frame)?;
    for _ in 0..head.events {
        let event = record::decode_event(&mut frame, |key| snapshot.get(key))?;
        let follows = event.revision == snapshot.revision() || event.revision == snapshot.revision() + 1;
        if !follows {
            return None;
        }
        snapshot.apply(&Arc::new(event), options);
    }
    (frame.is_empty() && head.revision == snapshot.revision()).then_some(head)
}

fn open(disk: &dyn Disk, name: &str) -> Result<Input, Problem> {
    let input = disk.open(name).map_err(|source| Problem::Read { file: name.to_owned(), source })?;
    Ok(Frames::new(input))
}

/// A file's header, or `None` if it was not written to its end.
fn read_header(input: &mut Input, name: &str) -> Result<Option<Header>, Problem> {
    match next(input, name)? {
        Next::Missing { .. } => Ok(None),
        Next::Damaged { block } => Err(Problem::damaged(name, block)),
        Next::Frame(frame) => match Header::decode(frame) {
            Ok(header) => Ok(Some(header)),
            Err(BadHeader::Format(found)) => Err(Problem::Format { found: found.to_string() }),
            Err(BadHeader::NotOurs) => Err(Problem::damaged(name, 0)),
        },
    }
}

fn check_header(header: Header, name: &str, role: Role, number: u64) -> Result<Header, Problem> {
    let right = header.role == role && header.number == number;
    if right { Ok(header) } else { Err(Problem::damaged(name, 0)) }
}

fn find_damage(input: &mut Input, name: &str, end: u64) -> Result<(), Problem> {
    let found = input.find_damage(end).map_err(|source| Problem::Read { file: name.to_owned(), source })?;
    found.map_or(Ok(()), |block| Err(Problem::damaged(name, block)))
}

fn next<'a>(input: &'a mut Input, name: &str) -> Result<Next<'a>, Problem> {
    input.next().map_err(|source| Problem::Read { file: name.to_owned(), source })
}
