//! Where the last lines of a log begin.

use std::io::{self, SeekFrom};

use tokio::fs::File;
use tokio::io::{AsyncReadExt, AsyncSeekExt};

const BLOCK: u64 = 64 * 1024;

/// Finds the first of the last `lines` lines of some files, oldest first, each with its end: which file, and where in it. Reads
/// from the end.
pub(super) async fn start(files: &mut [(File, u64)], lines: u64) -> io::Result<(usize, u64)> {
    let mut left = lines;
    for (index, (file, end)) in files.iter_mut().enumerate().rev() {
        match start_in(file, *end, left).await? {
            Found::At(position) => return Ok((index, position)),
            Found::TooFew(found) => left -= found,
        }
    }
    Ok((0, 0))
}

enum Found {
    At(u64),
    /// The file has fewer lines: so many.
    TooFew(u64),
}

async fn start_in(file: &mut File, mut end: u64, lines: u64) -> io::Result<Found> {
    if lines == 0 {
        return Ok(Found::At(end));
    }
    let (mut found, mut last, mut buffer) = (0, true, vec![0; BLOCK as usize]);
    while end > 0 {
        let begin = end.saturating_sub(BLOCK);
        let block = buffer.get_mut(..(end - begin) as usize).unwrap_or_default();
        file.seek(SeekFrom::Start(begin)).await?;
        file.read_exact(block).await?;
        for (offset, byte) in block.iter().enumerate().rev() {
            // The very last line feed ends a line and begins none; without one, the last line is still being written.
            let begins_a_line = *byte == b'\n' && !std::mem::take(&mut last);
            if begins_a_line {
                found += 1;
                if found == lines {
                    return Ok(Found::At(begin + offset as u64 + 1));
                }
            }
            last = false;
        }
        end = begin;
    }
    let whole = u64::from(!last);
    if found + whole == lines { Ok(Found::At(0)) } else { Ok(Found::TooFew(found + whole)) }
}
