//! Which origins are admitted, and the decision about a request.

use std::{fmt, sync::Arc};

use http::{HeaderMap, HeaderValue, Method, Uri, header};

use super::{
    cors::{Cors, Grant},
    host::{
        Authority, Conflict, Host, InvalidEntryKind, KnownHosts, Scheme, Target, bare_authority,
        ends_in_a_number, single,
    },
};
use crate::rejection::{Rejection, RejectionKind};

/// Everything the guard was told, and the decision that follows from it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Policy {
    pub(crate) origins: Origins,
    pub(crate) hosts: KnownHosts,
    pub(crate) public_scheme: Option<Scheme>,
    pub(crate) require_known_host: bool,
    pub(crate) trust_forwarded_host: bool,
    pub(crate) cors: Cors,
}

/// Why a request passes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Verdict {
    pub(crate) grounds: Grounds,
    /// The request passes because of its host, and a proxy named that.
    #[cfg_attr(not(feature = "tracing"), allow(dead_code))] // only logged
    pub(crate) forwarded: bool,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Grounds {
    NoOrigin,
    Listed,
    /// The origin is `null`, which is listed but names no page.
    Null,
    SameOrigin,
    EveryOrigin,
}

impl Policy {
    pub(crate) fn check(
        &self,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
    ) -> Result<Verdict, Box<Rejection>> {
        self.decide(method, uri, headers).map_err(|refusal| {
            refusal // rule O6
                .into_rejection()
                .with_header(header::VARY, HeaderValue::from_static("Origin"))
                .without_body(method == Method::HEAD)
        })
    }

    /// What the page of a request that passes is granted.
    ///
    /// Credentials and the private network are for pages that the operator knows by name: whoever
    /// `*` or `null` admits may be anybody.
    // rule O7
    pub(crate) fn grant(&self, verdict: Verdict, headers: &HeaderMap) -> Grant {
        let (listed, ours) = match verdict.grounds {
            Grounds::NoOrigin => return Grant::default(),
            Grounds::Listed => (true, false),
            Grounds::SameOrigin => (false, true),
            Grounds::Null | Grounds::EveryOrigin => (false, false),
        };
        Grant {
            origin: headers.get(header::ORIGIN).cloned(),
            credentials: self.cors.credentials && (listed || ours),
            private_network: self.cors.private_network && listed,
        }
    }

    fn decide<'a>(
        &self,
        method: &Method,
        uri: &'a Uri,
        headers: &'a HeaderMap,
    ) -> Result<Verdict, Refusal<'a>> {
        let target = Target::of(uri, headers).map_err(Refusal::Conflict)?;
        let sent = single(headers, &header::ORIGIN).map_err(Refusal::RepeatedOrigin)?;
        let left_off = sent.is_none() && (method == Method::GET || method == Method::HEAD);
        let needs_host = left_off || self.require_known_host;
        if sent.is_none() && !needs_host {
            return Ok(Verdict {
                grounds: Grounds::NoOrigin, // rule O1
                forwarded: false,
            });
        }

        let target = if self.trust_forwarded_host {
            target.or_forwarded(headers) // rule O5
        } else {
            target
        };
        let known = target
            .authority()
            .is_some_and(|authority| self.hosts.contains(authority));
        if needs_host && !known {
            return Err(Refusal::UnknownHost(target)); // rule O4
        }
        let grounds = match sent {
            None => Grounds::NoOrigin,
            Some(value) => self.admit(value, target, known)?,
        };
        Ok(Verdict {
            grounds,
            forwarded: target.forwarded && (needs_host || grounds == Grounds::SameOrigin),
        })
    }

    fn admit<'a>(
        &self,
        value: &'a HeaderValue,
        target: Target<'a>,
        known: bool,
    ) -> Result<Grounds, Refusal<'a>> {
        let refused = Refusal::Origin(value.as_bytes());
        let text = value
            .to_str()
            .map_err(|_| Refusal::Malformed(value.as_bytes()))?;
        if text == "null" {
            return match (self.origins.null, self.origins.every) {
                (true, _) => Ok(Grounds::Null),
                (_, true) => Ok(Grounds::EveryOrigin),
                _ => Err(refused),
            };
        }
        // rule O1
        let origin = Origin::parse(text).map_err(|_| Refusal::Malformed(value.as_bytes()))?;
        if self.origins.list(&origin) {
            return Ok(Grounds::Listed); // rule O3
        }
        let same = target
            .authority()
            .is_some_and(|authority| origin.is_at(authority, self.public_scheme));
        if same && known {
            Ok(Grounds::SameOrigin) // rule O4
        } else if self.origins.every {
            Ok(Grounds::EveryOrigin)
        } else if same {
            // A name that was rebound to this server matches Origin and Host alike.
            Err(Refusal::UnknownHost(target))
        } else {
            Err(refused)
        }
    }
}

