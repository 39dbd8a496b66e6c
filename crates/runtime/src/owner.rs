//! Who owns what: controller references, and whether an object is to be kept, adopted or let go.

use std::any::TypeId;
use std::collections::BTreeMap;

use k8s_openapi::ClusterResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference};
use kube::Resource;
use kube::api::{DeleteParams, Preconditions};
use kube::core::{Selector, SelectorExt};
use serde_json::{Value, json};

use crate::error::Error;
use crate::key::Key;

/// The owner that manages this object, if one does; there is at most one.
pub fn controller_of(meta: &ObjectMeta) -> Option<&OwnerReference> {
    meta.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))
}

/// Whether the object with this UID manages the other.
pub fn is_controlled_by(meta: &ObjectMeta, uid: Option<&str>) -> bool {
    uid.is_some_and(|uid| controller_of(meta).is_some_and(|owner| owner.uid == uid))
}

/// The key of the controller of a kind, to wake it when what it owns changes.
pub fn controller_key<K>(meta: &ObjectMeta) -> Option<Key>
where
    K: Resource<DynamicType = (), Scope: 'static>,
{
    GroupKind::of::<K>().controller_key(meta)
}

/// A kind that owns others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupKind {
    pub group: String,
    pub kind: String,
    /// Its objects are in no namespace, also where those that they own are.
    pub is_cluster_scoped: bool,
}

impl GroupKind {
    pub fn of<K>() -> Self
    where
        K: Resource<DynamicType = (), Scope: 'static>,
    {
        let is_cluster_scoped = TypeId::of::<K::Scope>() == TypeId::of::<ClusterResourceScope>();
        GroupKind { is_cluster_scoped, ..GroupKind::of_dynamic::<K>(&()) }
    }

    /// The same without the scope, which is not known of all kinds.
    pub(crate) fn of_dynamic<K: Resource>(dynamic_type: &K::DynamicType) -> Self {
        let (group, kind) = (K::group(dynamic_type).into_owned(), K::kind(dynamic_type).into_owned());
        GroupKind { group, kind, is_cluster_scoped: false }
    }

    /// The key of the object's controller, if it is of this kind.
    pub fn controller_key(&self, meta: &ObjectMeta) -> Option<Key> {
        let owner = controller_of(meta)?;
        let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
        let namespace = if self.is_cluster_scoped { "" } else { meta.namespace.as_deref().unwrap_or_default() };
        (owner.kind == self.kind && group == self.group).then(|| Key::new(namespace, owner.name.clone()))
    }
}

/// The metadata of an object that another one owns: its name, the owner's namespace, and the controller reference.
pub fn child<K: Resource<DynamicType = ()>>(owner: &K, name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: owner.meta().namespace.clone(),
        owner_references: Some(vec![controller_reference(owner)]),
        ..ObjectMeta::default()
    }
}

/// A reference that says: this object manages the other, and cannot go in the foreground before it.
pub fn controller_reference<K: Resource<DynamicType = ()>>(owner: &K) -> OwnerReference {
    OwnerReference {
        api_version: K::api_version(&()).into_owned(),
        kind: K::kind(&()).into_owned(),
        name: owner.meta().name.clone().unwrap_or_default(),
        uid: owner.meta().uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// A reference that says: this object goes when the other does, and is managed by someone else or nobody.
pub fn dependent_reference<K: Resource<DynamicType = ()>>(owner: &K) -> OwnerReference {
    OwnerReference { controller: None, block_owner_deletion: None, ..controller_reference(owner) }
}

/// What becomes of the objects that the deleted one owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cascade {
    /// They go first; the owner stays until they are gone.
    Foreground,
    /// The owner goes at once, they go afterwards.
    Background,
    /// They stay, and are nobody's.
    Orphan,
}

/// How to delete exactly this object, and not a successor of the same name.
pub fn deletion_of(meta: &ObjectMeta, cascade: Cascade) -> DeleteParams {
    let policy = match cascade {
        Cascade::Foreground => DeleteParams::foreground(),
        Cascade::Background => DeleteParams::background(),
        Cascade::Orphan => DeleteParams::orphan(),
    };
    policy.preconditions(Preconditions { uid: meta.uid.clone(), resource_version: None })
}

/// What a controller does with an object it has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// It is the controller's and matches.
    Keep,
    /// It matches and is nobody's.
    Adopt,
    /// It is the controller's and no longer matches.
    Release,
    /// It is none of the controller's business.
    Ignore,
}

/// Decides about one object, as upstream's reference managers do.
pub fn claim(owner: &ObjectMeta, selector: &Selector, object: &ObjectMeta) -> Claim {
    claim_if(owner, matches(selector, object), object)
}

