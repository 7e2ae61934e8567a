//! The host that a request is addressed to, and whether that is a name of this server.

use std::{
    fmt,
    net::{Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

use http::{HeaderMap, HeaderName, HeaderValue, Uri, header};

const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");

/// The hosts that are names of this server: the loopback ones, and those that the operator lists.
#[derive(Clone, Debug, Default)]
pub(crate) struct KnownHosts {
    listed: Vec<Authority<Box<str>>>,
}

impl KnownHosts {
    pub(crate) fn add(&mut self, entry: &str) -> Result<(), InvalidHost> {
        let host = parse_entry(entry).map_err(|kind| InvalidHost {
            entry: entry.into(),
            kind,
        })?;
        self.listed.push(host);
        Ok(())
    }

    // rule O4
    pub(crate) fn contains(&self, authority: Authority<&str>) -> bool {
        authority.host.is_loopback()
            || self.listed.iter().any(|entry| {
                entry.host.is(&authority.host)
                    && match (entry.port, authority.port) {
                        (None, _) | (Some(80 | 443), None) => true,
                        (Some(listed), port) => port == Some(listed),
                    }
            })
    }
}

fn parse_entry(entry: &str) -> Result<Authority<Box<str>>, InvalidEntryKind> {
    if entry.contains("://") {
        return Err(InvalidEntryKind::Scheme);
    }
    let text = bare_authority(entry)?;
    if text.contains('*') {
        return Err(InvalidEntryKind::Wildcard);
    }
    let Authority { host, port } = Authority::parse(text)?;
    if host.is_unspecified() {
        return Err(InvalidEntryKind::Unspecified);
    }
    Ok(Authority {
        host: host.into_entry()?,
        port,
    })
}

/// What a request says about the host that it is addressed to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target<'a> {
    /// The host as sent.
    pub(crate) text: Option<&'a [u8]>,
    /// Whether a proxy said so.
    pub(crate) forwarded: bool,
    /// Whether there are others, so that none of them counts.
    is_one_of_several: bool,
}

/// Why the host of a request can't be told.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Conflict<'a> {
    Repeated(&'a [u8]),
    Contradiction(&'a [u8]),
}

impl<'a> Target<'a> {
    /// The host that the request's own head names.
    // rule O4
    pub(crate) fn of(uri: &'a Uri, headers: &'a HeaderMap) -> Result<Self, Conflict<'a>> {
        let host = single(headers, &header::HOST).map_err(Conflict::Repeated)?;
        let host = host.map(HeaderValue::as_bytes).map(Self::sent);
        let target = uri
            .authority()
            .map(|authority| Self::sent(authority.as_str().as_bytes()));
        match (host, target) {
            (Some(host), Some(target)) => {
                let same = match (host.authority(), target.authority()) {
                    (Some(host), Some(target)) => host.is(target, uri.scheme_str()),
                    (None, None) => host.text == target.text,
                    _ => false,
                };
                same.then_some(host)
                    .ok_or(Conflict::Contradiction(host.text.unwrap_or_default()))
            }
            (target, None) | (None, target) => Ok(target.unwrap_or(Self {
                text: None,
                forwarded: false,
                is_one_of_several: false,
            })),
        }
    }

    /// `None` where the host is absent or unparsable.
    ///
    /// Parsed when it is asked for: most requests pass without.
    pub(crate) fn authority(&self) -> Option<Authority<&'a str>> {
        let text = self.text.filter(|_| !self.is_one_of_several)?;
        Authority::parse(std::str::from_utf8(text).ok()?).ok()
    }

    /// The host that a trusted proxy names, or this one where it names none.
    ///
    /// More than one value makes the host unknown. To fall back on `Host` would be wrong: behind a
    /// proxy that is often a loopback name, and any page can send a value for the proxy to add to.
    // rule O5
    pub(crate) fn or_forwarded(self, headers: &'a HeaderMap) -> Self {
        match single(headers, &X_FORWARDED_HOST) {
            Ok(None) => self,
            Ok(Some(value)) => Self {
                forwarded: true,
                ..Self::sent(value.as_bytes())
            },
            Err(first) => Self {
                text: Some(first),
                forwarded: true,
                is_one_of_several: true,
            },
        }
    }

    fn sent(text: &'a [u8]) -> Self {
        Self {
            text: Some(text),
            forwarded: false,
            is_one_of_several: false,
        }
    }
}

/// The only value of a header, or as an error the first one of several.
pub(crate) fn single<'a>(
    headers: &'a HeaderMap,
    name: &HeaderName,
) -> Result<Option<&'a HeaderValue>, &'a [u8]> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(first), Some(_)) => Err(first.as_bytes()),
        (first, _) => Ok(first),
    }
}

/// `host[:port]`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Authority<T> {
    pub(crate) host: Host<T>,
    pub(crate) port: Option<u16>,
}

impl<'a> Authority<&'a str> {
    // rule O2
    pub(crate) fn parse(text: &'a str) -> Result<Self, InvalidEntryKind> {
        let (host, port) = if text.ends_with(']') {
            (text, None)
        } else {
            text.rsplit_once(':')
                .map_or((text, None), |(host, port)| (host, Some(port)))
        };
        Ok(Self {
            host: Host::parse(host)?,
            port: port.map(parse_port).transpose()?,
        })
    }