/// Why a request does not pass.
#[derive(Debug)]
enum Refusal<'a> {
    Conflict(Conflict<'a>),
    UnknownHost(Target<'a>),
    RepeatedOrigin(&'a [u8]),
    Malformed(&'a [u8]),
    Origin(&'a [u8]),
}

impl Refusal<'_> {
    // rule O6
    fn into_rejection(self) -> Box<Rejection> {
        let (kind, message) = match self {
            Self::Conflict(Conflict::Repeated(host)) => (
                RejectionKind::ForbiddenHost,
                format!("`Host` is repeated, first as `{}`: send it once", cut(host)),
            ),
            Self::Conflict(Conflict::Contradiction(host)) => (
                RejectionKind::ForbiddenHost,
                format!(
                    "`Host` is `{}`, which contradicts the request's URI: send the same in both",
                    cut(host)
                ),
            ),
            Self::UnknownHost(
                target @ Target {
                    text: Some(host), ..
                },
            ) if target.authority().is_some() => (
                RejectionKind::ForbiddenHost,
                format!(
                    "host `{}` is not known here: to admit it, the server's operator calls \
                     `OriginGuardLayer::allow_host`",
                    cut(host)
                ),
            ),
            Self::UnknownHost(Target {
                text: Some(host), ..
            }) => (
                RejectionKind::ForbiddenHost,
                format!("`{}` is not one host: send one as host[:port]", cut(host)),
            ),
            Self::UnknownHost(_) => (
                RejectionKind::ForbiddenHost,
                "the request names no host: send `Host`".to_owned(),
            ),
            Self::RepeatedOrigin(origin) => (
                RejectionKind::ForbiddenOrigin,
                format!(
                    "`Origin` is repeated, first as `{}`: send it once",
                    cut(origin)
                ),
            ),
            Self::Malformed(origin) => (
                RejectionKind::ForbiddenOrigin,
                format!(
                    "`{}` is not an origin: send one as scheme://host[:port], or none",
                    cut(origin)
                ),
            ),
            Self::Origin(origin) => (
                RejectionKind::ForbiddenOrigin,
                format!(
                    "origin `{}` is not admitted: to admit it, the server's operator calls \
                     `OriginGuardLayer::allow_origin`",
                    cut(origin)
                ),
            ),
        };
        Rejection::new(kind, message)
    }
}

/// At most 100 bytes of a header value, printable.
fn cut(value: &[u8]) -> String {
    const MOST: usize = 100;
    let mut text = value[..value.len().min(MOST)].escape_ascii().to_string();
    text.truncate(MOST); // the text is ASCII, so every cut is between characters
    text
}

/// The origin of a request: `scheme://host[:port]`.
///
/// Handed to the function that [`OriginGuardLayer::allow_origin_if`] takes, and always well-formed.
///
/// [`OriginGuardLayer::allow_origin_if`]: super::OriginGuardLayer::allow_origin_if
#[derive(Clone, Copy, Debug)]
pub struct Origin<'a> {
    text: &'a str,
    scheme: &'a str,
    authority: &'a str,
    /// `None` for schemes other than `http` and `https`, whose authority is opaque.
    web: Option<Web<'a>>,
}

#[derive(Clone, Copy, Debug)]
struct Web<'a> {
    scheme: Scheme,
    host: Host<&'a str>,
    port: Option<u16>,
}

impl<'a> Origin<'a> {
    /// The origin as sent.
    #[must_use]
    pub fn as_str(&self) -> &'a str {
        self.text
    }

    /// The scheme as sent; browsers send it in lower case.
    #[must_use]
    pub fn scheme(&self) -> &'a str {
        self.scheme
    }

    /// The host as sent: browsers send names in lower case and IPv6 addresses in brackets.
    ///
    /// It is everything after `://` where the scheme is neither `http` nor `https`.
    #[must_use]
    pub fn host(&self) -> &'a str {
        match self.web {
            Some(Web { port: Some(_), .. }) => self
                .authority
                .rsplit_once(':')
                .map_or(self.authority, |(host, _)| host),
            _ => self.authority,
        }
    }

    /// The port, by default that of the scheme; `None` for schemes that have no default.
    #[must_use]
    pub fn port(&self) -> Option<u16> {
        self.web.map(Web::port)
    }

    // rule O2
    fn parse(text: &'a str) -> Result<Self, InvalidEntryKind> {
        let (scheme, authority) = split(text)?;
        let web = if let Some(scheme) = Scheme::of(scheme) {
            let Authority { host, port } = Authority::parse(authority)?;
            Some(Web { scheme, host, port })
        } else {
            opaque(authority)?;
            None
        };
        Ok(Self {
            text,
            scheme,
            authority,
            web,
        })
    }

    /// Whether a page of this origin was served under this authority.
    // rule O4
    fn is_at(&self, authority: Authority<&str>, public: Option<Scheme>) -> bool {
        self.web.is_some_and(|web| {
            public.is_none_or(|public| web.scheme == public)
                && web.host.is(&authority.host)
                && web.port() == authority.port.unwrap_or(web.scheme.default_port())
        })
    }
}

