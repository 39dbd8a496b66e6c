//! How a write tells its causes: one header, which servers that do not know it ignore.
//!
//! ```text
//! Pintle-Cause: {"loop":"replicaset-controller","key":"default/web","attempt":1,"because":[{"event":"updated",…}]}
//! ```
//!
//! ASCII only, and never more than [`LONGEST`] bytes: causes are left out from the end until it fits.

use http::HeaderValue;
use serde::Serialize;

use super::{Causes, Told};
use crate::key::Key;

pub const NAME: &str = "pintle-cause";

/// The longest header that is sent.
pub const LONGEST: usize = 4096;

#[derive(Serialize)]
struct Header<'a> {
    r#loop: &'a str,
    key: String,
    attempt: u32,
    because: &'a [Told],
}

/// The header's value, or nothing if not even the loop and the key fit.
pub fn value(actor: &str, key: &Key, attempt: u32, causes: &Causes) -> Option<HeaderValue> {
    let told: Vec<Told> = causes.iter().map(super::Cause::told).collect();
    let mut most = told.len();
    loop {
        let header = Header { r#loop: actor, key: key.to_string(), attempt, because: &told[..most] };
        let text = ascii(&serde_json::to_string(&header).ok()?);
        if text.len() <= LONGEST {
            return HeaderValue::from_str(&text).ok();
        }
        most = most.checked_sub(1)?;
    }
}

/// JSON whose strings have no character beyond ASCII: those are escaped, which JSON allows for all of them.
fn ascii(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for character in json.chars() {
        if character.is_ascii() {
            text.push(character);
        } else {
            let mut units = [0; 2];
            for unit in character.encode_utf16(&mut units) {
                text.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    text
}
