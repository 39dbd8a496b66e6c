//! AuthenticationConfiguration: issuers of tokens, and what is open to those who show nothing.

use super::Anonymous;
use crate::access;
pub use crate::access::ConfigError;
use crate::authn::oidc::claims::{Mappings, Prefixed};
use crate::authn::oidc::{ALGORITHMS, Issuer};
use crate::outbound::Trust;
use http::Uri;
use pintle_meta::field::{Error, Errors, Path};
use serde::Deserialize;
use std::collections::BTreeSet;

const NO_CEL: &str = "expressions in CEL are not supported yet";

/// What a file says. `disallowed` are the issuers of service account tokens, which nobody else may speak for.
pub fn read(path: &std::path::Path, disallowed: &[String]) -> Result<(Vec<Issuer>, Option<Anonymous>), ConfigError> {
    let file: File = access::read(path, "AuthenticationConfiguration", &["v1", "v1beta1", "v1alpha1"])?;
    file.validated(disallowed).map_err(|problems| ConfigError::Invalid { path: path.into(), problems })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    jwt: Vec<Jwt>,
    anonymous: Option<AnonymousPart>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct AnonymousPart {
    enabled: bool,
    #[serde(default)]
    conditions: Vec<Condition>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Condition {
    path: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Jwt {
    issuer: IssuerPart,
    #[serde(default)]
    claim_validation_rules: Vec<ClaimRule>,
    #[serde(default)]
    claim_mappings: ClaimMappings,
    #[serde(default)]
    user_validation_rules: Vec<UserRule>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct IssuerPart {
    #[serde(default)]
    url: String,
    #[serde(default, rename = "discoveryURL")]
    discovery_url: String,
    #[serde(default)]
    certificate_authority: String,
    #[serde(default)]
    audiences: Vec<String>,
    #[serde(default)]
    audience_match_policy: String,
    #[serde(default)]
    egress_selector_type: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct ClaimRule {
    #[serde(default)]
    claim: String,
    #[serde(default)]
    required_value: String,
    #[serde(default)]
    expression: String,
    #[serde(default)]
    message: String,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct ClaimMappings {
    #[serde(default)]
    username: Mapping,
    #[serde(default)]
    groups: Mapping,
    #[serde(default)]
    uid: UidMapping,
    #[serde(default)]
    extra: Vec<ExtraMapping>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Mapping {
    #[serde(default)]
    claim: String,
    prefix: Option<String>,
    #[serde(default)]
    expression: String,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct UidMapping {
    #[serde(default)]
    claim: String,
    #[serde(default)]
    expression: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct ExtraMapping {
    #[serde(default, rename = "key")]
    _key: String,
    #[serde(default)]
    value_expression: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UserRule {
    #[serde(default)]
    expression: String,
    #[serde(default, rename = "message")]
    _message: String,
}

/// More issuers than these are refused, as by Kubernetes.
const MAX_ISSUERS: usize = 64;

impl File {
    fn validated(self, disallowed: &[String]) -> Result<(Vec<Issuer>, Option<Anonymous>), Errors> {
        let mut errors = Vec::new();
        let root = Path::new("jwt");
        if self.jwt.len() > MAX_ISSUERS {
            errors.push(Error::too_many(&root, self.jwt.len(), MAX_ISSUERS));
        }
        let (mut urls, mut discoveries) = (BTreeSet::new(), BTreeSet::new());
        for (index, jwt) in self.jwt.iter().enumerate() {
            let path = root.index(index);
            jwt.validate(&path, disallowed, &mut errors);
            if !urls.insert(&jwt.issuer.url) {
                errors.push(Error::duplicate(&path.child("issuer").child("url"), jwt.issuer.url.clone()));
            }
            let discovery = &jwt.issuer.discovery_url;
            if !discovery.is_empty() && !discoveries.insert(discovery) {
                errors.push(Error::duplicate(&path.child("issuer").child("discoveryURL"), discovery.clone()));
            }
        }
        let anonymous = self.anonymous.map(|anonymous| {
            let paths: Vec<String> = anonymous.conditions.into_iter().map(|condition| condition.path).collect();
            let field = Path::new("anonymous").child("conditions");
            for (index, path) in paths.iter().enumerate().filter(|(_, path)| !path.starts_with('/')) {
                errors.push(Error::invalid(&field.index(index).child("path"), path.clone(), "must begin with '/'"));
            }
            match (anonymous.enabled, paths.is_empty()) {
                (true, true) => Anonymous::Everywhere,
                (true, false) => Anonymous::At(paths),
                (false, true) => Anonymous::Refused,
                (false, false) => {
                    let why = "enabled should be set to true when conditions are defined";
                    errors.push(Error::invalid(&field, paths, why));
                    Anonymous::Refused
                }
            }
        });
        if !errors.is_empty() {
            return Err(errors);
        }
        Ok((self.jwt.into_iter().map(Jwt::into_issuer).collect(), anonymous))
    }
}

impl Jwt {
    fn validate(&self, path: &Path, disallowed: &[String], errors: &mut Errors) {
        self.issuer.validate(&path.child("issuer"), disallowed, errors);
        let mut claims = BTreeSet::new();
        for (index, rule) in self.claim_validation_rules.iter().enumerate() {
            let path = path.child("claimValidationRules").index(index);
            rule.validate(&path, errors);
            if !rule.claim.is_empty() && !claims.insert(&rule.claim) {
                errors.push(Error::duplicate(&path.child("claim"), rule.claim.clone()));
            }
        }
        let (mappings, at) = (&self.claim_mappings, path.child("claimMappings"));
        mappings.username.validate(&at.child("username"), true, errors);
        mappings.groups.validate(&at.child("groups"), false, errors);
        if !mappings.uid.expression.is_empty() {
            errors.push(Error::invalid(&at.child("uid").child("expression"), mappings.uid.expression.clone(), NO_CEL));
        }
        for (index, extra) in mappings.extra.iter().enumerate() {
            let path = at.child("extra").index(index).child("valueExpression");
            errors.push(Error::invalid(&path, extra.value_expression.clone(), NO_CEL));
        }
        for (index, rule) in self.user_validation_rules.iter().enumerate() {
            let path = path.child("userValidationRules").index(index).child("expression");
            errors.push(Error::invalid(&path, rule.expression.clone(), NO_CEL));
        }
    }

    fn into_issuer(self) -> Issuer {
        let some = |text: String| Some(text).filter(|text| !text.is_empty());
        let prefixed = |mapping: Mapping| Prefixed { claim: mapping.claim, prefix: mapping.prefix.unwrap_or_default() };
        let mappings = self.claim_mappings;
        Issuer {
            url: self.issuer.url,
            discovery_url: some(self.issuer.discovery_url),
            audiences: self.issuer.audiences,
            ca_pem: self.issuer.certificate_authority,
            algorithms: ALGORITHMS.iter().map(|(_, algorithm)| *algorithm).collect(),
            mappings: Mappings {
                username: prefixed(mappings.username),
                groups: Some(prefixed(mappings.groups)).filter(|groups| !groups.claim.is_empty()),
                uid: some(mappings.uid.claim),
                required: self
                    .claim_validation_rules
                    .into_iter()
                    .map(|rule| (rule.claim, rule.required_value))
                    .collect(),
            },
        }
    }
}

impl IssuerPart {
    fn validate(&self, path: &Path, disallowed: &[String], errors: &mut Errors) {
        let url = path.child("url");
        if self.url.is_empty() {
            errors.push(Error::required(&url, ""));
        } else {
            if disallowed.contains(&self.url) {
                let why = format!("URL must not overlap with disallowed issuers: {disallowed:?}");
                errors.push(Error::invalid(&url, self.url.clone(), why));
            }
            validate_url(&self.url, &url, errors);
        }
        let discovery = path.child("discoveryURL");
        if !self.discovery_url.is_empty() {
            if self.url.trim_end_matches('/') == self.discovery_url.trim_end_matches('/') {
                let why = "discoveryURL must be different from URL";
                errors.push(Error::invalid(&discovery, self.discovery_url.clone(), why));
            }
            validate_url(&self.discovery_url, &discovery, errors);
        }
        let at = path.child("audiences");
        if self.audiences.is_empty() {
            errors.push(Error::required(&at, format!("at least one {at} is required")));
        }
        for (index, audience) in self.audiences.iter().enumerate() {
            if audience.is_empty() {
                errors.push(Error::required(&at.index(index), ""));
            }
            if self.audiences[..index].contains(audience) {
                errors.push(Error::duplicate(&at.index(index), audience.clone()));
            }
        }
        let policy = self.audience_match_policy.as_str();
        let why = match self.audiences.len() {
            0 => None,
            1 if !matches!(policy, "" | "MatchAny") => {
                Some("audienceMatchPolicy must be empty or MatchAny for single audience")
            }
            2.. if policy != "MatchAny" => Some("audienceMatchPolicy must be MatchAny for multiple audiences"),
            _ => None,
        };
        if let Some(why) = why {
            errors.push(Error::invalid(&path.child("audienceMatchPolicy"), policy, why));
        }
        if !self.certificate_authority.is_empty()
            && let Err(error) = Trust::of_bundle(self.certificate_authority.as_bytes(), None)
        {
            errors.push(Error::invalid(&path.child("certificateAuthority"), "<omitted>", error.to_string()));
        }
        if !self.egress_selector_type.is_empty() {
            let why = "there are no egress selectors: issuers are reached directly";
            errors.push(Error::invalid(&path.child("egressSelectorType"), self.egress_selector_type.clone(), why));
        }
    }
}

fn validate_url(url: &str, path: &Path, errors: &mut Errors) {
    let mut wrong = |why: &str| errors.push(Error::invalid(path, url, why));
    if url.contains('#') {
        wrong("URL must not contain a fragment");
    }
    let Ok(parsed) = url.parse::<Uri>() else { return wrong("URL cannot be parsed") };
    if parsed.scheme_str() != Some("https") {
        wrong("URL scheme must be https");
    }
    if parsed.authority().is_some_and(|authority| authority.as_str().contains('@')) {
        wrong("URL must not contain a username or password");
    }
    if parsed.query().is_some() {
        wrong("URL must not contain a query");
    }
}

impl ClaimRule {
    fn validate(&self, path: &Path, errors: &mut Errors) {
        match (self.claim.as_str(), self.expression.as_str()) {
            ("", "") => errors.push(Error::required(path, "claim or expression is required")),
            ("", expression) => errors.push(Error::invalid(&path.child("expression"), expression, NO_CEL)),
            (_, "") if !self.message.is_empty() => {
                let why = "may not be specified when claim is set";
                errors.push(Error::invalid(&path.child("message"), self.message.clone(), why));
            }
            (_, "") => {}
            (claim, _) => errors.push(Error::invalid(path, claim, "claim and expression can't both be set")),
        }
    }
}

impl Mapping {
    fn validate(&self, path: &Path, is_required: bool, errors: &mut Errors) {
        let has_prefix = self.prefix.is_some();
        match (self.claim.as_str(), self.expression.as_str()) {
            ("", "") if is_required => errors.push(Error::required(path, "claim or expression is required")),
            ("", "") if has_prefix => {
                errors.push(Error::required(path, "non-empty claim name is required when prefix is set"))
            }
            ("", "") => {}
            ("", expression) => errors.push(Error::invalid(&path.child("expression"), expression, NO_CEL)),
            (_, "") if !has_prefix => {
                let why = "prefix is required when claim is set. It can be set to an empty string to disable prefixing";
                errors.push(Error::required(&path.child("prefix"), why));
            }
            (_, "") => {}
            _ => errors.push(Error::invalid(path, "", "claim and expression can't both be set")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<(Vec<Issuer>, Option<Anonymous>), String> {
        let text = format!("apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n{text}");
        let file: File = access::decode(text.as_bytes(), "AuthenticationConfiguration", &["v1"])?;
        let joined = |errors: Errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        file.validated(&["https://own".to_owned()]).map_err(joined)
    }

    const GOOD: &str = "
jwt:
- issuer: {url: 'https://issuer.example.com', audiences: [a, b], audienceMatchPolicy: MatchAny}
  claimValidationRules: [{claim: hd, requiredValue: example.com}]
  claimMappings:
    username: {claim: sub, prefix: 'oidc:'}
    groups: {claim: roles, prefix: ''}
    uid: {claim: uid}
anonymous: {enabled: true, conditions: [{path: /healthz}]}
";

    #[test]
    fn issuers_and_open_paths_are_what_the_file_says() {
        let (issuers, anonymous) = of(GOOD).unwrap();
        let [issuer] = &issuers[..] else { panic!("{issuers:?}") };
        assert_eq!((issuer.url.as_str(), issuer.audiences.join(" ")), ("https://issuer.example.com", "a b".into()));
        let prefixed = |claim: &str, prefix: &str| Prefixed { claim: claim.into(), prefix: prefix.into() };
        assert_eq!(issuer.mappings.username, prefixed("sub", "oidc:"));
        assert_eq!(issuer.mappings.groups, Some(prefixed("roles", "")));
        assert_eq!(issuer.mappings.required, [("hd".to_owned(), "example.com".to_owned())]);
        assert_eq!(anonymous, Some(Anonymous::At(vec!["/healthz".into()])));
        assert_eq!(of("anonymous: {enabled: false}").unwrap().1, Some(Anonymous::Refused));
        assert_eq!(of("").unwrap().1, None);
    }

    #[test]
    fn what_a_file_cannot_mean_is_refused_by_the_name_of_the_field() {
        let table = [
            ("audiences: [a, b]", "audiences: []", "jwt[0].issuer.audiences: Required value"),
            (", audienceMatchPolicy: MatchAny", "", "jwt[0].issuer.audienceMatchPolicy: Invalid value: \"\""),
            ("https://issuer", "http://issuer", "jwt[0].issuer.url: Invalid value"),
            ("https://issuer.example.com", "https://own", "URL must not overlap with disallowed issuers"),
            ("https://issuer", "https://a:b@issuer", "URL must not contain a username or password"),
            ("claim: hd, requiredValue: example.com", "expression: 'true'", "claimValidationRules[0].expression"),
            ("{claim: sub, prefix: 'oidc:'}", "{expression: claims.sub}", "claimMappings.username.expression"),
            ("{claim: sub, prefix: 'oidc:'}", "{claim: sub}", "claimMappings.username.prefix: Required value"),
            ("{claim: uid}", "{expression: claims.uid}", "claimMappings.uid.expression"),
            (
                "    uid:",
                "    extra: [{key: example.com/a, valueExpression: claims.a}]\n    uid:",
                "extra[0].valueExpression",
            ),
            (
                "  claimMappings:",
                "  userValidationRules: [{expression: 'true'}]\n  claimMappings:",
                "userValidationRules[0]",
            ),
            ("enabled: true", "enabled: false", "anonymous.conditions"),
            ("audiences: [a, b]", "audience: a", "unknown field `audience`"),
            ("jwt:", "jwts: []\njwt:", "unknown field `jwts`"),
            ("anonymous:", "jwt: []\nanonymous:", "jwt"),
        ];
        for (from, to, why) in table {
            let changed = GOOD.replacen(from, to, 1);
            assert_ne!(changed, GOOD, "{from}");
            let error = of(&changed).expect_err(to);
            assert!(error.contains(why), "{to}: {error}");
        }
        let other = access::decode::<File>(b"kind: X\napiVersion: v1", "AuthenticationConfiguration", &["v1"]);
        assert!(other.is_err_and(|why| why.contains("found kind \"X\"")));
    }
}
