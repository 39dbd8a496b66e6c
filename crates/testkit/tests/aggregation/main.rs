//! Other API servers behind this one: real TLS servers in this process, which answer, hang, lie and attack.

mod attacks;
mod conditions;
mod documents;
mod other;
mod requests;
