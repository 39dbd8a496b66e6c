//! A ServiceAccount: who a Pod is to the API.

use crate::resources::described::{Described, PLAIN};
use crate::resources::print::{AGE, NAME};

pub const SERVICE_ACCOUNT: Described = Described { returns_deleted: true, printed: Some(&[NAME, AGE]), ..PLAIN };