    /// Whether both name the same place, for a URI of this scheme.
    fn is(self, other: Self, scheme: Option<&str>) -> bool {
        let default = scheme.and_then(Scheme::of).map(Scheme::default_port);
        self.host.is(&other.host) && self.port.or(default) == other.port.or(default)
    }
}

fn parse_port(digits: &str) -> Result<u16, InvalidEntryKind> {
    // `parse` alone would accept a sign and any number of zeros.
    if !(1..=5).contains(&digits.len()) || !digits.bytes().all(|it| it.is_ascii_digit()) {
        return Err(InvalidEntryKind::Port);
    }
    digits.parse().map_err(|_| InvalidEntryKind::Port)
}

/// Refuses what may stand around an authority in a URI, but never in `Host` or `Origin`.
pub(crate) fn bare_authority(text: &str) -> Result<&str, InvalidEntryKind> {
    if text.is_empty() {
        Err(InvalidEntryKind::Empty)
    } else if !text.is_ascii() {
        Err(InvalidEntryKind::NotAscii)
    } else if text.contains(['/', '?', '#', '\\']) {
        Err(InvalidEntryKind::Path)
    } else if text.contains('@') {
        Err(InvalidEntryKind::Userinfo)
    } else {
        Ok(text)
    }
}

/// A name, which an IPv4 address counts as, or an IPv6 address.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Host<T> {
    Name(T),
    Ipv6(Ipv6Addr),
}

impl<'a> Host<&'a str> {
    // rule O2
    pub(crate) fn parse(text: &'a str) -> Result<Self, InvalidEntryKind> {
        if text.is_empty() {
            return Err(InvalidEntryKind::Empty);
        }
        if !text.is_ascii() {
            return Err(InvalidEntryKind::NotAscii);
        }
        if let Some(address) = text.strip_prefix('[') {
            let address = address.strip_suffix(']').ok_or(InvalidEntryKind::Host)?;
            let address = Ipv6Addr::from_str(address).map_err(|_| InvalidEntryKind::Host)?;
            return Ok(Self::Ipv6(address));
        }
        let is_label = |label: &str| {
            !label.is_empty()
                && label
                    .bytes()
                    .all(|it| it.is_ascii_alphanumeric() || it == b'-' || it == b'_')
        };
        if without_trailing_dot(text).split('.').all(is_label) {
            Ok(Self::Name(text))
        } else {
            Err(InvalidEntryKind::Host)
        }
    }

    /// The host as part of an entry, unless it could never match.
    ///
    /// A browser reads a name that ends in a number as an IPv4 address and sends that in its usual
    /// form, so `127.1` or `0x7f000001` in a list would match nothing.
    // rule O3
    pub(crate) fn into_entry(self) -> Result<Host<Box<str>>, InvalidEntryKind> {
        match self {
            Self::Ipv6(address) => Ok(Host::Ipv6(address)),
            Self::Name(name) if ends_in_a_number(name) && Ipv4Addr::from_str(name).is_err() => {
                Err(InvalidEntryKind::Host)
            }
            Self::Name(name) => Ok(Host::Name(name.into())),
        }
    }
}

impl<T: AsRef<str>> Host<T> {
    // rule O2
    pub(crate) fn is<U: AsRef<str>>(&self, other: &Host<U>) -> bool {
        match (self, other) {
            (Self::Name(this), Host::Name(that)) => {
                this.as_ref().eq_ignore_ascii_case(that.as_ref())
            }
            (Self::Ipv6(this), Host::Ipv6(that)) => this == that,
            _ => false,
        }
    }

    /// Whether this is a name below `suffix`.
    // rule O3
    pub(crate) fn is_below(&self, suffix: &str) -> bool {
        let Self::Name(name) = self else { return false };
        let (name, suffix) = (name.as_ref().as_bytes(), suffix.as_bytes());
        name.len().checked_sub(suffix.len()).is_some_and(|middle| {
            let (front, back) = name.split_at(middle);
            front.ends_with(b".") && back.eq_ignore_ascii_case(suffix)
        })
    }

    // rule O4
    fn is_loopback(&self) -> bool {
        match self {
            Self::Name(name) => {
                name.as_ref().eq_ignore_ascii_case("localhost")
                    || self.is_below("localhost")
                    || Ipv4Addr::from_str(name.as_ref()).is_ok_and(|it| it.is_loopback())
            }
            Self::Ipv6(address) => address.is_loopback(),
        }
    }

    fn is_unspecified(&self) -> bool {
        match self {
            Self::Name(name) => {
                Ipv4Addr::from_str(name.as_ref()).is_ok_and(|it| it.is_unspecified())
            }
            Self::Ipv6(address) => address.is_unspecified(),
        }
    }
}

fn without_trailing_dot(name: &str) -> &str {
    name.strip_suffix('.').unwrap_or(name)
}

