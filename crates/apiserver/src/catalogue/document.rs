//! Texts about the catalogue that clients read again and again, written once.

use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// A text that is served as it is, and the tag by which a client knows that it has not changed.
#[derive(Debug)]
pub struct Document {
    pub text: Bytes,
    pub tag: String,
}

pub(super) type Documents = Mutex<BTreeMap<String, Arc<Document>>>;

impl Document {
    pub(super) fn of(text: Bytes) -> Self {
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &text);
        let tag = digest.as_ref().iter().take(16).map(|byte| format!("{byte:02X}")).collect();
        Document { text, tag }
    }
}
