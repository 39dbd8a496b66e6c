//! Every resource that is served, as data: built-in ones from the facts table, custom ones from their definitions.

use crate::resources;
use crate::strategy::Strategy;
use bytes::Bytes;
use pintle_meta::names::{join_api_version, version_priority};
use pintle_schema::Schema;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

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
    pub custom: bool,
    /// When its definition was last written: objects from before may lack its defaults.
    defined_at: u64,
    /// The schema of a custom kind has defaults.
    defaults: bool,
    type_name: String,
    schema: OnceLock<Schema>,
}

pub struct Subresource {
    pub name: String,
    pub kind: String,
    /// Set when the kind is of another group than its parent, as Scale is.
    pub group_version: Option<(String, String)>,
    pub verbs: Vec<String>,
}

impl Resource {
    pub fn api_version(&self) -> String {
        join_api_version(&self.group, &self.version)
    }

    /// Built when first needed: starting does not pay for kinds that nobody uses.
    pub fn schema(&self) -> &Schema {
        self.schema.get_or_init(|| Schema::builtin(&self.type_name).unwrap_or_else(Schema::untyped))
    }

    /// An object that was written at this revision may lack what its definition fills in today.
    pub fn may_lack_defaults(&self, written_at: u64) -> bool {
        self.defaults && written_at < self.defined_at
    }

    /// The stored bytes are what clients of this version read.
    pub fn reads_as_stored(&self, written_at: u64) -> bool {
        self.api_version() == self.stored_api_version && !self.may_lack_defaults(written_at)
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
    pub fn check(&self, object: &serde_json::Value, errors: &mut pintle_meta::field::Errors) {
        if !self.custom {
            resources::rules::check(self.schema(), object, errors);
        }
        self.strategy.validate(object, errors);
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

    #[expect(clippy::too_many_arguments, reason = "a custom resource is described by exactly these")]
    pub fn custom(
        group: &str,
        version: &str,
        names: CustomNames,
        namespaced: bool,
        storage_version: &str,
        subresources: Vec<Subresource>,
        schema: Schema,
        strategy: Arc<dyn Strategy>,
        defined_at: u64,
    ) -> Self {
        Resource {
            prefix: format!("/registry/{group}/{}/", names.plural),
            stored_api_version: join_api_version(group, storage_version),
            group: group.to_owned(),
            version: version.to_owned(),
            name: names.plural,
            kind: names.kind,
            list_kind: names.list_kind,
            singular: names.singular,
            namespaced,
            short_names: names.short_names,
            categories: names.categories,
            verbs: words("delete,deletecollection,get,list,patch,create,update,watch"),
            subresources,
            strategy,
            custom: true,
            defined_at,
            defaults: schema.has_defaults(),
            type_name: String::new(),
            schema: OnceLock::from(schema),
        }
    }
}

pub struct CustomNames {
    pub plural: String,
    pub singular: String,
    pub kind: String,
    pub list_kind: String,
    pub short_names: Vec<String>,
    pub categories: Vec<String>,
}

/// A served group and its versions, in the order in which discovery shows them.
pub struct Group {
    pub name: String,
    pub versions: Vec<String>,
}

/// All that is served at one moment; replaced whole when a definition changes.
pub struct Catalogue {
    by_path: BTreeMap<(String, String, String), Arc<Resource>>,
    order: Vec<Arc<Resource>>,
    /// The core group's and all other groups' discovery documents; clients ask again and again.
    documents: [OnceLock<Document>; 2],
}

/// A text that is served as it is, and the tag by which a client knows that it has not changed.
#[derive(Debug)]
pub struct Document {
    pub text: Bytes,
    pub tag: String,
}

impl Document {
    fn of(text: String) -> Self {
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, text.as_bytes());
        let tag = digest.as_ref().iter().take(16).map(|byte| format!("{byte:02X}")).collect();
        Document { text: text.into(), tag }
    }
}

impl Catalogue {
    /// The discovery document of the core group, or of all others, written when it is first asked for.
    pub fn document(&self, core: bool, write: impl FnOnce() -> String) -> &Document {
        self.documents[usize::from(core)].get_or_init(|| Document::of(write()))
    }

    pub fn builtin() -> Self {
        let order: Vec<Arc<Resource>> =
            include_str!("../facts/resources.tsv").lines().skip(1).filter_map(builtin_resource).map(Arc::new).collect();
        Catalogue::of(order)
    }

    fn of(order: Vec<Arc<Resource>>) -> Self {
        let by_path = order.iter().map(|r| ((r.group.clone(), r.version.clone(), r.name.clone()), r.clone())).collect();
        Catalogue { by_path, order, documents: Default::default() }
    }

