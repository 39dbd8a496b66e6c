//! What is to be done, as roles name it.

use std::borrow::Cow;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
    /// The method of a path that is no object's, or a right beyond requests: `post`, `impersonate`.
    Other(Cow<'static, str>),
    /// A method that means nothing here.
    #[default]
    Unknown,
}

impl Verb {
    pub const fn right(name: &'static str) -> Self {
        Verb::Other(Cow::Borrowed(name))
    }

    pub fn of(name: &str) -> Self {
        match name {
            "get" => Verb::Get,
            "list" => Verb::List,
            "watch" => Verb::Watch,
            "create" => Verb::Create,
            "update" => Verb::Update,
            "patch" => Verb::Patch,
            "delete" => Verb::Delete,
            "deletecollection" => Verb::DeleteCollection,
            "" => Verb::Unknown,
            other => Verb::Other(Cow::Owned(other.to_owned())),
        }
    }

    pub fn as_str(&self) -> &str {
        match self {
            Verb::Get => "get",
            Verb::List => "list",
            Verb::Watch => "watch",
            Verb::Create => "create",
            Verb::Update => "update",
            Verb::Patch => "patch",
            Verb::Delete => "delete",
            Verb::DeleteCollection => "deletecollection",
            Verb::Other(name) => name,
            Verb::Unknown => "",
        }
    }

    /// Does it change objects?
    pub fn is_mutating(&self) -> bool {
        matches!(self, Verb::Create | Verb::Update | Verb::Patch | Verb::Delete | Verb::DeleteCollection)
    }

    /// Does it look at objects? What a client sends with such a request stays unread.
    pub fn is_read(&self) -> bool {
        matches!(self, Verb::Get | Verb::List | Verb::Watch | Verb::Unknown)
    }
}