/// The check by which the [URL standard] tells an IPv4 address from a name.
///
/// [URL standard]: https://url.spec.whatwg.org/#ends-in-a-number-checker
pub(crate) fn ends_in_a_number(name: &str) -> bool {
    let label = without_trailing_dot(name).rsplit('.').next();
    let label = label.unwrap_or_default().as_bytes();
    match label {
        [b'0', b'x' | b'X', digits @ ..] => digits.iter().all(u8::is_ascii_hexdigit),
        digits => digits.iter().all(u8::is_ascii_digit),
    }
}

/// The scheme of a web page.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Scheme {
    /// `http`, by default on port 80.
    Http,
    /// `https`, by default on port 443.
    Https,
}

impl Scheme {
    pub(crate) fn of(scheme: &str) -> Option<Self> {
        if scheme.eq_ignore_ascii_case("http") {
            Some(Self::Http)
        } else if scheme.eq_ignore_ascii_case("https") {
            Some(Self::Https)
        } else {
            None
        }
    }

    // rule O2
    pub(crate) fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

/// A host that no client can name as this server's.
///
/// Returned by [`OriginGuardLayer::allow_host`](super::OriginGuardLayer::allow_host).
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct InvalidHost {
    entry: Box<str>,
    kind: InvalidEntryKind,
}

impl InvalidHost {
    /// What is wrong with the entry.
    #[must_use]
    pub fn kind(&self) -> InvalidEntryKind {
        self.kind
    }
}

/// Names the entry and what to write instead.
impl fmt::Display for InvalidHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invalid host {:?}: ", self.entry)?;
        match self.kind {
            InvalidEntryKind::Wildcard => f.write_str(
                "`*` has no meaning in a host; list every host, without a port for any port",
            ),
            kind => kind.explain("host[:port]", f),
        }
    }
}

impl std::error::Error for InvalidHost {}

/// What is wrong with an entry in a list of origins or hosts.
///
/// Each of these entries could never match a request.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum InvalidEntryKind {
    /// There is no host in it.
    Empty,
    /// The host has a byte that none may have, an empty label, or another spelling of its address
    /// than the one that browsers send.
    Host,
    /// It is not ASCII: names in other scripts are sent in punycode.
    NotAscii,
    /// There is a path, a query or a fragment.
    Path,
    /// The port is not a number from 0 to 65535.
    Port,
    /// An origin has no well-formed scheme, or a host has one.
    Scheme,
    /// The host is an address to listen on, such as `0.0.0.0`.
    Unspecified,
    /// There is a user name or a password.
    Userinfo,
    /// There is a `*` where it has no meaning.
    Wildcard,
}

impl InvalidEntryKind {
    pub(crate) fn explain(self, form: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (problem, remedy) = match self {
            Self::Empty => ("there is no host", "write "),
            Self::Host => (
                "the host is neither a name (ASCII letters, digits, `-`, `.`, `_`), four decimal \
                 numbers, nor an IPv6 address in brackets",
                "write ",
            ),
            Self::NotAscii => (
                "the host is not ASCII",
                "write it in punycode, as browsers send it: ",
            ),
            Self::Path => ("there is a path, query or fragment", "write only "),
            Self::Port => ("the port is not a number from 0 to 65535", "write "),
            Self::Scheme => ("the scheme is missing or out of place", "write only "),
            Self::Unspecified => (
                "this is an address to listen on",
                "write the name that clients use: ",
            ),
            Self::Userinfo => ("there is a user name or password", "write only "),
            Self::Wildcard => ("there is a `*` where it has no meaning", "write "),
        };
        write!(f, "{problem}; {remedy}{form}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authorities_with_bytes_that_headers_cannot_hold_are_unparsable() {
        for text in ["local\0host", "localhost\r\n", "localhost\u{7f}", "\n"] {
            assert!(Authority::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn authorities_read_as_host_and_port() {
        for (text, port) in [
            ("a", None),
            ("a:0", Some(0)),
            ("a:65535", Some(65535)),
            ("a:00080", Some(80)),
            ("[::1]", None),
            ("[::1]:8080", Some(8080)),
            ("a_b-c.d.", None),
        ] {
            assert_eq!(Authority::parse(text).unwrap().port, port, "{text}");
        }
    }

    #[test]
    fn names_below_a_suffix_end_on_a_label_boundary() {
        for (name, below) in [
            ("a.localhost", true),
            ("a.b.LocalHost", true),
            ("localhost", false),
            ("alocalhost", false),
            ("host", false),
            ("a.localhost.", false),
        ] {
            assert_eq!(
                Host::parse(name).unwrap().is_below("localhost"),
                below,
                "{name}"
            );
        }
    }

    #[test]
    fn names_that_browsers_read_as_addresses_are_told_from_others() {
        for (name, number) in [
            ("127.1", true),
            ("127.0.0.1", true),
            ("127.0.0.1.", true),
            ("2130706433", true),
            ("0x7f000001", true),
            ("a.0X", true),
            ("a.1", true),
            ("1.a", false),
            ("0xfg", false),
            ("a1", false),
        ] {
            assert_eq!(ends_in_a_number(name), number, "{name}");
        }
    }
}
