//! Every resource that is served, as data: built-in ones from the facts table, custom ones from their definitions, and those
//! that a backend answers.

mod built_in;
mod document;
mod groups;
mod served;

pub use built_in::type_name;
use built_in::{Builtin, words};
use document::Documents;
pub use groups::Group;
pub use served::{Served, ServedError};

use crate::aggregate::{Registrations, Told};
pub use document::Document;

use crate::backend::{Answered, Backend, Listed, Offered};
use crate::custom::names::{Conflict, Names, Taken};
use crate::custom::{Converter, Definition, Identity, Source};
use crate::follow::Followed;
use crate::keys;
use crate::resources;
use crate::strategy::Strategy;
use bytes::Bytes;
use imbl::{OrdMap, OrdSet};
use pintle_meta::names::join_api_version;
use pintle_schema::Schema;
use pintle_store::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock, OnceLock, PoisonError};

/// One resource of one version.
pub struct Resource {
    pub group: String,
    pub version: String,
    /// The plural name that stands in paths.
    pub name: String,
    pub kind: String,
    pub list_kind: String,
    pub singular: String,
    pub namespaced: bool,
    pub short_names: Vec<String>,
    pub categories: Vec<String>,
    pub verbs: Vec<String>,
    pub subresources: Vec<Subresource>,
    pub strategy: Arc<dyn Strategy>,
    /// Where its objects are kept: `/registry/pods/`.
    pub prefix: String,
    /// The version in which objects are kept; another one is converted on the way in and out.
    pub stored_api_version: String,
    /// Not a kind of the facts table.
    pub custom: bool,
    /// Who answers in place of the registry.
    pub backend: Option<Arc<dyn Backend>>,
    /// What every answer about it warns of.
    pub deprecation: Option<String>,
    /// Its definition is going: nothing new is created.
    pub terminating: bool,
    /// When its definition was last written: objects from before may lack its defaults.
    defined_at: u64,
    type_name: String,
    schema: OnceLock<Schema>,
    /// What discovery says of it, written when it is first asked for.
    discovered: OnceLock<String>,
    /// Of a custom kind.
    source: Option<Arc<Source>>,
}

pub struct Subresource {
    pub name: String,
    pub kind: String,
    /// Set when the kind is of another group than its parent, as Scale is.
    pub group_version: Option<(String, String)>,
    pub verbs: Vec<String>,
}

impl Resource {
    /// What discovery says of it.
    pub fn discovered(&self, write: impl FnOnce(&Resource) -> String) -> &str {
        self.discovered.get_or_init(|| write(self))
    }

    pub fn api_version(&self) -> String {
        join_api_version(&self.group, &self.version)
    }

    /// Built when first needed: starting does not pay for kinds that nobody uses.
    pub fn schema(&self) -> &Schema {
        if let Some(source) = &self.source {
            return source.schema();
        }
        self.schema.get_or_init(|| Schema::builtin(&self.type_name).unwrap_or_else(Schema::untyped))
    }

    /// An object that was written at this revision may lack what its definition fills in today.
    pub fn may_lack_defaults(&self, written_at: u64) -> bool {
        written_at < self.defined_at && self.schema().has_defaults()
    }

    /// The stored bytes are what clients of this version read. A custom object may be older than the version that is stored today.
    pub fn reads(&self, entry: &Entry) -> bool {
        let in_version = match self.custom {
            true => self.is_written_in(&entry.value),
            false => self.is_stored_version(),
        };
        in_version && !self.may_lack_defaults(entry.mod_revision)
    }

    /// Is this the version in which objects are kept?
    pub fn is_stored_version(&self) -> bool {
        let stored = self.stored_api_version.as_str();
        match self.group.as_str() {
            "" => stored == self.version,
            group => stored.strip_prefix(group).and_then(|rest| rest.strip_prefix('/')) == Some(&self.version),
        }
    }

    /// Are these the bytes of an object of this version?
    pub fn is_written_in(&self, bytes: &[u8]) -> bool {
        let head = ["{\"kind\":\"", &self.kind, "\",\"apiVersion\":\"", &self.group, "/", &self.version, "\","];
        head.iter().try_fold(bytes, |rest, part| rest.strip_prefix(part.as_bytes())).is_some()
    }

    /// The webhook that converts objects of this kind between versions.
    pub(crate) fn converter(&self) -> Option<&Converter> {
        self.source.as_ref()?.converter()
    }

    /// Fills in what was left out: what the types say, then what the kind says.
    pub fn default(&self, object: &mut serde_json::Value) -> Result<(), pintle_meta::Status> {
        if !self.custom {
            resources::defaults::fill(self.schema(), object);
            self.strategy.default(object);
            return Ok(());
        }
        let filled = pintle_schema::default::default(self.schema(), object);
        filled.map_err(|error| pintle_meta::Status::too_large(error.to_string()))
    }

