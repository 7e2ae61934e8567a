//! What the rules look at in a request's head, gathered in one walk.

use http::{HeaderMap, HeaderName};

use crate::{
    protocol::{self, header},
    rejection::{Rejection, RejectionKind},
};

/// The headers that a rule reads.
#[derive(Debug, Default)]
pub(crate) struct Head<'a> {
    pub(crate) version: VersionHeader<'a>,
    pub(crate) method: Field<'a>,
    pub(crate) name: Field<'a>,
    /// What stands behind `Mcp-Param-` in the name of a header, and its value.
    params: Vec<(&'a str, &'a [u8])>,
    pub(crate) content_type: Field<'a>,
    /// Whether the body is encoded: a `Content-Encoding` other than `identity`, or a coding that
    /// the host has left on the message.
    pub(crate) encoded: bool,
    content_length: Option<&'a [u8]>,
    /// Whether the request belongs to a session of the handshake era.
    pub(crate) has_session: bool,
    /// Whether it resumes a stream of the handshake era.
    pub(crate) resumes: bool,
}

/// A header that may stand in a request once.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum Field<'a> {
    #[default]
    Absent,
    /// The value, without the blanks around it.
    One(&'a [u8]),
    Repeated,
}

impl<'a> Field<'a> {
    fn add(&mut self, value: &'a [u8]) {
        *self = match self {
            Self::Absent => Self::One(trim(value)),
            Self::One(_) | Self::Repeated => Self::Repeated,
        };
    }
}

/// The values of `MCP-Protocol-Version`: of all its lines, and of all members of each.
#[derive(Debug, Default)]
pub(crate) struct VersionHeader<'a> {
    first: Option<&'a str>,
    /// Members that differ from the first.
    others: Vec<&'a str>,
    malformed: bool,
}

/// What [`VersionHeader`] says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum NamedVersion<'a> {
    Absent,
    One(&'a str),
    /// Its members differ.
    Contradictory,
    /// It holds bytes outside visible ASCII.
    Malformed,
}

impl<'a> VersionHeader<'a> {
    // rule E6
    fn add(&mut self, line: &'a [u8]) {
        if let Some(version) = protocol::known_version(line) {
            return self.add_member(version);
        }
        for member in line.split(|&byte| byte == b',').map(trim) {
            let visible = member.iter().all(u8::is_ascii_graphic);
            match std::str::from_utf8(member) {
                Ok(member) if visible => self.add_member(member),
                _ => self.malformed = true,
            }
        }
    }

    fn add_member(&mut self, member: &'a str) {
        if *self.first.get_or_insert(member) != member {
            self.others.push(member);
        }
    }

    pub(crate) fn named(&self) -> NamedVersion<'a> {
        match self.first {
            _ if self.malformed => NamedVersion::Malformed,
            None => NamedVersion::Absent,
            Some(_) if !self.others.is_empty() => NamedVersion::Contradictory,
            Some(version) => NamedVersion::One(version),
        }
    }

    /// Whether any member is a version that `names` accepts.
    pub(crate) fn any(&self, names: impl FnMut(&str) -> bool) -> bool {
        let members = self.first.iter().chain(&self.others);
        members.copied().any(names)
    }
}

impl<'a> Head<'a> {
    /// Reads pairs of a name, in lower case, and a value.
    pub(crate) fn new(headers: impl Iterator<Item = (&'a str, &'a [u8])>) -> Self {
        let mut head = Self::default();
        for (name, value) in headers {
            head.add(name, value);
        }
        head
    }

    fn add(&mut self, name: &'a str, value: &'a [u8]) {
        // What most headers are, none of those below begins with.
        if !matches!(name.as_bytes(), [b'c' | b'l' | b'm' | b't', ..]) {
            return;
        }
        let is = |known: &str| name == known;
        if is(header::MCP_PROTOCOL_VERSION) {
            self.version.add(value);
        } else if is(header::MCP_METHOD) {
            self.method.add(value);
        } else if is(header::MCP_NAME) {
            self.name.add(value);
        } else if let Some(param) = name.strip_prefix(header::MCP_PARAM) {
            self.params.push((param, value));
        } else if is("content-type") {
            self.content_type.add(value);
        } else if is("content-encoding") {
            self.encoded |= lists_other_than(value, b"identity");
        } else if is("transfer-encoding") {
            self.encoded |= lists_other_than(value, b"chunked");
        } else if is(header::MCP_SESSION_ID.as_str()) {
            self.has_session = true;
        } else if is(header::LAST_EVENT_ID.as_str()) {
            self.resumes = true;
        } else if is("content-length") {
            self.content_length = Some(value);
        }
    }

