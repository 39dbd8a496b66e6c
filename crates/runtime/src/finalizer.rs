//! A finalizer as a guard: nothing outside is made before it is on, and it comes off only after all of that is gone.
//!
//! ```text
//! alive, not on   → it is put on               → Held
//! alive, on       →                              Held
//! going, on       → release what is outside, then `Release::done`
//! going, not on   →                              Released: nothing of ours is left
//! ```
//!
//! What is made outside asks for a [`Held`], so that code which forgets the finalizer does not compile.

use std::fmt::Debug;
use std::ops::Deref;
use std::sync::Arc;

use kube::Resource;
use kube::api::Api;
use serde::de::DeserializeOwned;

use crate::error::{Error, ignore_not_found};
use crate::write;

/// The name of a finalizer: a domain, a slash, and what it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finalizer(pub &'static str);

/// Where an object stands.
#[derive(Debug)]
pub enum Guard<'a, K> {
    /// The finalizer is on: the object cannot go without us.
    Held(Held<K>),
    /// The object is going, and waits for us.
    Release(Release<'a, K>),
    /// The object is going, and we are through with it.
    Released,
}

/// Proof that the finalizer is on; also the object, at its latest state known.
#[derive(Clone, Debug)]
pub struct Held<K>(Arc<K>);

impl<K> Held<K> {
    /// For a [machine](crate::machine) that makes nothing outside, and so has no finalizer.
    pub(crate) fn without_finalizer(object: Arc<K>) -> Self {
        Held(object)
    }
}

impl<K> Deref for Held<K> {
    type Target = K;

    fn deref(&self) -> &K {
        &self.0
    }
}

/// An object that waits for us to clean up.
#[must_use = "the object stays until `done` is called"]
#[derive(Debug)]
pub struct Release<'a, K> {
    api: &'a Api<K>,
    object: Arc<K>,
    finalizer: Finalizer,
}

impl<K> Deref for Release<'_, K> {
    type Target = K;

    fn deref(&self) -> &K {
        &self.object
    }
}

impl Finalizer {
    /// Says where the object stands, and puts the finalizer on if it is not. A conflict means that the cache was behind:
    /// return the error, and the next attempt looks again.
    pub async fn guard<'a, K>(self, api: &'a Api<K>, object: &Arc<K>) -> Result<Guard<'a, K>, Error>
    where
        K: Resource + Clone + Debug + DeserializeOwned,
    {
        let meta = object.meta();
        let (going, on) = (meta.deletion_timestamp.is_some(), write::has_finalizer(meta, self.0));
        Ok(match (going, on) {
            (false, true) => Guard::Held(Held(object.clone())),
            (false, false) => Guard::Held(Held(Arc::new(write::put_finalizer(api, meta, self.0).await?))),
            (true, true) => Guard::Release(Release { api, object: object.clone(), finalizer: self }),
            (true, false) => Guard::Released,
        })
    }
}

impl<K> Release<'_, K>
where
    K: Resource + Clone + Debug + DeserializeOwned,
{
    /// Nothing is left outside: the object may go.
    pub async fn done(self) -> Result<(), Error> {
        // An object that is not there has gone already; a successor of the same name is refused by its UID.
        ignore_not_found(write::remove_finalizer(self.api, self.object.meta(), self.finalizer.0).await)?;
        Ok(())
    }
}