    /// What is wrong with an object, by its types and by its kind.
    pub fn check(
        &self,
        object: &serde_json::Value,
        old: Option<&serde_json::Value>,
        errors: &mut pintle_meta::field::Errors,
    ) {
        if !self.custom {
            resources::rules::check(self.schema(), &self.strategy.as_checked(object), errors);
        }
        self.strategy.validate(object, old, errors);
    }

    pub fn type_name(&self) -> &str {
        &self.type_name
    }

    pub fn allows(&self, verb: &str) -> bool {
        self.verbs.iter().any(|v| v == verb)
    }

    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|s| s.name == name)
    }

    pub fn has_status(&self) -> bool {
        self.subresource("status").is_some()
    }

    /// Fields that a write through this subresource (none: of the object itself) does not set, so that nobody comes to own
    /// them through it.
    pub fn reset_fields(&self, subresource: &str) -> &'static [&'static [&'static str]] {
        match subresource {
            "status" => &[&["spec"]],
            "" if self.has_status() && !self.strategy.creates_with_status() => &[&["status"]],
            _ => &[],
        }
    }

    /// The names that it holds in its group.
    fn names(&self) -> Names {
        Names {
            plural: self.name.clone(),
            singular: self.singular.clone(),
            kind: self.kind.clone(),
            list_kind: self.list_kind.clone(),
            short_names: self.short_names.clone(),
            categories: Vec::new(),
        }
    }

    /// Objects are stored here; reviews and bindings are only answered.
    pub fn is_stored(&self) -> bool {
        self.allows("get") && self.allows("create")
    }

    pub fn key(&self, namespace: &str, name: &str) -> String {
        if self.namespaced { format!("{}{namespace}/{name}", self.prefix) } else { format!("{}{name}", self.prefix) }
    }

    /// The keys of a namespace, or of all for the empty one.
    pub fn scope(&self, namespace: &str) -> String {
        if self.namespaced && !namespace.is_empty() {
            format!("{}{namespace}/", self.prefix)
        } else {
            self.prefix.clone()
        }
    }

    pub(crate) fn custom(custom: Custom<'_>) -> Self {
        let Custom { group, version, names, .. } = custom;
        Resource {
            prefix: keys::custom(group, &names.plural),
            stored_api_version: join_api_version(group, custom.storage_version),
            group: group.to_owned(),
            version: version.to_owned(),
            name: names.plural,
            kind: names.kind,
            list_kind: names.list_kind,
            singular: names.singular,
            namespaced: custom.namespaced,
            short_names: names.short_names,
            categories: names.categories,
            verbs: words("delete,deletecollection,get,list,patch,create,update,watch"),
            subresources: custom.subresources,
            strategy: custom.strategy,
            custom: true,
            backend: None,
            deprecation: custom.deprecation,
            terminating: custom.terminating,
            defined_at: custom.defined_at,
            type_name: String::new(),
            schema: OnceLock::new(),
            discovered: OnceLock::new(),
            source: Some(custom.source),
        }
    }
}

impl Resource {
    fn answered(backend: &Arc<dyn Backend>, offered: Listed) -> Self {
        let (group, version) = (backend.group().to_owned(), backend.version().to_owned());
        Resource {
            prefix: String::new(),
            stored_api_version: join_api_version(&group, &version),
            group,
            version,
            list_kind: format!("{}List", offered.kind),
            name: offered.name,
            kind: offered.kind,
            singular: String::new(),
            namespaced: offered.namespaced,
            short_names: Vec::new(),
            categories: Vec::new(),
            verbs: offered.verbs,
            subresources: Vec::new(),
            strategy: Arc::new(Answered(offered.schema)),
            custom: true,
            backend: Some(backend.clone()),
            deprecation: None,
            terminating: false,
            defined_at: 0,
            type_name: String::new(),
            schema: OnceLock::new(),
            discovered: OnceLock::new(),
            source: None,
        }
    }
}

/// What a custom resource is described by.
pub(crate) struct Custom<'a> {
    pub(crate) group: &'a str,
    pub(crate) version: &'a str,
    pub(crate) storage_version: &'a str,
    pub(crate) names: Names,
    pub(crate) namespaced: bool,
    pub(crate) subresources: Vec<Subresource>,
    pub(crate) strategy: Arc<dyn Strategy>,
    pub(crate) source: Arc<Source>,
    pub(crate) deprecation: Option<String>,
    pub(crate) terminating: bool,
    pub(crate) defined_at: u64,
}

