//! What browsers are told: which page may read an answer, and what it may ask for (CORS).
//!
//! Written here because `tower_http::cors` answers every `OPTIONS`, allows a fixed list of headers
//! or else whatever is asked for, and forgets which headers the inner service exposes.

use std::time::Duration;

use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode,
    header::{self, Entry},
};

/// What the operator lets the pages of admitted origins do.
#[derive(Clone, Debug)]
pub(crate) struct Cors {
    allowed_headers: HeaderValue,
    pub(crate) credentials: bool,
    pub(crate) private_network: bool,
    max_age: HeaderValue,
}

/// The headers of both eras, and those that every client of an HTTP API may send.
// rule O8
const ALLOWED_HEADERS: &str = "mcp-protocol-version, mcp-method, mcp-name, mcp-session-id, \
     last-event-id, authorization, content-type, accept, traceparent, tracestate, baggage";

/// Chromium keeps no preflight for longer.
const MAX_AGE: Duration = Duration::from_secs(2 * 60 * 60);

impl Default for Cors {
    fn default() -> Self {
        Self {
            allowed_headers: HeaderValue::from_static(ALLOWED_HEADERS),
            credentials: false,
            private_network: false,
            max_age: MAX_AGE.as_secs().into(),
        }
    }
}

impl Cors {
    pub(crate) fn allow_header(&mut self, name: &HeaderName) {
        let mut line = self.allowed_headers.as_bytes().to_vec();
        if !members(&line).any(|it| it.eq_ignore_ascii_case(name.as_str().as_bytes())) {
            join(&mut line, name.as_str().as_bytes());
            if let Some(line) = value(line) {
                self.allowed_headers = line;
            }
        }
    }

    pub(crate) fn set_max_age(&mut self, age: Duration) {
        self.max_age = age.as_secs().into();
    }

    /// Answers a preflight.
    // rule O8
    pub(crate) fn answer(
        &self,
        requested: &HeaderMap,
        grant: Grant,
        streams: bool,
    ) -> Response<()> {
        let methods = if streams { "POST, GET, DELETE" } else { "POST" };
        let vary = if self.private_network {
            "Origin, Access-Control-Request-Headers, Access-Control-Request-Private-Network"
        } else {
            "Origin, Access-Control-Request-Headers"
        };
        let params = requested_params(requested);
        let with_params = (!params.is_empty())
            .then(|| [self.allowed_headers.as_bytes(), SEPARATOR, &params].concat())
            .and_then(value);
        let allowed_headers = with_params.unwrap_or_else(|| self.allowed_headers.clone());

        let mut response = Response::new(());
        *response.status_mut() = StatusCode::NO_CONTENT;
        let headers = response.headers_mut();
        headers.insert(header::VARY, HeaderValue::from_static(vary));
        headers.insert(
            header::ACCESS_CONTROL_ALLOW_METHODS,
            HeaderValue::from_static(methods),
        );
        headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, allowed_headers);
        headers.insert(header::ACCESS_CONTROL_MAX_AGE, self.max_age.clone());
        if grant.private_network && asks_for_private_network(requested) {
            headers.insert(
                HeaderName::from_static("access-control-allow-private-network"),
                HeaderValue::from_static("true"),
            );
        }
        grant.admit(headers);
        response
    }
}

/// Whether a request that has an `Origin` only asks what the page may do.
// rule O8
pub(crate) fn is_preflight(method: &Method, headers: &HeaderMap) -> bool {
    method == Method::OPTIONS && headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

fn asks_for_private_network(requested: &HeaderMap) -> bool {
    requested
        .get("access-control-request-private-network")
        .is_some_and(|value| value == "true")
}

/// The `Mcp-Param-*` names among the requested headers, up to 4 KiB of them.
///
/// Which ones a tool knows is not the guard's business: a header of this prefix only repeats what
/// stands in the body.
fn requested_params(requested: &HeaderMap) -> Vec<u8> {
    const PREFIX: &[u8] = b"mcp-param-";
    const MOST: usize = 4096;

    let mut params = Vec::new();
    for line in requested.get_all(header::ACCESS_CONTROL_REQUEST_HEADERS) {
        for name in members(line.as_bytes()) {
            let is_param = name.len() > PREFIX.len()
                && name[..PREFIX.len()].eq_ignore_ascii_case(PREFIX)
                && name.iter().copied().all(is_token_byte);
            if !is_param {
                continue;
            }
            if params.len() + SEPARATOR.len() + name.len() > MOST {
                return params;
            }
            join(&mut params, name);
        }
    }
    params
}

fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// What the answer to an admitted request tells the browser.
#[derive(Debug, Default)]
pub(crate) struct Grant {
    /// `None` where the request names no page.
    pub(crate) origin: Option<HeaderValue>,
    pub(crate) credentials: bool,
    pub(crate) private_network: bool,
}

impl Grant {
    pub(crate) fn is_for_a_page(&self) -> bool {
        self.origin.is_some()
    }

    /// Completes the inner service's answer.
    // rule O7
    pub(crate) fn apply(self, headers: &mut HeaderMap) {
        let origin = const { HeaderValue::from_static("Origin") };
        add(headers, header::VARY, &["Origin"], origin);
        if self.origin.is_some() {
            self.admit(headers);
            add(
                headers,
                header::ACCESS_CONTROL_EXPOSE_HEADERS,
                &["Mcp-Session-Id", "WWW-Authenticate"],
                const { HeaderValue::from_static("Mcp-Session-Id, WWW-Authenticate") },
            );
        }
    }

    /// Lets the page read, in place of whomever the inner service would let read.
    fn admit(self, headers: &mut HeaderMap) {
        let Some(origin) = self.origin else { return };
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        if self.credentials {
            headers.insert(
                header::ACCESS_CONTROL_ALLOW_CREDENTIALS,
                HeaderValue::from_static("true"),
            );
        } else {
            headers.remove(header::ACCESS_CONTROL_ALLOW_CREDENTIALS);
        }
    }
}

/// Adds to a header that holds a list.
///
/// The list becomes one line: of several, some caches read only the last.
fn add(headers: &mut HeaderMap, name: HeaderName, wanted: &[&str], all: HeaderValue) {
    let mut there = match headers.entry(name) {
        Entry::Occupied(there) => there,
        Entry::Vacant(absent) => {
            absent.insert(all);
            return;
        }
    };
    let is_vary = there.key() == header::VARY;
    let is_there = |member: &str| {
        let mut lines = there.iter();
        lines.any(|line| has(line, member) || is_vary && has(line, "*"))
    };
    let missing = wanted.iter().filter(|member| !is_there(member));
    let missing = missing.copied().collect::<Vec<_>>();
    if missing.is_empty() {
        return;
    }
    let mut whole = Vec::new();
    for line in there.iter() {
        join(&mut whole, line.as_bytes());
    }
    for member in missing {
        join(&mut whole, member.as_bytes());
    }
    if let Some(whole) = value(whole) {
        there.insert(whole);
    }
}

fn has(line: &HeaderValue, member: &str) -> bool {
    members(line.as_bytes()).any(|it| it.eq_ignore_ascii_case(member.as_bytes()))
}

fn members(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| *byte == b',').map(<[u8]>::trim_ascii)
}

const SEPARATOR: &[u8] = b", ";

fn join(line: &mut Vec<u8>, more: &[u8]) {
    if !line.is_empty() && !more.is_empty() {
        line.extend_from_slice(SEPARATOR);
    }
    line.extend_from_slice(more);
}

/// The header value of this text, which always is one: it consists of such values.
fn value(text: Vec<u8>) -> Option<HeaderValue> {
    text.try_into().ok()
}