    /// How many bytes the body is said to have.
    pub(crate) fn content_length(&self) -> Option<u64> {
        std::str::from_utf8(self.content_length?).ok()?.parse().ok()
    }

    /// The header `Mcp-Param-{param}`.
    pub(crate) fn param(&self, param: &str) -> Field<'a> {
        let mut field = Field::Absent;
        for (name, value) in &self.params {
            if name.eq_ignore_ascii_case(param) {
                field.add(value);
            }
        }
        field
    }

    /// Whether the body is declared as `application/json`, and in no other charset than UTF-8.
    ///
    /// Some readers decode by the charset: in UTF-7, say, one text is another message.
    fn is_json(&self) -> bool {
        let Field::One(value) = self.content_type else {
            return false;
        };
        value == b"application/json"
            || media_type(value).eq_ignore_ascii_case(b"application/json")
                && charsets(value).all(|charset| charset.eq_ignore_ascii_case(b"utf-8"))
    }

    /// Refuses a modern body that is not plain JSON.
    // rule B6
    pub(crate) fn check_media(&self) -> Result<(), Box<Rejection>> {
        let (kind, text) = if !self.is_json() {
            let text = "Content-Type is not application/json in UTF-8";
            (RejectionKind::UnsupportedMediaType, text)
        } else if self.encoded {
            let text = "Content-Encoding is not supported";
            (RejectionKind::UnsupportedContentEncoding, text)
        } else {
            return Ok(());
        };
        Err(Rejection::new(kind, text))
    }

    /// Whether the body is declared as one of gRPC's.
    pub(crate) fn is_grpc(&self) -> bool {
        const GRPC: &[u8] = b"application/grpc";
        let Field::One(value) = self.content_type else {
            return false;
        };
        let (start, rest) = value.split_at(GRPC.len().min(value.len()));
        start.eq_ignore_ascii_case(GRPC) && matches!(rest, [] | [b'+' | b';' | b'-' | b' ', ..])
    }
}

impl<'a> From<&'a HeaderMap> for Head<'a> {
    fn from(headers: &'a HeaderMap) -> Self {
        Self::new(
            headers
                .iter()
                .map(|(name, value)| (name.as_str(), value.as_bytes())),
        )
    }
}

/// Removes headers that are hardly ever there.
///
/// To look at the few that are is cheaper than to hash the name of each that might be.
pub(crate) fn remove_rare(headers: &mut HeaderMap, names: &[HeaderName]) {
    if headers.keys().any(|name| names.contains(name)) {
        for name in names {
            headers.remove(name);
        }
    }
}

/// Whether a list has a member that is not `allowed`.
fn lists_other_than(list: &[u8], allowed: &[u8]) -> bool {
    let mut members = list.split(|&byte| byte == b',');
    members.any(|member| !trim(member).eq_ignore_ascii_case(allowed))
}

/// The values of all `charset` parameters, without quotes.
fn charsets(content_type: &[u8]) -> impl Iterator<Item = &[u8]> {
    let parameters = content_type.split(|&byte| byte == b';').skip(1);
    parameters.filter_map(|parameter| {
        let at = parameter.iter().position(|&byte| byte == b'=')?;
        let (name, value) = (trim(&parameter[..at]), trim(&parameter[at + 1..]));
        let unquoted = value.strip_prefix(b"\"").unwrap_or(value);
        let unquoted = unquoted.strip_suffix(b"\"").unwrap_or(unquoted);
        name.eq_ignore_ascii_case(b"charset").then_some(unquoted)
    })
}

/// The value of a `Content-Type` without its parameters.
pub(crate) fn media_type(value: &[u8]) -> &[u8] {
    let end = value.iter().position(|&byte| byte == b';');
    trim(&value[..end.unwrap_or(value.len())])
}

/// Cuts off the blanks around a value: HTTP/1.1 drops them, HTTP/2 delivers them.
pub(crate) fn trim(mut value: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}
