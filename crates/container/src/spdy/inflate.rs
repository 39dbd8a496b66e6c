//! Reads the header blocks of a SPDY connection: one deflate stream (RFC 1951), a piece of it in each block.
//!
//! Every block ends where the sender has flushed, on a whole byte, so a block can be read without the next one. What came
//! before is still referred to: the last 32 KiB stay.

use super::dictionary::dictionary;

/// How far back a reference may go.
const WINDOW: usize = 32 * 1024;

/// The most that one block may hold.
const LIMIT: usize = 64 * 1024;

/// The two bytes of zlib's header and the checksum of the dictionary.
const HEADER: usize = 6;

const LENGTH_BASES: [u16; 29] =
    [3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27, 31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258];
const LENGTH_BITS: [u8; 29] = [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0];
const DISTANCE_BASES: [u16; 30] = [
    1, 2, 3, 4, 5, 7, 9, 13, 17, 25, 33, 49, 65, 97, 129, 193, 257, 385, 513, 769, 1025, 1537, 2049, 3073, 4097, 6145,
    8193, 12289, 16385, 24577,
];
/// In which order the lengths of the code for lengths are written.
const ORDER: [usize; 19] = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];

/// The bytes are no deflate stream.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// One direction of a connection.
pub(super) struct Inflater {
    /// What may be referred to.
    window: Vec<u8>,
    begun: bool,
}

impl Inflater {
    pub(super) fn new() -> Self {
        Inflater { window: dictionary(), begun: false }
    }

    /// What a block says.
    pub(super) fn block(&mut self, bytes: &[u8]) -> Result<Vec<u8>, Malformed> {
        let bytes = if self.begun { bytes } else { bytes.get(HEADER..).ok_or(Malformed)? };
        self.begun = true;
        let start = self.window.len();
        let mut bits = Bits { bytes, position: 0 };
        while bits.has_more() {
            let last = bits.take(1)? == 1;
            match bits.take(2)? {
                0 => self.stored(&mut bits)?,
                1 => self.coded(&mut bits, start, &Code::fixed_literals(), &Code::new(&[5; 30]))?,
                2 => {
                    let (literals, distances) = codes(&mut bits)?;
                    self.coded(&mut bits, start, &literals, &distances)?;
                }
                _ => return Err(Malformed),
            }
            if self.window.len() - start > LIMIT {
                return Err(Malformed);
            }
            if last {
                break;
            }
        }
        let said = self.window.get(start..).unwrap_or_default().to_vec();
        let old = self.window.len().saturating_sub(WINDOW);
        self.window.drain(..old);
        Ok(said)
    }

    fn stored(&mut self, bits: &mut Bits<'_>) -> Result<(), Malformed> {
        bits.align();
        let (length, check) = (bits.take(16)?, bits.take(16)?);
        if length != !check & 0xffff {
            return Err(Malformed);
        }
        let begin = bits.position / 8;
        let content = bits.bytes.get(begin..begin + length as usize).ok_or(Malformed)?;
        self.window.extend_from_slice(content);
        bits.position += content.len() * 8;
        Ok(())
    }

    fn coded(&mut self, bits: &mut Bits<'_>, start: usize, literals: &Code, distances: &Code) -> Result<(), Malformed> {
        loop {
            let symbol = literals.read(bits)?;
            let Some(kind) = symbol.checked_sub(257) else {
                match u8::try_from(symbol) {
                    Ok(literal) => self.window.push(literal),
                    // 256 ends the block.
                    Err(_) => return Ok(()),
                }
                continue;
            };
            let base = LENGTH_BASES.get(usize::from(kind)).ok_or(Malformed)?;
            let more = LENGTH_BITS.get(usize::from(kind)).ok_or(Malformed)?;
            let length = usize::from(*base) + bits.take(*more)? as usize;
            let kind = distances.read(bits)?;
            let base = DISTANCE_BASES.get(usize::from(kind)).ok_or(Malformed)?;
            let more = u8::try_from((kind / 2).saturating_sub(1)).map_err(|_| Malformed)?;
            let distance = usize::from(*base) + bits.take(more)? as usize;
            // It may reach into what it is just writing: byte by byte.
            for _ in 0..length {
                let from = self.window.len().checked_sub(distance).ok_or(Malformed)?;
                let byte = *self.window.get(from).ok_or(Malformed)?;
                self.window.push(byte);
            }
            if self.window.len() - start > LIMIT {
                return Err(Malformed);
            }
        }
    }
}