/// All that is served at one moment. It changes by the definition that changed; what did not is shared.
#[derive(Clone)]
pub struct Catalogue {
    builtin: Arc<Builtin>,
    /// Those of backends.
    answered: OrdMap<Path, Arc<Resource>>,
    custom: OrdMap<Path, Arc<Resource>>,
    /// What other API servers answer for.
    registrations: Registrations,
    definitions: OrdMap<String, Arc<Defined>>,
    /// The names of the definitions of each group.
    groups: OrdMap<String, OrdSet<String>>,
    /// Groups in which names may have to be given out anew.
    touched: BTreeSet<String>,
    /// Definitions whose names others have.
    conflicts: OrdMap<String, Arc<Conflict>>,
    /// What clients read about it again and again: discovery and OpenAPI. Begun anew when a definition changes.
    documents: Arc<Documents>,
}

/// Group, version and resource, joined so that one look finds them.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Path(Box<str>);

impl Path {
    fn new(group: &str, version: &str, resource: &str) -> Self {
        // None of them holds a slash.
        Path(format!("{group}/{version}/{resource}").into())
    }

    fn of(resource: &Resource) -> Self {
        Path::new(&resource.group, &resource.version, &resource.name)
    }
}

/// A definition and what it serves.
struct Defined {
    identity: Identity,
    group: String,
    names: Names,
    /// Who came first has the names.
    created: u64,
    /// The revision since which it says what it says about objects.
    defined_at: u64,
    resources: Vec<Arc<Resource>>,
}

impl Default for Catalogue {
    fn default() -> Self {
        static BUILTIN: LazyLock<Arc<Builtin>> = LazyLock::new(|| Arc::new(Builtin::read()));
        Catalogue {
            builtin: BUILTIN.clone(),
            answered: OrdMap::new(),
            custom: OrdMap::new(),
            registrations: Registrations::default(),
            definitions: OrdMap::new(),
            groups: OrdMap::new(),
            touched: BTreeSet::new(),
            conflicts: OrdMap::new(),
            documents: Arc::default(),
        }
    }
}

impl Followed for Catalogue {
    fn change(&mut self, key: &str, entry: Option<&Entry>) {
        if let Some(name) = keys::rest(key, keys::API_SERVICES) {
            if self.registrations.change(name, entry.map(|entry| &*entry.value)) {
                self.documents = Arc::default();
            }
            return;
        }
        let Some(name) = keys::rest(key, keys::DEFINITIONS) else { return };
        let definition = entry.and_then(|entry| Some((entry, Definition::read(entry)?)));
        let identity = definition.as_ref().map(|(_, definition)| definition.identity());
        if identity.is_some() && self.definitions.get(name).map(|defined| &defined.identity) == identity.as_ref() {
            return;
        }
        let old = self.definitions.remove(name);
        if let Some(old) = &old {
            let mut members = self.groups.remove(&old.group).unwrap_or_default();
            members.remove(name);
            if !members.is_empty() {
                self.groups.insert(old.group.clone(), members);
            }
            self.touched.insert(old.group.clone());
            old.resources.iter().for_each(|resource| _ = self.custom.remove(&Path::of(resource)));
            self.conflicts.remove(name);
        }
        let (Some((entry, definition)), Some(identity)) = (definition, identity) else { return };
        let group = definition.group().to_owned();
        self.groups.entry(group.clone()).or_default().insert(name.to_owned());
        self.touched.insert(group.clone());
        let same = old.filter(|old| old.identity.has_content_of(&identity));
        let defined_at = same.map_or(entry.mod_revision, |same| same.defined_at);
        let (names, resources) = (definition.names().clone(), definition.served(entry, defined_at));
        let defined = Defined { identity, group, names, created: entry.create_revision, defined_at, resources };
        self.definitions.insert(name.to_owned(), Arc::new(defined));
    }

    /// Gives out the names of groups that changed: built-in kinds have theirs, then those whose names were accepted, then who
    /// came first.
    fn settle(&mut self) {
        for group in std::mem::take(&mut self.touched) {
            self.documents = Arc::default();
            let mut taken = Taken::default();
            for builtin in self.builtin.order.iter().filter(|resource| resource.group == group) {
                taken.add(&builtin.names());
            }
            let members = self.groups.get(&group).into_iter().flatten();
            let mut members: Vec<(String, Arc<Defined>)> =
                members.filter_map(|name| Some((name.clone(), self.definitions.get(name)?.clone()))).collect();
            members.sort_by_key(|(_, defined)| (!defined.identity.accepted, defined.created));
            for (name, defined) in members {
                let conflict = taken.conflict(&defined.names);
                let served = defined.resources.iter().map(|resource| (Path::of(resource), resource));
                match &conflict {
                    None => self.custom.extend(served.map(|(path, resource)| (path, resource.clone()))),
                    Some(_) => served.for_each(|(path, _)| _ = self.custom.remove(&path)),
                }
                match conflict {
                    None => {
                        taken.add(&defined.names);
                        self.conflicts.remove(&name);
                    }
                    Some(conflict) => _ = self.conflicts.insert(name, Arc::new(conflict)),
                }
            }
        }
    }
}

