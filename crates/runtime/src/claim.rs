//! Adopting and releasing, for loops that find what is theirs by selector.

use std::sync::Arc;

use kube::api::{Patch, PatchParams};
use kube::core::{NamespaceResourceScope, Selector};
use kube::{Client, ResourceExt};
use pintle_kinds::Kind;
use serde_json::{Value, json};

use crate::error::Error;
use crate::objects::Objects;
use crate::owner::{self, Claim};

/// The candidates that are the owner's, after adopting those that match and are nobody's, and letting go those that no
/// longer match.
pub async fn claim<O, C>(
    client: &Client,
    owner: &O,
    selector: &Selector,
    candidates: Vec<Arc<C>>,
) -> Result<Vec<Arc<C>>, Error>
where
    O: Kind<DynamicType = (), Scope = NamespaceResourceScope>,
    C: Kind<DynamicType = (), Scope = NamespaceResourceScope>,
{
    claim_if(client, owner, |object: &C| owner::matches(selector, object.meta()), candidates).await
}

/// The same where more than a selector says whether an object matches.
pub async fn claim_if<O, C>(
    client: &Client,
    owner: &O,
    matches: impl Fn(&C) -> bool,
    candidates: Vec<Arc<C>>,
) -> Result<Vec<Arc<C>>, Error>
where
    O: Kind<DynamicType = (), Scope = NamespaceResourceScope>,
    C: Kind<DynamicType = (), Scope = NamespaceResourceScope>,
{
    claim_holding(client, owner, matches, candidates, None).await
}

/// The same for owners whose objects carry a finalizer: what is adopted gets it, what is let go loses it.
pub async fn claim_with_finalizer<O, C>(
    client: &Client,
    owner: &O,
    selector: &Selector,
    candidates: Vec<Arc<C>>,
    finalizer: &str,
) -> Result<Vec<Arc<C>>, Error>
where
    O: Kind<DynamicType = (), Scope = NamespaceResourceScope>,
    C: Kind<DynamicType = (), Scope = NamespaceResourceScope>,
{
    let matches = |object: &C| owner::matches(selector, object.meta());
    claim_holding(client, owner, matches, candidates, Some(finalizer)).await
}

async fn claim_holding<O, C>(
    client: &Client,
    owner: &O,
    matches: impl Fn(&C) -> bool,
    candidates: Vec<Arc<C>>,
    finalizer: Option<&str>,
) -> Result<Vec<Arc<C>>, Error>
where
    O: Kind<DynamicType = (), Scope = NamespaceResourceScope>,
    C: Kind<DynamicType = (), Scope = NamespaceResourceScope>,
{
    let namespace = owner.namespace().unwrap_or_default();
    let (owners, objects): (Objects<O>, Objects<C>) =
        (Objects::namespaced(client.clone(), &namespace), Objects::namespaced(client.clone(), &namespace));
    let mut adopting_is_safe = false;
    let mut claimed = Vec::new();
    for object in candidates {
        match owner::claim_if(owner.meta(), matches(&object), object.meta()) {
            Claim::Keep => claimed.push(object),
            Claim::Adopt => {
                if !adopting_is_safe {
                    check_still_there(&owners, owner).await?;
                    adopting_is_safe = true;
                }
                let mut patch = owner::adoption_patch(owner, object.meta());
                if let Some(finalizer) = finalizer {
                    patch["metadata"]["finalizers"] = json!([finalizer]);
                }
                claimed.extend(patched(&objects, &object.name_any(), patch).await?.map(Arc::new));
            }
            Claim::Release => {
                let mut patch = owner::release_patch(owner.meta().uid.as_deref().unwrap_or_default(), object.meta());
                if let Some(finalizer) = finalizer {
                    patch["metadata"]["$deleteFromPrimitiveList/finalizers"] = json!([finalizer]);
                }
                patched(&objects, &object.name_any(), patch).await?;
            }
            Claim::Ignore => {}
        }
    }
    Ok(claimed)
}

/// The cache may not know yet that the owner is going; what it adopted then would be deleted with it.
async fn check_still_there<O>(owners: &Objects<O>, owner: &O) -> Result<(), Error>
where
    O: Kind<DynamicType = ()>,
{
    let fresh = owners.get(&owner.name_any()).await?;
    if fresh.meta().uid != owner.meta().uid || fresh.meta().deletion_timestamp.is_some() {
        return Err(Error::Invalid(format!("{} is going away and adopts nothing", owner.name_any())));
    }
    Ok(())
}

/// Nothing if the object is gone or another has taken its name.
async fn patched<C>(objects: &Objects<C>, name: &str, patch: Value) -> Result<Option<C>, Error>
where
    C: Kind<DynamicType = ()>,
{
    match objects.patch(name, &PatchParams::default(), &Patch::Strategic(patch)).await {
        Ok(object) => Ok(Some(object)),
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 422) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