/// The two codes that a block brings along, themselves coded.
fn codes(bits: &mut Bits<'_>) -> Result<(Code, Code), Malformed> {
    let literals = bits.take(5)? as usize + 257;
    let distances = bits.take(5)? as usize + 1;
    let count = bits.take(4)? as usize + 4;
    let mut lengths = [0; 19];
    for place in ORDER.iter().take(count) {
        let length = bits.take(3)?;
        *lengths.get_mut(*place).ok_or(Malformed)? = length as u8;
    }
    let code = Code::new(&lengths);
    let mut lengths: Vec<u8> = Vec::with_capacity(literals + distances);
    while lengths.len() < literals + distances {
        let (length, times) = match code.read(bits)? {
            length @ 0..=15 => (length as u8, 1),
            16 => (*lengths.last().ok_or(Malformed)?, 3 + bits.take(2)?),
            17 => (0, 3 + bits.take(3)?),
            _ => (0, 11 + bits.take(7)?),
        };
        lengths.extend(std::iter::repeat_n(length, times as usize));
    }
    let (first, rest) = lengths.split_at_checked(literals).ok_or(Malformed)?;
    Ok((Code::new(first), Code::new(rest.get(..distances).ok_or(Malformed)?)))
}

/// A canonical Huffman code: shorter codes come first, equally long ones in the order of their symbols.
struct Code {
    /// How many symbols have a code of each length.
    counts: [u16; 16],
    /// All that have one, in the order of their codes.
    symbols: Vec<u16>,
}

impl Code {
    fn new(lengths: &[u8]) -> Self {
        let mut counts = [0; 16];
        let mut symbols = Vec::new();
        for length in 1..=15_u8 {
            let of_length =
                lengths.iter().zip(0_u16..).filter(|(known, _)| **known == length).map(|(_, symbol)| symbol);
            let before = symbols.len();
            symbols.extend(of_length);
            if let Some(count) = counts.get_mut(usize::from(length)) {
                *count = u16::try_from(symbols.len() - before).unwrap_or(u16::MAX);
            }
        }
        Code { counts, symbols }
    }

    fn fixed_literals() -> Self {
        let lengths: Vec<u8> = [(8, 144), (9, 112), (7, 24), (8, 8)]
            .into_iter()
            .flat_map(|(length, times)| std::iter::repeat_n(length, times))
            .collect();
        Code::new(&lengths)
    }

    fn read(&self, bits: &mut Bits<'_>) -> Result<u16, Malformed> {
        let (mut code, mut first, mut index) = (0_i32, 0_i32, 0_i32);
        for count in self.counts.iter().skip(1).map(|count| i32::from(*count)) {
            code |= bits.take(1)? as i32;
            if code - first < count {
                let place = usize::try_from(index + code - first).map_err(|_| Malformed)?;
                return self.symbols.get(place).copied().ok_or(Malformed);
            }
            index += count;
            first = (first + count) << 1;
            code <<= 1;
        }
        Err(Malformed)
    }
}

/// Bits, the lowest of each byte first.
struct Bits<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl Bits<'_> {
    fn has_more(&self) -> bool {
        self.position < self.bytes.len() * 8
    }

    fn align(&mut self) {
        self.position = self.position.next_multiple_of(8);
    }

    fn take(&mut self, count: u8) -> Result<u32, Malformed> {
        let mut value = 0;
        for place in 0..count {
            let byte = self.bytes.get(self.position / 8).ok_or(Malformed)?;
            value |= u32::from(byte >> (self.position % 8) & 1) << place;
            self.position += 1;
        }
        Ok(value)
    }
}

#[cfg(test)]
mod tests;
