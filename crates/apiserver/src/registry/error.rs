//! Why the registry does not do what it is asked, in a form that code can decide on. It becomes a Status at the edge.

use crate::catalogue::Resource;
use pintle_meta::{Status, field};

#[derive(Debug)]
pub enum Error {
    NotFound(About),
    AlreadyExists(About),
    /// Somebody else wrote in between: read again and try again.
    Modified(About),
    Invalid(About, field::Errors),
    /// Anything else, as the client hears it.
    Refused(Box<Status>),
}

/// The object that an error is about.
#[derive(Debug)]
pub struct About {
    group: String,
    resource: String,
    kind: String,
    name: String,
}

impl About {
    pub fn new(resource: &Resource, name: &str) -> Self {
        About {
            group: resource.group.clone(),
            resource: resource.name.clone(),
            kind: resource.kind.clone(),
            name: name.to_owned(),
        }
    }
}

impl From<Status> for Error {
    fn from(status: Status) -> Self {
        Error::Refused(Box::new(status))
    }
}

impl From<Error> for Status {
    fn from(error: Error) -> Self {
        match error {
            Error::NotFound(of) => Status::not_found(&of.group, &of.resource, &of.name),
            Error::AlreadyExists(of) => Status::already_exists(&of.group, &of.resource, &of.name),
            Error::Modified(of) => Status::modified(&of.group, &of.resource, &of.name),
            Error::Invalid(of, errors) => Status::invalid(&of.group, &of.kind, &of.name, &errors),
            Error::Refused(status) => *status,
        }
    }
}
