//! The image of the process that holds a sandbox's namespaces: it waits, and lets the kernel bury its children.
//!
//! It is made here, byte by byte, so that a machine without a registry can run Pods: an archive with one layer, in it one
//! program of some 200 bytes that ignores SIGCHLD and pauses for ever.

use serde_json::json;

use super::archive::{Entry, Saved, tar};

/// The name under which containerd finds it.
pub(super) const NAME: &str = "localhost/pintle/pause:1";

/// Where the kernel is to put the program.
const BASE: u64 = 0x40_0000;

/// What `docker save` would write. Nothing for a processor that we have no program for.
pub(super) fn archive() -> Option<Vec<u8>> {
    let layer = tar(&[Entry::file("pause", 0o755, program()?)]).ok()?;
    let config = json!({"architecture": "amd64", "os": "linux",
        "config": {"Entrypoint": ["/pause"], "User": "65535:65535"}});
    Saved { name: NAME.to_owned(), config, layers: vec![layer.into()] }.written().ok()
}

/// The machine's instructions, and a `struct sigaction` that says "ignore".
#[cfg(target_arch = "x86_64")]
fn program() -> Option<Vec<u8>> {
    const CODE: [u8; 40] = [
        0xbf, 0x11, 0x00, 0x00, 0x00, // mov edi, SIGCHLD
        0x48, 0x8d, 0x35, 0x1c, 0x00, 0x00, 0x00, // lea rsi, the sigaction, 40 bytes from the beginning
        0x31, 0xd2, // xor edx, edx: the old one is not wanted
        0x41, 0xba, 0x08, 0x00, 0x00, 0x00, // mov r10d, 8: the size of a signal set
        0xb8, 0x0d, 0x00, 0x00, 0x00, // mov eax, rt_sigaction
        0x0f, 0x05, // syscall
        0xb8, 0x22, 0x00, 0x00, 0x00, // mov eax, pause
        0x0f, 0x05, // syscall
        0xeb, 0xf7, // jump back to the last mov
        0x00, 0x00, 0x00, 0x00, // up to 40
    ];
    const IGNORE: [u64; 4] = [1, 0, 0, 0];
    const X86_64: u16 = 62;
    let code: Vec<u8> = CODE.into_iter().chain(IGNORE.into_iter().flat_map(u64::to_le_bytes)).collect();
    Some(elf(X86_64, &code))
}

#[cfg(not(target_arch = "x86_64"))]
fn program() -> Option<Vec<u8>> {
    None
}

/// The smallest file that the kernel runs: a header, one segment, the code.
#[cfg(target_arch = "x86_64")]
fn elf(machine: u16, code: &[u8]) -> Vec<u8> {
    const HEADERS: u64 = 64 + 56;
    let size = HEADERS + code.len() as u64;
    let mut file = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let short = |file: &mut Vec<u8>, values: &[u16]| values.iter().for_each(|v| file.extend(v.to_le_bytes()));
    let word = |file: &mut Vec<u8>, values: &[u32]| values.iter().for_each(|v| file.extend(v.to_le_bytes()));
    let long = |file: &mut Vec<u8>, values: &[u64]| values.iter().for_each(|v| file.extend(v.to_le_bytes()));
    // An executable; version; entry, program headers, no section headers; flags; sizes and counts.
    short(&mut file, &[2, machine]);
    word(&mut file, &[1]);
    long(&mut file, &[BASE + HEADERS, 64, 0]);
    word(&mut file, &[0]);
    short(&mut file, &[64, 56, 1, 0, 0, 0]);
    // One segment that is loaded, readable and executable: offset, addresses, sizes, alignment.
    word(&mut file, &[1, 5]);
    long(&mut file, &[0, BASE, BASE, size, size, 0x1000]);
    file.extend(code);
    file
}