impl Web<'_> {
    fn port(self) -> u16 {
        self.port.unwrap_or(self.scheme.default_port())
    }
}

/// Takes an origin apart at `://`.
fn split(text: &str) -> Result<(&str, &str), InvalidEntryKind> {
    if text.is_empty() {
        return Err(InvalidEntryKind::Empty);
    }
    let (scheme, authority) = text.split_once("://").ok_or(InvalidEntryKind::Scheme)?;
    let mut bytes = scheme.bytes();
    let well_formed = bytes.next().is_some_and(|it| it.is_ascii_alphabetic())
        && bytes.all(|it| it.is_ascii_alphanumeric() || matches!(it, b'+' | b'-' | b'.'));
    if !well_formed {
        return Err(InvalidEntryKind::Scheme);
    }
    Ok((scheme, bare_authority(authority)?))
}

/// The authority of a scheme that is not the web's: its inside is nobody's business.
fn opaque(authority: &str) -> Result<&str, InvalidEntryKind> {
    if authority.bytes().all(|it| it.is_ascii_graphic()) {
        Ok(authority)
    } else {
        Err(InvalidEntryKind::Host)
    }
}

/// The list of admitted origins.
#[derive(Clone, Debug, Default)]
pub(crate) struct Origins {
    patterns: Vec<Pattern>,
    predicates: Vec<Predicate>,
    null: bool,
    pub(crate) every: bool,
}

impl Origins {
    // rule O3
    pub(crate) fn add(&mut self, entry: &str) -> Result<(), InvalidOrigin> {
        if entry == "*" {
            self.every = true;
        } else if entry.eq_ignore_ascii_case("null") {
            self.null = true;
        } else {
            let pattern = Pattern::parse(entry).map_err(|kind| InvalidOrigin {
                entry: entry.into(),
                kind,
            })?;
            self.patterns.push(pattern);
        }
        Ok(())
    }

