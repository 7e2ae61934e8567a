//! A line of a case file. A field that is not named here fails the run.

use std::collections::{BTreeMap, VecDeque};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, Version, header};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::probe::{Frames, Hold, Step};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Case {
    pub(crate) id: String,
    pub(crate) layer: Tested,
    pub(crate) title: String,
    pub(crate) config: Config,
    pub(crate) request: Incoming,
    pub(crate) inner_response: Option<InnerResponse>,
    pub(crate) expect: Expect,
    pub(crate) why: String,
    pub(crate) spec: String,
}

/// Whose case it is.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) enum Tested {
    OriginGuard,
    EraResolver,
    MirrorHeaderValidator,
    #[serde(rename = "EnvelopeLayer", alias = "EnvelopeLayer (tonic)")]
    Envelope,
    #[serde(
        rename = "Stack (all layers)",
        alias = "EraResolver+EnvelopeLayer",
        alias = "EraResolver+MirrorHeaderValidator"
    )]
    Several,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    pub(crate) origin: Option<Origin>,
    pub(crate) era: Era,
    pub(crate) tools: Map<String, Value>,
    pub(crate) envelope: Option<Envelope>,
    pub(crate) max_body: Option<usize>,
    pub(crate) envelope_max_body: Option<usize>,
    pub(crate) inner: Option<Inner>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(clippy::struct_field_names, reason = "named by the file")]
pub(crate) struct Origin {
    pub(crate) allowed_origins: Vec<String>,
    pub(crate) allowed_hosts: Vec<String>,
    pub(crate) same_origin: Option<bool>,
    pub(crate) trust_forwarded_host: bool,
    /// Says how the server was started: no layer knows it.
    bind: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Era {
    pub(crate) legacy_streams: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_field_names, reason = "named by the file")]