/// The same where more than a selector says whether an object matches.
pub fn claim_if(owner: &ObjectMeta, matches: bool, object: &ObjectMeta) -> Claim {
    let owner_is_going = owner.deletion_timestamp.is_some();
    match controller_of(object) {
        Some(reference) if Some(&reference.uid) != owner.uid.as_ref() => Claim::Ignore,
        Some(_) if matches => Claim::Keep,
        // An owner on its way out lets nothing go: the garbage collector decides.
        Some(_) if owner_is_going => Claim::Ignore,
        Some(_) => Claim::Release,
        None if owner_is_going || !matches || object.deletion_timestamp.is_some() => Claim::Ignore,
        None if owner.namespace != object.namespace => Claim::Ignore,
        None => Claim::Adopt,
    }
}

pub fn matches(selector: &Selector, object: &ObjectMeta) -> bool {
    static NONE: BTreeMap<String, String> = BTreeMap::new();
    selector.matches(object.labels.as_ref().unwrap_or(&NONE))
}

/// A selector that can be asked. An empty one selects everything, as in the API.
pub fn parse_selector(selector: &LabelSelector) -> Result<Selector, Error> {
    selector.clone().try_into().map_err(|error| Error::Invalid(format!("the label selector cannot be read: {error}")))
}

/// A strategic patch that makes `owner` the controller; the UID guards against a successor of the same name.
pub fn adoption_patch<K: Resource<DynamicType = ()>>(owner: &K, object: &ObjectMeta) -> Value {
    json!({"metadata": {"ownerReferences": [controller_reference(owner)], "uid": object.uid}})
}

/// A strategic patch that takes the owner off.
pub fn release_patch(owner_uid: &str, object: &ObjectMeta) -> Value {
    json!({"metadata": {"ownerReferences": [{"$patch": "delete", "uid": owner_uid}], "uid": object.uid}})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta(uid: &str, labels: &[(&str, &str)], owner: Option<&str>, deleting: bool) -> ObjectMeta {
        ObjectMeta {
            uid: Some(uid.into()),
            labels: Some(labels.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect()),
            owner_references: owner.map(|uid| {
                vec![OwnerReference { uid: uid.into(), controller: Some(true), ..OwnerReference::default() }]
            }),
            deletion_timestamp: deleting.then(|| jiff::Timestamp::UNIX_EPOCH.into()),
            ..ObjectMeta::default()
        }
    }

    #[test]
    fn a_cluster_scoped_owner_is_woken_by_what_it_owns_in_a_namespace() {
        use k8s_openapi::api::apps::v1::ReplicaSet;
        use k8s_openapi::api::core::v1::Node;
        let owned_by = |api_version: &str, kind: &str| {
            let owner = OwnerReference {
                api_version: api_version.into(),
                kind: kind.into(),
                name: "x".into(),
                controller: Some(true),
                ..OwnerReference::default()
            };
            let namespace = Some("shop".to_owned());
            ObjectMeta { namespace, owner_references: Some(vec![owner]), ..ObjectMeta::default() }
        };
        assert_eq!(controller_key::<Node>(&owned_by("v1", "Node")), Some(Key::cluster("x")));
        assert_eq!(controller_key::<ReplicaSet>(&owned_by("apps/v1", "ReplicaSet")), Some(Key::new("shop", "x")));
        assert_eq!(controller_key::<ReplicaSet>(&owned_by("v1", "ReplicaSet")), None);
    }

    #[test]
    fn an_object_is_only_taken_from_nobody_and_only_let_go_by_its_owner() {
        let selector = parse_selector(&LabelSelector {
            match_labels: Some([("app".to_owned(), "web".to_owned())].into()),
            ..LabelSelector::default()
        })
        .unwrap();
        let (owner, going) = (meta("o", &[], None, false), meta("o", &[], None, true));
        let web: &[(&str, &str)] = &[("app", "web")];
        let cases = [
            (&owner, meta("p", web, Some("o"), false), Claim::Keep),
            (&owner, meta("p", &[], Some("o"), false), Claim::Release),
            (&owner, meta("p", web, Some("x"), false), Claim::Ignore),
            (&owner, meta("p", web, None, false), Claim::Adopt),
            (&owner, meta("p", web, None, true), Claim::Ignore),
            (&owner, meta("p", &[], None, false), Claim::Ignore),
            (&going, meta("p", web, None, false), Claim::Ignore),
            (&going, meta("p", &[], Some("o"), false), Claim::Ignore),
            (&going, meta("p", web, Some("o"), false), Claim::Keep),
        ];
        for (owner, object, expected) in cases {
            assert_eq!(claim(owner, &selector, &object), expected, "{object:?}");
        }
    }
}