    /// The same with these custom resources in place of all earlier ones.
    pub fn with_custom(&self, custom: Vec<Arc<Resource>>) -> Self {
        let builtin = self.order.iter().filter(|r| !r.custom).cloned();
        Catalogue::of(builtin.chain(custom).collect())
    }

    pub fn get(&self, group: &str, version: &str, resource: &str) -> Option<&Arc<Resource>> {
        self.by_path.get(&(group.to_owned(), version.to_owned(), resource.to_owned()))
    }

    pub fn resources(&self) -> &[Arc<Resource>] {
        &self.order
    }

    pub fn of_group_version<'a>(&'a self, group: &'a str, version: &'a str) -> impl Iterator<Item = &'a Arc<Resource>> {
        self.order.iter().filter(move |r| r.group == group && r.version == version)
    }

    /// Built-in groups in upstream's order, then custom ones by name; the core group is left out.
    pub fn groups(&self) -> Vec<Group> {
        let mut groups: Vec<Group> = Vec::new();
        let mut add = |resource: &Resource| {
            if resource.group.is_empty() {
                return;
            }
            let at = groups.iter().position(|g| g.name == resource.group).unwrap_or_else(|| {
                groups.push(Group { name: resource.group.clone(), versions: Vec::new() });
                groups.len() - 1
            });
            if !groups[at].versions.contains(&resource.version) {
                groups[at].versions.push(resource.version.clone());
            }
        };
        self.order.iter().filter(|r| !r.custom).for_each(|r| add(r));
        let mut custom: Vec<&Arc<Resource>> = self.order.iter().filter(|r| r.custom).collect();
        custom.sort_by(|a, b| a.group.cmp(&b.group));
        custom.into_iter().for_each(|r| add(r));
        for group in &mut groups {
            group.versions.sort_by_key(|v| std::cmp::Reverse(version_priority(v)));
        }
        groups
    }
}

fn words(text: &str) -> Vec<String> {
    text.split(',').filter(|w| !w.is_empty()).map(str::to_owned).collect()
}

/// A row of the facts table, if Kubernetes serves that version by default.
fn builtin_resource(row: &str) -> Option<Resource> {
    let columns: Vec<&str> = row.split('\t').collect();
    let [group, version, name, kind, scope, singular, short_names, categories, verbs, subresources] = columns[..]
    else {
        return None;
    };
    if version.contains("alpha") || version.contains("beta") {
        return None;
    }
    let (stored_api_version, stored_name) = resources::storage(group, version, name);
    Some(Resource {
        group: group.to_owned(),
        version: version.to_owned(),
        name: name.to_owned(),
        kind: kind.to_owned(),
        list_kind: format!("{kind}List"),
        singular: singular.to_owned(),
        namespaced: scope == "Namespaced",
        short_names: words(short_names),
        categories: words(categories),
        verbs: words(verbs),
        subresources: subresources.split(' ').filter_map(builtin_subresource).collect(),
        strategy: resources::strategy(group, version, kind),
        prefix: format!("/registry/{stored_name}/"),
        stored_api_version,
        custom: false,
        defined_at: 0,
        defaults: false,
        type_name: type_name(group, version, kind),
        schema: OnceLock::new(),
    })
}

/// `scale(Scale:get,patch,update)`.
fn builtin_subresource(text: &str) -> Option<Subresource> {
    let (name, rest) = text.trim_end_matches(')').split_once('(')?;
    let (kind, verbs) = rest.split_once(':')?;
    let group_version = match kind {
        "Scale" => Some(("autoscaling", "v1")),
        "Eviction" => Some(("policy", "v1")),
        "TokenRequest" => Some(("authentication.k8s.io", "v1")),
        _ => None,
    };
    Some(Subresource {
        name: name.to_owned(),
        kind: kind.to_owned(),
        group_version: group_version.map(|(g, v)| (g.to_owned(), v.to_owned())),
        verbs: words(verbs),
    })
}

/// How the facts table names the type: `core.v1.Pod`, `rbac.v1.Role`.
pub fn type_name(group: &str, version: &str, kind: &str) -> String {
    let short = match group {
        "" => "core",
        "internal.apiserver.k8s.io" => "apiserverinternal",
        other => other.split('.').next().unwrap_or(other),
    };
    format!("{short}.{version}.{kind}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_kind_has_a_schema() {
        for resource in Catalogue::builtin().resources() {
            assert!(Schema::builtin(resource.type_name()).is_some(), "{}", resource.type_name());
        }
    }
}