impl Catalogue {
    /// Without the built-in versions that are switched off.
    pub fn serving(served: &Served) -> Self {
        let mut catalogue = Catalogue::default();
        if *served != Served::default() {
            let order = catalogue.builtin.order.iter().filter(|resource| served.has(resource)).cloned().collect();
            catalogue.builtin = Arc::new(Builtin::of(order));
        }
        catalogue
    }

    /// From now on the backend answers for its resources.
    pub fn add(&mut self, backend: &Arc<dyn Backend>) {
        self.documents = Arc::default();
        for offered in backend.resources() {
            let resources = match offered {
                Offered::Listed(listed) => vec![Resource::answered(backend, listed)],
                Offered::Defined(definition) => crate::custom::described(definition),
            };
            for mut resource in resources {
                resource.backend = Some(backend.clone());
                self.answered.insert(Path::of(&resource), Arc::new(resource));
            }
        }
    }

    /// From now on nothing else is served.
    pub fn only(&mut self, backends: &[Arc<dyn Backend>]) {
        self.builtin = Arc::new(Builtin { by_path: BTreeMap::new(), order: Vec::new() });
        backends.iter().for_each(|backend| self.add(backend));
    }

    pub fn serves_only_backends(&self) -> bool {
        self.builtin.order.is_empty()
    }

    /// What other API servers answer for.
    pub fn registrations(&self) -> &Registrations {
        &self.registrations
    }

    /// Another API server says this of a version, named as its APIService is.
    pub fn tell(&mut self, name: &str, told: Option<&Arc<Told>>) {
        if self.registrations.tell(name, told) {
            self.documents = Arc::default();
        }
    }

    /// A document about the catalogue, written when it is first asked for.
    pub fn document<T: Into<Bytes>>(&self, name: &str, write: impl FnOnce() -> Option<T>) -> Option<Arc<Document>> {
        let known = |documents: &Documents| documents.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
        if let Some(document) = known(&self.documents) {
            return Some(document);
        }
        let document = Arc::new(Document::of(write()?.into()));
        let mut documents = self.documents.lock().unwrap_or_else(PoisonError::into_inner);
        documents.insert(name.to_owned(), document.clone());
        Some(document)
    }

    /// Tells whether the schemas of a group's version are still the same.
    pub fn hash(&self, group: &str, version: &str) -> String {
        let mut text = String::from(env!("CARGO_PKG_VERSION"));
        for resource in self.of_group_version(group, version) {
            text += &format!(" {} {}", resource.name, resource.defined_at);
        }
        Document::of(text.into()).tag
    }

    /// Which name of a definition another one has, if one has.
    pub(crate) fn conflict(&self, definition: &str) -> Option<Arc<Conflict>> {
        self.conflicts.get(definition).cloned()
    }

    pub fn get(&self, group: &str, version: &str, resource: &str) -> Option<&Arc<Resource>> {
        let path = Path::new(group, version, resource);
        self.builtin.by_path.get(&path).or_else(|| self.answered.get(&path)).or_else(|| self.custom.get(&path))
    }

    /// All versions of a custom resource.
    pub fn versions_of<'a>(&'a self, group: &'a str, resource: &'a str) -> impl Iterator<Item = &'a Arc<Resource>> {
        let definition = format!("{resource}.{group}");
        let versions = self.definitions.get(&definition).into_iter().flat_map(|defined| &defined.resources);
        versions.filter(move |version| self.get(group, &version.version, resource).is_some())
    }

    pub fn built_in(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.builtin.order.iter()
    }

    pub fn resources(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.builtin.order.iter().chain(self.answered.values()).chain(self.custom.values())
    }

    pub fn of_group_version<'a>(&'a self, group: &'a str, version: &'a str) -> impl Iterator<Item = &'a Arc<Resource>> {
        let start = Path::new(group, version, "");
        let custom = self.custom.range(start..).map(|(_, resource)| resource);
        let custom = custom.take_while(move |r| r.group == group && r.version == version);
        let others = self.builtin.order.iter().chain(self.answered.values());
        others.filter(move |r| r.group == group && r.version == version).chain(custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_kind_has_a_schema() {
        for resource in Catalogue::default().resources() {
            assert!(Schema::builtin(resource.type_name()).is_some(), "{}", resource.type_name());
        }
    }
}
