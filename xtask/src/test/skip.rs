//! How a test says that it cannot run here. `cargo xtask test` prints it, and fails where the test must run.
//!
//! Test crates include this file by its path: it is the writing half of what `skips.rs` reads.

use std::fs::OpenOptions;
use std::io::Write;

/// Says what is missing for the test of this thread, which returns after it.
///
/// libtest has no word for this: the test counts as passed, and what it prints is captured. So it is written to the file
/// that `PINTLE_SKIPS` names.
pub fn skip(missing: &[&str]) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test without a name");
    println!("skipped: {test} needs {}", missing.join(", "));
    if let Some(file) = std::env::var_os("PINTLE_SKIPS") {
        let line = format!("{test}\t{}\n", missing.join("\t"));
        let file = OpenOptions::new().append(true).create(true).open(file);
        file.and_then(|mut file| file.write_all(line.as_bytes()))
            .expect("PINTLE_SKIPS names a file that can be written");
    }
}