    pub(crate) fn add_predicate(
        &mut self,
        predicate: impl Fn(&Origin<'_>) -> bool + Send + Sync + 'static,
    ) {
        self.predicates.push(Predicate(Arc::new(predicate)));
    }

    // rule O3
    fn list(&self, origin: &Origin<'_>) -> bool {
        self.patterns.iter().any(|it| it.matches(origin))
            || self.predicates.iter().any(|it| (it.0)(origin))
    }
}

#[derive(Clone)]
struct Predicate(Arc<dyn Fn(&Origin<'_>) -> bool + Send + Sync>);

impl fmt::Debug for Predicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Predicate").finish_non_exhaustive()
    }
}

/// An entry of the list.
#[derive(Clone, Debug)]
enum Pattern {
    /// `http` and `https`.
    Web {
        scheme: Scheme,
        host: HostPattern,
        /// `None` for any.
        port: Option<u16>,
    },
    /// Every other scheme.
    Opaque {
        scheme: Box<str>,
        /// `None` for any.
        authority: Option<Box<str>>,
    },
}

#[derive(Clone, Debug)]
enum HostPattern {
    Exact(Host<Box<str>>),
    Below(Box<str>),
}

impl Pattern {
    // rule O3
    fn parse(entry: &str) -> Result<Self, InvalidEntryKind> {
        let entry = match entry.strip_suffix('/') {
            Some(trimmed) if !trimmed.ends_with('/') => trimmed,
            _ => entry,
        };
        let (scheme, authority) = split(entry)?;
        if let Some(scheme) = Scheme::of(scheme) {
            return Self::parse_web(scheme, authority);
        }
        let authority = match opaque(authority)? {
            "*" => None,
            authority if authority.contains('*') => return Err(InvalidEntryKind::Wildcard),
            authority => Some(authority.into()),
        };
        Ok(Self::Opaque {
            scheme: scheme.into(),
            authority,
        })
    }

    fn parse_web(scheme: Scheme, authority: &str) -> Result<Self, InvalidEntryKind> {
        let any_port = authority.strip_suffix(":*");
        let rest = any_port.unwrap_or(authority);
        let suffix = rest.strip_prefix("*.");
        let rest = suffix.unwrap_or(rest);
        if rest.contains('*') {
            return Err(InvalidEntryKind::Wildcard);
        }
        let (host, port) = if any_port.is_some() {
            (Host::parse(rest)?, None)
        } else {
            let Authority { host, port } = Authority::parse(rest)?;
            (host, Some(port.unwrap_or(scheme.default_port())))
        };
        let host = match host {
            Host::Name(name) if suffix.is_some() && !ends_in_a_number(name) => {
                HostPattern::Below(name.into())
            }
            _ if suffix.is_some() => return Err(InvalidEntryKind::Wildcard), // no names below it
            host => HostPattern::Exact(host.into_entry()?),
        };
        Ok(Self::Web { scheme, host, port })
    }

