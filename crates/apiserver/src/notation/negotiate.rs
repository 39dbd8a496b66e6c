//! Which notation and shape a client accepts, by the rules of Kubernetes' own negotiation: clauses in the order of their
//! quality, named types before wildcards; a clause whose parameters ask for what is not offered is passed over.

use super::{Notation, gzip};
use crate::catalogue::Resource;
use http::{HeaderMap, HeaderValue, header};
use pintle_meta::Status;

/// What the client wants, of what is offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    pub shape: Shape,
    pub notation: Notation,
    /// Long answers may be compressed.
    pub gzip: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    Object,
    Table,
    PartialMetadata,
    /// Aggregated discovery.
    Aggregated,
}

/// What an endpoint can answer beside JSON and YAML of its objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    pub tables: bool,
    pub metadata: bool,
    pub protobuf: bool,
    pub aggregated: bool,
}

impl Offer {
    /// The objects of a kind. Those of custom kinds have no messages; their metadata has.
    pub fn of(resource: &Resource) -> Self {
        // What is only asked and never kept has no table.
        let is_kept = resource.allows("get") || resource.allows("list");
        Offer { tables: is_kept, metadata: true, protobuf: !resource.custom, aggregated: false }
    }

    pub const DISCOVERY: Offer = Offer { tables: false, metadata: false, protobuf: true, aggregated: true };

    /// Objects of the API machinery, such as a Status.
    const MACHINERY: Offer = Offer { tables: false, metadata: false, protobuf: true, aggregated: false };

    /// Objects without messages.
    pub const TEXT: Offer = Offer { tables: false, metadata: false, protobuf: false, aggregated: false };

    fn has(self, shape: Shape, notation: Notation) -> bool {
        match shape {
            Shape::Object => self.protobuf || notation != Notation::Protobuf,
            Shape::Table => self.tables && notation != Notation::Protobuf,
            Shape::PartialMetadata => self.metadata,
            Shape::Aggregated => self.aggregated && notation == Notation::Json,
        }
    }
}

impl Wanted {
    /// What a client gets that says nothing.
    pub const JSON: Wanted = Wanted { shape: Shape::Object, notation: Notation::Json, gzip: false };

    pub fn negotiate(headers: &HeaderMap, offer: Offer) -> Result<Self, Status> {
        let chosen = choose(headers.get(header::ACCEPT), offer);
        let (shape, notation) = chosen.ok_or_else(not_acceptable)?;
        Ok(Wanted { shape, notation, gzip: gzip::is_accepted(headers) })
    }

    /// How an error is told to a client that accepts this. Whoever accepts only what errors cannot be gets JSON.
    pub fn for_errors(accept: Option<&HeaderValue>) -> Notation {
        choose(accept, Offer::MACHINERY).map_or(Notation::Json, |(_, notation)| notation)
    }
}

fn choose(accept: Option<&HeaderValue>, offer: Offer) -> Option<(Shape, Notation)> {
    let accept = accept.and_then(|value| value.to_str().ok()).unwrap_or_default();
    if accept.is_empty() {
        return Some((Shape::Object, Notation::Json));
    }
    clauses(accept).into_iter().find_map(|clause| {
        let shape = clause.shape()?;
        let fits = |notation: &Notation| clause.matches(notation.media_type()) && offer.has(shape, *notation);
        Notation::ALL.into_iter().find(fits).map(|notation| (shape, notation))
    })
}

pub fn not_acceptable() -> Status {
    let types = Notation::ALL.map(Notation::media_type).join(", ");
    Status::new(406, "NotAcceptable", format!("only the following media types are accepted: {types}"))
}

pub fn not_acceptable_for_watch() -> Status {
    let types = [Notation::Json, Notation::Protobuf].map(|notation| format!("{};stream=watch", notation.media_type()));
    Status::new(406, "NotAcceptable", format!("only the following media types are accepted: {}", types.join(", ")))
}

/// So many clauses are looked at.
const MAX_CLAUSES: usize = 64;

/// One media type of an Accept header.
struct Clause<'a> {
    main: &'a str,
    sub: &'a str,
    quality: f32,
    parameters: &'a str,
}

impl<'a> Clause<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let (media, parameters) = text.split_once(';').unwrap_or((text, ""));
        let (main, sub) = match media.split_once('/') {
            Some((main, sub)) => (main.trim(), sub.trim()),
            None if media.trim() == "*" => ("*", "*"),
            None => return None,
        };
        let mut clause = Clause { main, sub, quality: 1.0, parameters };
        if let Some((_, quality)) = clause.parameters().find(|(name, _)| *name == "q") {
            clause.quality = quality.parse().unwrap_or(0.0);
        }
        (!sub.contains('/')).then_some(clause)
    }

    fn parameters(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        self.parameters
            .split(';')
            .filter_map(|part| part.split_once('='))
            .map(|(name, value)| (name.trim(), value.trim()))
    }

    fn matches(&self, media_type: &str) -> bool {
        match (self.main, self.sub) {
            ("*", "*") => true,
            (main, sub) => media_type.split_once('/').is_some_and(|(of, is)| of == main && (sub == "*" || sub == is)),
        }
    }

    /// What the parameters ask for; nothing if it is not known.
    fn shape(&self) -> Option<Shape> {
        let (mut kind, mut group, mut version, mut converts) = ("", "", "", false);
        for (name, value) in self.parameters() {
            match name {
                "as" => (kind, converts) = (value, true),
                "g" => (group, converts) = (value, true),
                "v" => (version, converts) = (value, true),
                "stream" if !matches!(value, "" | "watch") => return None,
                _ => {}
            }
        }
        match (kind, group, version) {
            _ if !converts => Some(Shape::Object),
            ("Table", "meta.k8s.io", "v1") => Some(Shape::Table),
            ("PartialObjectMetadata" | "PartialObjectMetadataList", "meta.k8s.io", "v1") => {
                Some(Shape::PartialMetadata)
            }
            ("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2") => Some(Shape::Aggregated),
            _ => None,
        }
    }

    /// Whether this one is tried before another that stands before it.
    fn precedes(&self, other: &Clause<'_>) -> bool {
        self.quality > other.quality || (self.main != "*" && other.main == "*") || (self.sub != "*" && other.sub == "*")
    }
}

/// The clauses in the order in which they are tried. The order of "precedes" is not total, so the way of sorting is a part
/// of the rule: each clause moves forward past those that it precedes.
fn clauses(accept: &str) -> Vec<Clause<'_>> {
    let mut sorted: Vec<Clause<'_>> = Vec::new();
    for clause in accept.split(',').take(MAX_CLAUSES).filter_map(Clause::parse) {
        let after = sorted.iter().rposition(|other| !clause.precedes(other)).map_or(0, |index| index + 1);
        sorted.insert(after, clause);
    }
    sorted
}
