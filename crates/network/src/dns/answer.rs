//! A question becomes an answer, or has to be asked elsewhere.

use std::net::IpAddr;

use hickory_proto::op::{Edns, Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::rdata::{A, AAAA, CNAME, NS, PTR, SOA, SRV, TXT};
use hickory_proto::rr::{DNSClass, Name, RData, Record, RecordType};

use super::zone::{Found, Zone};

/// How long answers may be kept, in seconds: names change when Pods do.
const TTL: u32 = 5;

/// The version of the specification, which has a name of its own.
const VERSION: &str = "1.1.0";

/// What datagrams we take at most; larger ones get lost on the way.
pub const DATAGRAM: u16 = 1232;

/// What to do about a question.
pub enum Answer {
    /// Send this.
    Now(Message),
    /// Somebody else knows.
    Elsewhere(Query),
    /// This, and what somebody else knows about the name that it leads to.
    Follow(Message, Query),
}

/// The domain of the cluster, and who answers for it.
#[derive(Clone, Debug)]
pub struct Domain {
    name: Name,
    /// The labels, the first one first.
    labels: Vec<String>,
    /// The name as text, with the dot at its end.
    text: String,
    server: Option<IpAddr>,
}

impl Domain {
    /// `server` is the address at which Pods ask.
    pub fn new(domain: &str, server: Option<IpAddr>) -> Result<Domain, hickory_proto::ProtoError> {
        let mut name = Name::from_ascii(domain.to_lowercase())?;
        name.set_fqdn(true);
        let (labels, text) = (labels_of(&name), name.to_ascii());
        Ok(Domain { name, labels, text, server })
    }

    /// The zone that a question belongs to: this one, or all others.
    pub(super) fn zone_of(&self, query: Option<&Query>) -> &str {
        match query {
            Some(query) if self.name.zone_of(query.name()) => &self.text,
            _ => ".",
        }
    }

    fn below(&self, relative: &str) -> Name {
        // Whatever is in the zone was a name before.
        Name::from_ascii(relative).and_then(|name| name.append_domain(&self.name)).unwrap_or_else(|_| self.name.clone())
    }

    /// For those who find nothing: how long they may believe that.
    fn authority(&self) -> Record {
        let (server, person) = (self.below("ns.dns"), self.below("hostmaster"));
        let data = SOA::new(server, person, 1, 7200, 1800, 86400, TTL);
        Record::from_rdata(self.name.clone(), TTL, RData::SOA(data))
    }
}

fn labels_of(name: &Name) -> Vec<String> {
    name.iter().map(|label| String::from_utf8_lossy(label).to_lowercase()).collect()
}

/// What a request is answered with as far as the cluster's own names go.
pub fn answer(zone: &Zone, domain: &Domain, request: &Message) -> Answer {
    let [query] = request.queries.as_slice() else { return Answer::Now(refused(request, ResponseCode::FormErr)) };
    if request.metadata.message_type != MessageType::Query {
        return Answer::Now(refused(request, ResponseCode::FormErr));
    }
    if request.metadata.op_code != OpCode::Query {
        return Answer::Now(refused(request, ResponseCode::NotImp));
    }
    if request.edns.as_ref().is_some_and(|edns| edns.version() > 0) {
        return Answer::Now(refused(request, ResponseCode::BADVERS));
    }
    if query.query_class() != DNSClass::IN {
        return Answer::Now(refused(request, ResponseCode::Refused));
    }
    let labels = labels_of(query.name());
    if let Some(relative) = labels.strip_suffix(domain.labels.as_slice()) {
        let relative: Vec<&str> = relative.iter().map(String::as_str).collect();
        return own(zone, domain, request, query, &relative);
    }
    match reverse(zone, domain, query) {
        Some(records) => Answer::Now(found(request, domain, records)),
        None => Answer::Elsewhere(query.clone()),
    }
}

fn own(zone: &Zone, domain: &Domain, request: &Message, query: &Query, labels: &[&str]) -> Answer {
    let record = |data: RData| Record::from_rdata(query.name().clone(), TTL, data);
    let kind = query.query_type();
    let wants = |asked: RecordType| kind == asked || kind == RecordType::ANY;
    let mut records = Vec::new();
    match labels {
        [] if wants(RecordType::SOA) => records.push(domain.authority()),
        [] if wants(RecordType::NS) => records.push(record(RData::NS(NS(domain.below("ns.dns"))))),
        ["dns-version"] => {
            if wants(RecordType::TXT) {
                records.push(record(RData::TXT(TXT::new(vec![VERSION.to_owned()]))));
            }
        }
        ["ns", "dns"] => records.extend(domain.server.iter().filter_map(|one| address(*one, kind)).map(record)),
        ["dns"] => {}
        _ => match zone.find(labels) {
            Found::Addresses(all) => records.extend(all.into_iter().filter_map(|one| address(one, kind)).map(record)),
            Found::Ports(ports) => {
                if wants(RecordType::SRV) {
                    return Answer::Now(with_ports(request, domain, query, &ports));
                }
            }
            Found::Elsewhere(target) => return elsewhere(zone, domain, request, query, &target),
            Found::Between => {}
            Found::Nothing => {
                let mut message = found(request, domain, Vec::new());
                message.metadata.response_code = ResponseCode::NXDomain;
                return Answer::Now(message);
            }
        },
    }
    Answer::Now(found(request, domain, records))
}

fn address(address: IpAddr, asked: RecordType) -> Option<RData> {
    match (address, asked) {
        (IpAddr::V4(v4), RecordType::A | RecordType::ANY) => Some(RData::A(A(v4))),
        (IpAddr::V6(v6), RecordType::AAAA | RecordType::ANY) => Some(RData::AAAA(AAAA(v6))),
        _ => None,
    }
}

/// Ports, and with them the addresses of the names that have them.
fn with_ports(request: &Message, domain: &Domain, query: &Query, ports: &[(u16, String, Vec<IpAddr>)]) -> Message {
    let weight = u16::try_from(100 / ports.len().max(1)).unwrap_or(1).max(1);
    let service = |(port, target, _): &(u16, String, Vec<IpAddr>)| {
        let data = SRV::new(0, weight, *port, domain.below(target));
        Record::from_rdata(query.name().clone(), TTL, RData::SRV(data))
    };
    let mut message = found(request, domain, ports.iter().map(service).collect());
    for (_, target, addresses) in ports {
        let known = addresses.iter().filter_map(|one| address(*one, RecordType::ANY));
        let name = domain.below(target);
        message.add_additionals(known.map(|data| Record::from_rdata(name.clone(), TTL, data)));
    }
    message
}

/// A name that stands for another: the other one's addresses come with it.
fn elsewhere(zone: &Zone, domain: &Domain, request: &Message, query: &Query, target: &str) -> Answer {
    let Ok(mut target) = Name::from_ascii(target) else { return Answer::Now(refused(request, ResponseCode::ServFail)) };
    target.set_fqdn(true);
    let alias = Record::from_rdata(query.name().clone(), TTL, RData::CNAME(CNAME(target.clone())));
    let message = found(request, domain, vec![alias]);
    if !matches!(query.query_type(), RecordType::A | RecordType::AAAA) {
        return Answer::Now(message);
    }
    let next = Query::query(target, query.query_type());
    let labels = labels_of(next.name());
    let Some(relative) = labels.strip_suffix(domain.labels.as_slice()) else { return Answer::Follow(message, next) };
    let relative: Vec<&str> = relative.iter().map(String::as_str).collect();
    let mut message = message;
    // If that leads to a third name, the client has to ask again.
    if let Found::Addresses(all) = zone.find(&relative) {
        let known = all.into_iter().filter_map(|one| address(one, query.query_type()));
        message.add_answers(known.map(|data| Record::from_rdata(next.name().clone(), TTL, data)));
    }
    Answer::Now(message)
}

/// The names of an address of the cluster; nothing for others, of which somebody else may know.
fn reverse(zone: &Zone, domain: &Domain, query: &Query) -> Option<Vec<Record>> {
    let range = query.name().parse_arpa_name().ok()?;
    if range.prefix_len() != range.max_prefix_len() {
        return None;
    }
    let names = zone.names_of(range.addr());
    if names.is_empty() {
        return None;
    }
    if !matches!(query.query_type(), RecordType::PTR | RecordType::ANY) {
        return Some(Vec::new());
    }
    let pointer = |name: &String| Record::from_rdata(query.name().clone(), TTL, RData::PTR(PTR(domain.below(name))));
    Some(names.iter().map(pointer).collect())
}

/// An answer of our own. One without records says how long that may be believed.
fn found(request: &Message, domain: &Domain, records: Vec<Record>) -> Message {
    let mut message = response(request, ResponseCode::NoError);
    message.metadata.authoritative = true;
    match records.is_empty() {
        true => _ = message.add_authority(domain.authority()),
        false => _ = message.add_answers(records),
    }
    message
}

pub fn refused(request: &Message, why: ResponseCode) -> Message {
    response(request, why)
}

fn response(request: &Message, code: ResponseCode) -> Message {
    let mut message = Message::response(request.metadata.id, request.metadata.op_code);
    message.metadata.recursion_desired = request.metadata.recursion_desired;
    message.metadata.recursion_available = true;
    message.metadata.response_code = code;
    message.add_queries(request.queries.iter().cloned());
    if request.edns.is_some() {
        let mut edns = Edns::new();
        edns.set_max_payload(DATAGRAM);
        message.set_edns(edns);
    }
    message
}

/// The answer of another server, as ours.
pub fn relayed(request: &Message, theirs: &Message) -> Message {
    let mut message = response(request, theirs.metadata.response_code);
    message.add_answers(theirs.answers.iter().cloned());
    message.add_authorities(theirs.authorities.iter().cloned());
    message
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Service;
    use pintle_runtime::Key;
    use serde_json::{Value, json};

    use super::super::zone::Entry;
    use super::*;

    fn zone() -> Zone {
        let mut zone = Zone::default();
        zone.put_namespace("shop", true);
        for (name, spec) in [
            ("web", json!({"clusterIPs": ["10.96.0.5", "fd00::5"], "ports": [{"name": "http", "port": 80}]})),
            ("away", json!({"type": "ExternalName", "externalName": "a.example"})),
            ("alias", json!({"type": "ExternalName", "externalName": "web.shop.svc.cluster.local"})),
        ] {
            put(&mut zone, name, spec);
        }
        zone
    }

    fn put(zone: &mut Zone, name: &str, spec: Value) {
        let service: Service = serde_json::from_value(json!({"metadata": {}, "spec": spec})).unwrap();
        zone.put(&Key::new("shop", name), Entry::of(&service, &[]));
    }

    /// Asks over the wire's own form, and writes what is heard in a line.
    fn asked(name: &str, kind: RecordType) -> String {
        let mut request = Message::query();
        request.add_query(Query::query(Name::from_ascii(name).unwrap(), kind));
        let request = Message::from_vec(&request.to_vec().unwrap()).unwrap();
        let domain = Domain::new("cluster.local", Some("10.96.0.10".parse().unwrap())).unwrap();
        let write = |message: &Message| {
            let message = Message::from_vec(&message.to_vec().unwrap()).unwrap();
            assert!(message.metadata.authoritative && message.metadata.recursion_available);
            let records: Vec<String> = message.answers.iter().map(|one| one.data.to_string()).collect();
            let soa = if message.authorities.is_empty() { "" } else { " soa" };
            format!("{} [{}]{soa} +{}", message.metadata.response_code, records.join(", "), message.additionals.len())
        };
        match answer(&zone(), &domain, &request) {
            Answer::Now(message) => write(&message),
            Answer::Elsewhere(_) => "elsewhere".to_owned(),
            Answer::Follow(message, next) => format!("{} then {}", write(&message), next.name()),
        }
    }

    #[test]
    fn questions_about_the_cluster_are_answered_as_the_specification_says() {
        use RecordType::{A, AAAA, CNAME, NS, PTR, SOA, SRV, TXT};
        for (name, kind, expected) in [
            ("web.shop.svc.cluster.local.", A, "No Error [10.96.0.5] +0"),
            ("WEB.Shop.svc.cluster.LOCAL.", AAAA, "No Error [fd00::5] +0"),
            ("web.shop.svc.cluster.local.", TXT, "No Error [] soa +0"),
            ("nobody.shop.svc.cluster.local.", A, "Non-Existent Domain [] soa +0"),
            ("shop.svc.cluster.local.", A, "No Error [] soa +0"),
            ("_http._tcp.web.shop.svc.cluster.local.", SRV, "No Error [0 100 80 web.shop.svc.cluster.local.] +2"),
            ("_http._tcp.web.shop.svc.cluster.local.", A, "No Error [] soa +0"),
            ("dns-version.cluster.local.", TXT, "No Error [1.1.0] +0"),
            ("ns.dns.cluster.local.", A, "No Error [10.96.0.10] +0"),
            ("cluster.local.", NS, "No Error [ns.dns.cluster.local.] +0"),
            (
                "cluster.local.",
                SOA,
                "No Error [ns.dns.cluster.local. hostmaster.cluster.local. 1 7200 1800 86400 5] +0",
            ),
            ("5.0.96.10.in-addr.arpa.", PTR, "No Error [web.shop.svc.cluster.local.] +0"),
            ("9.9.96.10.in-addr.arpa.", PTR, "elsewhere"),
            ("away.shop.svc.cluster.local.", CNAME, "No Error [a.example.] +0"),
            ("away.shop.svc.cluster.local.", A, "No Error [a.example.] +0 then a.example."),
            ("alias.shop.svc.cluster.local.", A, "No Error [web.shop.svc.cluster.local., 10.96.0.5] +0"),
            ("example.org.", A, "elsewhere"),
            ("notcluster.local.", A, "elsewhere"),
        ] {
            assert_eq!(asked(name, kind), expected, "{name} {kind}");
        }
    }

    #[test]
    fn what_is_no_question_is_refused() {
        let domain = Domain::new("cluster.local", None).unwrap();
        let told = |request: &Message| match answer(&zone(), &domain, request) {
            Answer::Now(message) => message.metadata.response_code,
            _ => ResponseCode::NoError,
        };
        let mut request = Message::query();
        assert_eq!(told(&request), ResponseCode::FormErr, "nothing is asked");
        request.add_query(Query::query(Name::from_ascii("a.cluster.local.").unwrap(), RecordType::A));
        let mut update = request.clone();
        update.metadata.op_code = OpCode::Update;
        assert_eq!(told(&update), ResponseCode::NotImp);
        let mut chaos = request.clone();
        chaos.queries[0].set_query_class(DNSClass::CH);
        assert_eq!(told(&chaos), ResponseCode::Refused);
        let mut back = request;
        back.metadata.message_type = MessageType::Response;
        assert_eq!(told(&back), ResponseCode::FormErr, "answers to answers would never end");
    }
}