    fn matches(&self, origin: &Origin<'_>) -> bool {
        match (self, origin.web) {
            (Self::Web { scheme, host, port }, Some(web)) => {
                *scheme == web.scheme
                    && port.is_none_or(|port| port == web.port())
                    && match host {
                        HostPattern::Exact(host) => host.is(&web.host),
                        HostPattern::Below(suffix) => web.host.is_below(suffix),
                    }
            }
            (Self::Opaque { scheme, authority }, None) => {
                scheme.eq_ignore_ascii_case(origin.scheme)
                    && authority
                        .as_deref()
                        .is_none_or(|authority| authority == origin.authority)
            }
            _ => false,
        }
    }
}

/// An origin that no browser could send.
///
/// Returned by [`OriginGuardLayer::allow_origin`](super::OriginGuardLayer::allow_origin).
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct InvalidOrigin {
    entry: Box<str>,
    kind: InvalidEntryKind,
}

impl InvalidOrigin {
    /// What is wrong with the entry.
    #[must_use]
    pub fn kind(&self) -> InvalidEntryKind {
        self.kind
    }
}

/// Names the entry and what to write instead.
impl fmt::Display for InvalidOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invalid origin {:?}: ", self.entry)?;
        match self.kind {
            InvalidEntryKind::Wildcard => f.write_str(
                "`*` stands for a port (scheme://host:*), for names below another \
                 (scheme://*.suffix), or for every origin of a scheme that is neither http nor \
                 https (scheme://*)",
            ),
            kind => kind.explain("scheme://host[:port]", f),
        }
    }
}

impl std::error::Error for InvalidOrigin {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_an_origin_are_as_sent() {
        for (text, scheme, host, port) in [
            ("http://a", "http", "a", Some(80)),
            ("https://A.b", "https", "A.b", Some(443)),
            ("https://a:8443", "https", "a", Some(8443)),
            ("http://[::1]", "http", "[::1]", Some(80)),
            ("http://[::1]:1", "http", "[::1]", Some(1)),
            ("app://a:1", "app", "a:1", None),
        ] {
            let origin = Origin::parse(text).unwrap();
            assert_eq!(
                (
                    origin.as_str(),
                    origin.scheme(),
                    origin.host(),
                    origin.port()
                ),
                (text, scheme, host, port),
            );
        }
    }

    #[test]
    fn origins_with_bytes_that_headers_cannot_hold_are_unparsable() {
        for text in [
            "http://a\0",
            "http://a\n",
            "app://a\0",
            "app://\u{7f}",
            "app\0://a",
        ] {
            assert!(Origin::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn values_are_cut_at_a_hundred_printable_bytes() {
        assert_eq!(cut(&[b'a'; 101]), "a".repeat(100));
        assert_eq!(cut(&[b'a'; 100]), "a".repeat(100));
        assert_eq!(cut(&[0xff; 99]).len(), 100);
        assert_eq!(cut(b"a\tb\xc3\xa9"), r"a\tb\xc3\xa9");
    }

    #[test]
    fn weakenings_are_grounds_only_where_nothing_else_admits() {
        let mut policy = Policy::default();
        policy.origins.add("*").unwrap();
        policy.origins.add("https://listed.example").unwrap();
        for (origin, grounds) in [
            ("https://listed.example", Grounds::Listed),
            ("http://localhost", Grounds::SameOrigin),
            ("https://other.example", Grounds::EveryOrigin),
            ("null", Grounds::EveryOrigin),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert("host", HeaderValue::from_static("localhost"));
            headers.insert("origin", HeaderValue::from_static(origin));
            let verdict = policy
                .check(&Method::POST, &Uri::from_static("/"), &headers)
                .unwrap();
            assert_eq!(verdict.grounds, grounds, "{origin}");
        }
    }

    #[test]
    fn a_forwarded_host_is_reported_where_the_request_passes_because_of_it() {
        let mut policy = Policy {
            trust_forwarded_host: true,
            ..Policy::default()
        };
        policy.origins.add("https://listed.example").unwrap();
        for (method, origin, forwarded) in [
            (Method::POST, Some("https://listed.example"), false),
            (Method::POST, Some("http://localhost"), true),
            (Method::POST, None, false),
            (Method::GET, None, true),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert("x-forwarded-host", HeaderValue::from_static("localhost"));
            if let Some(origin) = origin {
                headers.insert("origin", HeaderValue::from_static(origin));
            }
            let verdict = policy
                .check(&method, &Uri::from_static("/"), &headers)
                .unwrap();
            assert_eq!(verdict.forwarded, forwarded, "{method} {origin:?}");
        }
    }
}