pub(crate) struct Envelope {
    pub(crate) server_info: ServerInfo,
    pub(crate) ttl_ms: Option<u64>,
    pub(crate) cache_scope: Option<CacheScope>,
    pub(crate) envelope_max_body: Option<usize>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ServerInfo {
    pub(crate) name: String,
    pub(crate) version: String,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum CacheScope {
    Private,
    Public,
}

/// A host other than the probe.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) enum Inner {
    #[serde(rename = "tower ConcurrencyLimit(1) and a strict readiness checker")]
    Crowded,
    #[serde(rename = r#"axum Router::new().route("/mcp", post(h)).layer(stack)"#)]
    Router,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Incoming {
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    raw_header_bytes: Option<(String, String)>,
    body: Option<String>,
    body_b64: Option<String>,
    body_gen: Option<BodyGen>,
    chunks: Option<Vec<String>>,
    http_version: Option<HttpVersion>,
    scheme: Option<String>,
    authority: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
enum HttpVersion {
    #[serde(rename = "2")]
    Two,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct BodyGen {
    prefix: String,
    open: String,
    close: String,
    depth: usize,
    inner: String,
    suffix: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct InnerResponse {
    status: u16,
    headers: Vec<(String, String)>,
    content_type: Option<String>,
    body: Option<String>,
    body_b64: Option<String>,
    body_gen: Option<BodyGen>,
    chunks: Option<Vec<String>>,
    chunks_b64: Option<Vec<String>>,
    #[serde(default)]
    trailers: Vec<(String, String)>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "named by the file")]
pub(crate) struct Expect {
    pub(crate) status: Status,
    pub(crate) jsonrpc_error_code: Option<i64>,
    pub(crate) reaches_inner: bool,
    pub(crate) response_headers: BTreeMap<String, Option<String>>,
    pub(crate) result_has: Vec<String>,
    pub(crate) result_lacks: Vec<String>,
    #[serde(default)]
    pub(crate) result_unchanged_paths: Vec<String>,
    #[serde(default)]
    pub(crate) body_identical_to_inner: bool,
    #[serde(default)]
    pub(crate) body_complete: bool,
    #[serde(default)]
    pub(crate) contains_text: Vec<String>,
    pub(crate) events: Option<usize>,
    pub(crate) streaming: Option<Streaming>,
    pub(crate) on_client_drop: Option<OnClientDrop>,
    pub(crate) content_length: Option<ContentLength>,
    #[serde(default)]
    pub(crate) trailers: BTreeMap<String, String>,
    pub(crate) error_id_raw: Option<String>,
    #[serde(default)]
    pub(crate) error_data_has: BTreeMap<String, String>,
    pub(crate) inner_sees_header: Option<(String, String)>,
    #[serde(default)]
    pub(crate) inner_sees_body_identical: bool,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Status {
    One(u16),
    OneOf(Vec<u16>),
}

impl Status {
    pub(crate) fn admits(&self, status: u16) -> bool {
        match self {
            Self::One(one) => *one == status,
            Self::OneOf(list) => list.contains(&status),
        }
    }
}

// Three expectations are written as prose; only this prose is understood.

#[derive(Debug, Deserialize)]
pub(crate) enum Streaming {
    #[serde(rename = "acknowledgement readable at once")]
    AtOnce,
}

#[derive(Debug, Deserialize)]
pub(crate) enum OnClientDrop {
    #[serde(rename = "the inner body is dropped promptly; no task keeps polling it")]
    InnerBodyDropped,
}

#[derive(Debug, Deserialize)]
pub(crate) enum ContentLength {
    #[serde(rename = "must equal the new body length or be absent")]
    RightOrAbsent,
}

impl Incoming {
    pub(crate) fn to_request(&self) -> Request<Frames> {
        let uri = match self.http_version {
            None => self.path.clone(),
            Some(HttpVersion::Two) => format!(
                "{}://{}{}",
                self.scheme.as_deref().expect("HTTP/2 has a scheme"),
                self.authority.as_deref().expect("HTTP/2 has an authority"),
                self.path
            ),
        };
        let mut request = Request::builder()
            .method(self.method.as_str())
            .uri(uri)
            .body(self.to_body())
            .expect("the case has a valid request line");
        if self.http_version.is_some() {
            *request.version_mut() = Version::HTTP_2;
        }
        *request.headers_mut() = header_map(&self.headers);
        if let Some((name, value)) = &self.raw_header_bytes {
            append(request.headers_mut(), name, &decoded(value));
        }
        request
    }

    /// The bytes of the body, whatever frames it arrives in.
    pub(crate) fn bytes(&self) -> Bytes {
        whole(
            self.body.as_deref(),
            self.body_b64.as_deref(),
            self.body_gen.as_ref(),
        )
        .unwrap_or_default()
    }

    /// The trailers at the end of a body that tells no length.
    pub(crate) fn trailers(&self) -> Option<HeaderMap> {
        let chunked = self
            .headers
            .iter()
            .any(|(name, _)| name.eq_ignore_ascii_case(header::TRANSFER_ENCODING.as_str()));
        (chunked || self.chunks.is_some())
            .then(|| header_map(&[("x-checksum".to_owned(), "17".to_owned())]))
    }

    fn to_body(&self) -> Frames {
        let bytes = self.bytes();
        let Some(trailers) = self.trailers() else {
            return Frames::sized(bytes);
        };
        let mut steps: VecDeque<_> = if let Some(chunks) = &self.chunks {
            assert_eq!(
                chunks.concat().as_bytes(),
                bytes,
                "the chunks are the body, cut"
            );
            chunks.iter().map(|chunk| data(chunk.as_bytes())).collect()
        } else {
            bytes.chunks(16 * 1024).map(data).collect()
        };
        steps.push_back(Step::Trailers(trailers));
        Frames::unsized_of(steps)
    }
}

impl InnerResponse {
    pub(crate) fn to_response(&self) -> Response<Frames> {
        let whole = whole(
            self.body.as_deref(),
            self.body_b64.as_deref(),
            self.body_gen.as_ref(),
        );
        let mut steps: VecDeque<Step> = match (whole, &self.chunks, &self.chunks_b64) {
            (Some(bytes), None, None) if bytes.is_empty() => VecDeque::new(),
            (Some(bytes), None, None) => [Step::Data(bytes)].into(),
            (None, Some(chunks), None) => chunks.iter().map(|chunk| step(chunk)).collect(),
            (None, None, Some(chunks)) => chunks
                .iter()
                .map(|chunk| {
                    if chunk.starts_with('@') {
                        step(chunk)
                    } else {
                        data(&decoded(chunk))
                    }
                })
                .collect(),
            _ => panic!("the inner response has exactly one kind of body"),
        };
        if !self.trailers.is_empty() {
            steps.push_back(Step::Trailers(header_map(&self.trailers)));
        }
        let body = match steps.make_contiguous() {
            [] => Frames::sized(Bytes::new()),
            [Step::Data(bytes)] => Frames::sized(bytes.clone()),
            _ => Frames::unsized_of(steps),
        };
        let mut response = Response::builder()
            .status(self.status)
            .body(body)
            .expect("the case has a valid status");
        *response.headers_mut() = header_map(&self.headers);
        if let Some(content_type) = &self.content_type {
            append(
                response.headers_mut(),
                header::CONTENT_TYPE.as_str(),
                content_type.as_bytes(),
            );
        }
        response
    }
}

fn whole(text: Option<&str>, base64: Option<&str>, r#gen: Option<&BodyGen>) -> Option<Bytes> {
    match (text, base64, r#gen) {
        (None, None, None) => None,
        (Some(text), None, None) => Some(Bytes::copy_from_slice(text.as_bytes())),
        (None, Some(base64), None) => Some(decoded(base64).into()),
        (None, None, Some(r#gen)) => {
            let (open, close) = (
                r#gen.open.repeat(r#gen.depth),
                r#gen.close.repeat(r#gen.depth),
            );
            let parts = [&r#gen.prefix, &open, &r#gen.inner, &close, &r#gen.suffix];
            Some(parts.map(String::as_str).concat().into())
        }
        _ => panic!("a body is given in one way only"),
    }
}

fn step(chunk: &str) -> Step {
    match chunk {
        "@pending:500ms" => Step::Hold(Hold::UntilRead),
        "@pending:forever" => Step::Hold(Hold::Forever),
        other => {
            assert!(!other.starts_with('@'), "unknown step {other}");
            data(other.as_bytes())
        }
    }
}

fn data(bytes: &[u8]) -> Step {
    Step::Data(Bytes::copy_from_slice(bytes))
}

fn decoded(base64: &str) -> Vec<u8> {
    STANDARD.decode(base64).expect("the case has valid base64")
}

fn header_map(headers: &[(String, String)]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        append(&mut map, name, value.as_bytes());
    }
    map
}

fn append(map: &mut HeaderMap, name: &str, value: &[u8]) {
    map.append(
        HeaderName::from_bytes(name.as_bytes()).expect("the case has a valid header name"),
        HeaderValue::from_bytes(value).expect("the case has a valid header value"),
    );
}
