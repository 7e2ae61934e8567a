//! What the layers refuse, rule by rule: alone, one after the other, and as the one stack.

mod support;

use bytes::Bytes;
use http::{HeaderValue, Method, Request};
use mcp_layers::{
    EnvelopeLayer, Era, EraKind, EraResolverLayer, Eras, McpLayer, MirrorHeaderValidatorLayer,
    Quirk, Rejection, RejectionKind as Kind, ServerInfo, check::Checks,
};
use serde_json::{Value, json};
use support::{Answer, Chunks, META, Step, plain, send};
use tower::{Layer, ServiceBuilder};

const VERSION: (&str, &str) = ("mcp-protocol-version", "2026-07-28");
const LEGACY: (&str, &str) = ("mcp-protocol-version", "2025-11-25");
const JSON: (&str, &str) = ("content-type", "application/json");
const LIST: (&str, &str) = ("mcp-method", "tools/list");
const CALL: (&str, &str) = ("mcp-method", "tools/call");
const CAPABILITIES: &str = r#""io.modelcontextprotocol/clientCapabilities":{}"#;
const CLAIM: &str = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28""#;

/// Who gives the verdict.
#[derive(Clone, Copy, PartialEq)]
enum By {
    /// Every layer that reads messages.
    Resolver,
    /// Only one that compares mirrored headers.
    Validator,
}
use By::{Resolver, Validator};

struct Case {
    name: &'static str,
    by: By,
    headers: Vec<(&'static str, &'static [u8])>,
    body: String,
    expected: Option<(u16, Kind)>,
}

fn case(
    name: &'static str,
    by: By,
    headers: &[(&'static str, &'static str)],
    body: impl Into<String>,
    expected: impl Into<Option<(u16, Kind)>>,
) -> Case {
    Case {
        name,
        by,
        headers: headers
            .iter()
            .map(|(name, value)| (*name, value.as_bytes()))
            .collect(),
        body: body.into(),
        expected: expected.into(),
    }
}

fn with(mut case: Case, name: &'static str, value: &'static [u8]) -> Case {
    case.headers.push((name, value));
    case
}

fn list(params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{{{params}}}}}"#)
}

fn meta(members: &str) -> String {
    list(&format!(r#""_meta":{{{members}}}"#))
}

fn call(params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{{params},{META}}}}}"#)
}

fn initialize(params: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{{"protocolVersion":"2025-11-25"{params}}}}}"#
    )
}

impl Case {
    fn request(&self) -> Request<Chunks> {
        let mut request = Request::new(Chunks::one(self.body.clone()));
        *request.method_mut() = Method::POST;
        for (name, value) in &self.headers {
            let value = HeaderValue::from_bytes(value).unwrap();
            request.headers_mut().append(*name, value);
        }
        request
    }

    fn check(&self, who: &str, answer: &Answer, expected: Option<(u16, Kind)>) {
        let rejection = Rejection::get(&answer.head.extensions).map(Rejection::kind);
        let found = rejection.map(|kind| (answer.status().as_u16(), kind));
        assert_eq!(found, expected, "{} by {who}: {:?}", self.name, answer.body);
        let Some((_, kind)) = expected else {
            return;
        };
        let json = answer.json();
        assert_eq!(
            answer.head.headers["content-type"], "application/json",
            "{}",
            self.name
        );
        assert_eq!(json["jsonrpc"], "2.0", "{}", self.name);
        assert_eq!(json["error"]["code"], kind.code(), "{}", self.name);
        assert!(json["error"]["message"].is_string(), "{}", self.name);
        assert!(
            json.get("id").is_none_or(|id| !id.is_null()),
            "{}",
            self.name
        );
        assert!(!answer.body.contains(&b'\n'), "{}: one line", self.name);
    }
}

/// Sends each case through each layer alone, the row of layers, and the stack.
async fn check(cases: Vec<Case>) {
    for case in cases {
        let resolver = ServiceBuilder::new()
            .layer(EraResolverLayer::new())
            .service(plain());
        let by_resolver = case.expected.filter(|_| case.by == Resolver);
        case.check(
            "EraResolver",
            &send(resolver, case.request()).await,
            by_resolver,
        );

        let validator = ServiceBuilder::new()
            .layer(MirrorHeaderValidatorLayer::new())
            .service(plain());
        case.check(
            "MirrorHeaderValidator",
            &send(validator, case.request()).await,
            case.expected,
        );

        let row = ServiceBuilder::new()
            .layer(EraResolverLayer::new())
            .layer(MirrorHeaderValidatorLayer::new())
            .layer(EnvelopeLayer::new(ServerInfo::new("test", "1")))
            .service(plain());
        case.check("the row", &send(row, case.request()).await, case.expected);

        let mixed = ServiceBuilder::new()
            .layer(EnvelopeLayer::new(ServerInfo::new("test", "1")))
            .layer(MirrorHeaderValidatorLayer::new())
            .layer(EraResolverLayer::new())
            .service(plain());
        case.check(
            "the row in another order",
            &send(mixed, case.request()).await,
            case.expected,
        );

        let inner = plain();
        let seen = inner.seen();
        let stack = ServiceBuilder::new().layer(mcp()).service(inner);
        case.check(
            "McpLayer",
            &send(stack, case.request()).await,
            case.expected,
        );
        let reached = seen.lock().unwrap().len();
        assert_eq!(
            reached,
            usize::from(case.expected.is_none()),
            "{}",
            case.name
        );

        let headers = case.headers.iter().copied();
        let pure = Checks::new().check("POST", headers, case.body.clone());
        let found = pure.as_ref().err().map(|rejection| {
            let kind = rejection.kind();
            (kind.status().as_u16(), kind)
        });
        assert_eq!(found, case.expected, "{} by Checks", case.name);

        let envelope = ServiceBuilder::new()
            .layer(EnvelopeLayer::new(ServerInfo::new("test", "1")))
            .service(plain());
        case.check("Envelope", &send(envelope, case.request()).await, None);
    }
}

// rules B4, B5, B6
#[rustfmt::skip] // a table
#[tokio::test]
async fn a_modern_body_is_one_request_or_notification_in_json() {
    let modern = &[VERSION, JSON, LIST];
    let parse = (400, Kind::ParseError);
    let invalid = (400, Kind::InvalidRequest);
    let good = list(META);
    check(vec![
        case("a request", Resolver, modern, &good, None),
        case("empty", Resolver, modern, "", parse),
        case("blank", Resolver, modern, "  ", parse),
        case("cut short", Resolver, modern, &good[..good.len() - 1], parse),
        case("cut short, without a header", Resolver, &[JSON], &good[..good.len() - 1], parse),
        case("trailing data", Resolver, modern, format!("{good}x"), parse),
        case("two texts", Resolver, modern, format!("{good}{good}"), parse),
        case("a byte-order mark", Resolver, modern, format!("\u{feff}{good}"), parse),
        case("a byte-order mark before a claim", Resolver, &[JSON], format!("\u{feff}{good}"), parse),
        case("a comment", Resolver, modern, format!("/**/{good}"), parse),
        case("a batch", Resolver, modern, format!("[{good}]"), invalid),
        case("a string", Resolver, modern, "\"x\"", invalid),
        case("null", Resolver, modern, "null", invalid),
        case("a posted response", Resolver, modern, r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, invalid),
        case("no jsonrpc", Resolver, modern, good.replace(r#""jsonrpc":"2.0","#, ""), invalid),
        case("jsonrpc 1.0", Resolver, modern, good.replace("\"2.0\"", "\"1.0\""), invalid),
        case("jsonrpc as a number", Resolver, modern, good.replace("\"2.0\"", "2.0"), invalid),
        case("an escaped jsonrpc", Resolver, modern, good.replace("\"2.0\"", r#""2\u002e0""#), None),
        case("id null", Resolver, modern, good.replace("\"id\":1", "\"id\":null"), invalid),
        case("a fractional id", Resolver, modern, good.replace("\"id\":1", "\"id\":1.5"), invalid),
        case("a whole id with a point", Resolver, modern, good.replace("\"id\":1", "\"id\":1.0"), None),
        case("an id in powers of ten", Resolver, modern, good.replace("\"id\":1", "\"id\":15e-1"), invalid),
        case("a structured id", Resolver, modern, good.replace("\"id\":1", "\"id\":[1]"), invalid),
        case("a boolean id", Resolver, modern, good.replace("\"id\":1", "\"id\":true"), invalid),
        case("an id with a lone surrogate", Resolver, modern, good.replace("\"id\":1", r#""id":"\ud800""#), invalid),
        case("a method that is no string", Resolver, modern, good.replace("\"tools/list\"", "1"), invalid),
        case("a method with a lone surrogate", Resolver, modern, good.replace("tools/list", r"tools\ud800"), invalid),
        case("a request method without id", Resolver, modern, good.replace("\"id\":1,", ""), invalid),
        case("params that are an array", Resolver, modern, r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":[]}"#, invalid),
        case("params that are null", Resolver, modern, r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":null}"#, invalid),
        case("a claim with a lone surrogate", Resolver, modern, meta(&format!(r#""io.modelcontextprotocol/protocolVersion":"2026-07-28\ud800",{CAPABILITIES}"#)), invalid),
        case("plain text", Resolver, &[VERSION, LIST, ("content-type", "text/plain")], &good, (415, Kind::UnsupportedMediaType)),
        case("plain text, without a header", Resolver, &[("content-type", "text/plain")], &good, (415, Kind::UnsupportedMediaType)),
        case("no type", Resolver, &[VERSION, LIST], &good, (415, Kind::UnsupportedMediaType)),
        case("two types", Resolver, &[VERSION, LIST, JSON, JSON], &good, (415, Kind::UnsupportedMediaType)),
        case("a type with parameters", Resolver, &[VERSION, LIST, ("content-type", "APPLICATION/json ; charset=utf-8")], &good, None),
        case("a type that starts alike", Resolver, &[VERSION, LIST, ("content-type", "application/json-seq")], &good, (415, Kind::UnsupportedMediaType)),
        case("another charset", Resolver, &[VERSION, LIST, ("content-type", "application/json; charset=utf-7")], &good, (415, Kind::UnsupportedMediaType)),
        case("two charsets", Resolver, &[VERSION, LIST, ("content-type", "application/json;charset=utf-8; Charset = \"utf-16le\"")], &good, (415, Kind::UnsupportedMediaType)),
        case("another charset, without a header", Resolver, &[("content-type", "application/json; charset=latin1")], &good, (415, Kind::UnsupportedMediaType)),
        case("a quoted charset", Resolver, &[VERSION, LIST, ("content-type", "application/json; x=y; charset=\"UTF-8\"")], &good, None),
        case("a coding of the transfer", Resolver, &[VERSION, LIST, JSON, ("transfer-encoding", "gzip, chunked")], &good, (415, Kind::UnsupportedContentEncoding)),
        case("chunks", Resolver, &[VERSION, LIST, JSON, ("transfer-encoding", "chunked")], &good, None),
        case("a request state with a lone surrogate", Resolver, modern, list(&format!(r#""requestState":"\ud800",{META}"#)), invalid),
        case("a log level with a lone surrogate", Resolver, modern, list(&META.replace(r#""_meta":{"#, r#""_meta":{"io.modelcontextprotocol/logLevel":"\ud800","#)), invalid),
        case("gzip", Resolver, &[VERSION, LIST, JSON, ("content-encoding", "gzip")], &good, (415, Kind::UnsupportedContentEncoding)),
        case("identity and gzip", Resolver, &[VERSION, LIST, JSON, ("content-encoding", "identity, gzip")], &good, (415, Kind::UnsupportedContentEncoding)),
        case("identity", Resolver, &[VERSION, LIST, JSON, ("content-encoding", "Identity")], &good, None),
        case("any accept", Resolver, &[VERSION, LIST, JSON, ("accept", "text/html")], &good, None),
        case("a modern header on gRPC", Resolver, &[VERSION, LIST, ("content-type", "application/grpc")], &good, (415, Kind::UnsupportedMediaType)),
    ])
    .await;
}

// rule B3
#[rustfmt::skip] // a table
#[tokio::test]
async fn a_member_that_decides_may_not_occur_twice_in_either_era() {
    let twice = (400, Kind::RepeatedMember);
    for headers in [&[VERSION, JSON, CALL, ("mcp-name", "a")][..], &[LEGACY, JSON]] {
        let legacy = headers[0] == LEGACY;
        let meta = if legacy { r#""_meta":{}"# } else { META };
        let of = |members: &str| format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call",{members}}}"#);
        let params = |members: &str| of(&format!(r#""params":{{"name":"a","arguments":{{}},{meta}{members}}}"#));
        check(vec![
            case("once", Resolver, headers, params(""), None),
            case("jsonrpc", Resolver, headers, of(&format!(r#""jsonrpc":"2.0","params":{{"name":"a",{meta}}}"#)), twice),
            case("id", Resolver, headers, of(&format!(r#""id":2,"params":{{"name":"a",{meta}}}"#)), twice),
            case("method", Resolver, headers, of(&format!(r#""method":"x","params":{{"name":"a",{meta}}}"#)), twice),
            case("an escaped method", Resolver, headers, of(&format!(r#""m\u0065thod":"x","params":{{"name":"a",{meta}}}"#)), twice),
            case("params", Resolver, headers, of(&format!(r#""params":{{"name":"a",{meta}}},"params":{{}}"#)), twice),
            case("name", Resolver, headers, params(r#","name":"b""#), twice),
            case("an escaped name", Resolver, headers, params(r#","n\u0061me":"b""#), twice),
            case("uri", Resolver, headers, params(r#","uri":"b","uri":"c""#), twice),
            case("taskId", Resolver, headers, params(r#","taskId":"b","taskId":"c""#), twice),
            case("arguments", Resolver, headers, params(r#","arguments":{"rm":1}"#), twice),
            case("_meta", Resolver, headers, params(r#","_meta":{}"#), twice),
            case("inputResponses", Resolver, headers, params(r#","inputResponses":{},"inputResponses":{}"#), twice),
            case("requestState", Resolver, headers, params(r#","requestState":"","requestState":"""#), twice),
            case("the claim", Resolver, headers, of(&format!(r#""params":{{"name":"a","_meta":{{{CLAIM},{CLAIM},{CAPABILITIES}}}}}"#)), twice),
            case("the log level", Resolver, headers, of(r#""params":{"name":"a","_meta":{"io.modelcontextprotocol/logLevel":"a","io.modelcontextprotocol/logLevel":"b"}}"#), twice),
            case("another member", Resolver, headers, params(r#","other":1,"other":2"#), None),
            case("names that differ in case", Resolver, headers, params(r#","Name":"b""#), None),
            case("an argument", Resolver, headers, params("").replace(r#""arguments":{}"#, r#""arguments":{"a":1,"a":2}"#), None),
        ])
        .await;
    }
    check(vec![
        case("in a batch", Resolver, &[LEGACY, JSON], r#"[{"jsonrpc":"2.0","id":1,"method":"a","method":"b"}]"#, twice),
        case("in a posted response", Resolver, &[LEGACY, JSON], r#"{"jsonrpc":"2.0","id":1,"id":2,"result":{}}"#, twice),
    ])
    .await;
}

// rule E1
#[rustfmt::skip] // a table
#[tokio::test]
async fn the_claim_decides_and_the_header_is_a_cross_check() {
    let (unsupported, mismatch) = ((400, Kind::UnsupportedProtocolVersion), (400, Kind::HeaderMismatch));
    let incomplete = (400, Kind::IncompleteEnvelope);
    let claims = |version: &str| meta(&format!(r#""io.modelcontextprotocol/protocolVersion":{version},{CAPABILITIES}"#));
    let header = |value| ("mcp-protocol-version", value);
    let none = list("");
    let garbage = "not JSON";
    check(vec![
        case("nothing named", Resolver, &[JSON], &none, None),
        case("a legacy header", Resolver, &[JSON, LEGACY], &none, None),
        case("the first version with a header", Resolver, &[JSON, header("2025-06-18")], &none, None),
        case("a version before the header", Resolver, &[JSON, header("2025-03-26")], &none, None),
        case("the first version", Resolver, &[JSON, header("2024-11-05")], &none, None),
        case("a modern header without a claim", Resolver, &[JSON, VERSION, LIST], &none, incomplete),
        case("an unknown header", Resolver, &[JSON, header("2027-03-01")], &none, unsupported),
        case("an empty header", Resolver, &[JSON, header("")], &none, unsupported),
        case("an unknown header on garbage", Resolver, &[JSON, header("x")], garbage, unsupported),
        case("an unknown header on a batch", Resolver, &[JSON, header("x")], "[]", unsupported),
        case("an unknown header on a posted response", Resolver, &[JSON, header("x")], r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, unsupported),
        case("a case difference", Resolver, &[JSON, header("2025-11-25X")], &none, unsupported),
        case("claim and header agree", Resolver, &[JSON, VERSION, LIST], claims("\"2026-07-28\""), None),
        case("an escaped claim", Resolver, &[JSON, VERSION, LIST], claims(r#""2026-07\u002d28""#), None),
        case("a claim without a header", Validator, &[JSON, LIST], claims("\"2026-07-28\""), (400, Kind::MissingHeader)),
        case("a modern claim, a legacy header", Resolver, &[JSON, LEGACY, LIST], claims("\"2026-07-28\""), mismatch),
        case("a modern claim, an unknown header", Resolver, &[JSON, header("v999"), LIST], claims("\"2026-07-28\""), mismatch),
        case("a modern claim, an empty header", Resolver, &[JSON, header(""), LIST], claims("\"2026-07-28\""), mismatch),
        case("a legacy claim", Resolver, &[JSON], claims("\"2025-11-25\""), None),
        case("a legacy claim and header", Resolver, &[JSON, LEGACY], claims("\"2025-11-25\""), None),
        case("a legacy claim, another legacy header", Resolver, &[JSON, LEGACY], claims("\"2025-06-18\""), mismatch),
        case("a legacy claim, a modern header", Resolver, &[JSON, VERSION, LIST], claims("\"2025-11-25\""), mismatch),
        case("a claim that is a number", Resolver, &[JSON, VERSION, LIST], claims("20260728"), incomplete),
        case("a claim that is null, no header", Resolver, &[JSON], claims("null"), incomplete),
        case("a claim that is an object, a legacy header", Resolver, &[JSON, LEGACY], claims("{}"), incomplete),
        case("an unknown claim", Resolver, &[JSON], claims("\"2027-03-01\""), unsupported),
        case("an unknown claim and header", Resolver, &[JSON, header("2027-03-01")], claims("\"2027-03-01\""), unsupported),
        case("an unknown claim, another unknown header", Resolver, &[JSON, header("2027-03-02")], claims("\"2027-03-01\""), mismatch),
        case("an empty claim", Resolver, &[JSON], claims("\"\""), unsupported),
        case("mirrored headers do not make a request modern", Resolver, &[JSON, CALL], &none, None),
        case("other reserved keys do not make a request modern", Resolver, &[JSON, LEGACY], meta(CAPABILITIES), None),
        case("a claim outside of `_meta` is none", Resolver, &[JSON], list(CLAIM), None),
        case("an array in place of `_meta` is none", Resolver, &[JSON], list(r#""_meta":["io.modelcontextprotocol/protocolVersion"]"#), None),
        with(case("other bytes in the header", Resolver, &[JSON], &none, (400, Kind::MalformedHeader)), "mcp-protocol-version", b"2025-11-25\xff"),
        case("a claim that is a number, different headers", Resolver, &[JSON, header("2026-07-28, 2025-11-25")], claims("5"), (400, Kind::RepeatedHeader)),
        with(case("a claim that is a number, other bytes", Resolver, &[JSON], claims("5"), (400, Kind::MalformedHeader)), "mcp-protocol-version", b"\xff"),
        with(case("other bytes on garbage", Resolver, &[JSON], garbage, (400, Kind::MalformedHeader)), "mcp-protocol-version", b"\xff"),
        case("a blank inside", Resolver, &[JSON, header("2025-11-25 x")], &none, (400, Kind::MalformedHeader)),
        case("blanks around", Resolver, &[JSON, header(" 2026-07-28\t"), LIST], claims("\"2026-07-28\""), None),
    ])
    .await;
}

// rule B5
#[rustfmt::skip] // a table
#[tokio::test]
async fn what_is_neither_modern_nor_ambiguous_passes() {
    let bodies = [
        "", "   ", "not JSON", "[]", "\"x\"", "null", "{}", r#"{"id":null,"method":"tools/list"}"#,
        r#"{"jsonrpc":"1.0","id":1.5,"method":"x","params":[1]}"#, r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#,
        r#"{"jsonrpc":"2.0","id":7,"result":{}}"#, r#"{"jsonrpc":"2.0","method":"tools/call"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"a","method":"#, r#"{"method":"\ud800"}"#,
        r#"[{"params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2025-11-25"}}}]"#, r#"[1,[],"x"]"#,
    ];
    for headers in [&[JSON][..], &[LEGACY], &[("content-type", "text/plain"), ("content-encoding", "gzip")]] {
        check(bodies.iter().map(|body| case("legacy", Resolver, headers, *body, None)).collect()).await;
    }
}

// rule B5
#[rustfmt::skip] // a table
#[tokio::test]
async fn an_array_that_hides_another_era_is_refused() {
    let invalid = (400, Kind::InvalidRequest);
    let modern = list(META);
    let element = |claim: &str| {
        format!(r#"[{{"id":1,"method":"x","params":{{"_meta":{{"io.modelcontextprotocol/protocolVersion":{claim}}}}}}}]"#)
    };
    check(vec![
        case("last", Resolver, &[JSON], format!(r#"[{{"method":"ping"}},{modern}]"#), invalid),
        case("first, with a legacy header", Resolver, &[JSON, LEGACY], format!("[{modern},1]"), invalid),
        case("an escaped key", Resolver, &[JSON], format!("[{}]", modern.replace("params", r"p\u0061rams")), invalid),
        case("an unknown version", Resolver, &[JSON], element("\"2027-01-01\""), invalid),
        case("no string", Resolver, &[JSON], element("1"), invalid),
        case("a legacy version", Resolver, &[JSON], element("\"2025-06-18\""), None),
    ])
    .await;
}

// rules B4, B5
#[rustfmt::skip] // a table
#[tokio::test]
async fn a_claim_in_a_text_that_only_lenient_readers_take_for_json_is_seen() {
    let parse = (400, Kind::ParseError);
    let modern = list(META);
    let spread = modern.chars().flat_map(|it| [it, '\0']).collect::<String>();
    let overlapping = modern.replace("protocolVersion", "protocolVersio.modelcontextprotocol/protocolVersion");
    check(vec![
        case("NaN in front", Resolver, &[JSON], modern.replace("\"id\":1", "\"x\":NaN,\"id\":1"), parse),
        case("a comment in front", Resolver, &[JSON], format!("// x\n{modern}"), parse),
        case("a trailing comma in front", Resolver, &[JSON], modern.replace("\"id\":1", "\"x\":[1,],\"id\":1"), parse),
        case("a mark before an array", Resolver, &[JSON], format!("\u{feff}[{modern}]"), parse),
        case("an array with more behind it", Resolver, &[JSON], format!("[{modern}]x"), parse),
        case("an escaped key in a broken array", Resolver, &[JSON], format!("[{}]x", modern.replace("protocolVersion", r"protocol\u0056ersion")), parse),
        case("sixteen bits a character", Resolver, &[JSON], spread, parse),
        case("an overlapping key", Resolver, &[JSON], format!("x{overlapping}"), parse),
        case("no claim", Resolver, &[JSON], "{\"params\":{\"x\":NaN,\"protocolVersion\":\"2026-07-28\"}}", None),
    ])
    .await;
}

// rule E2
#[rustfmt::skip] // a table
#[tokio::test]
async fn initialize_is_the_handshake_unless_its_envelope_is_complete() {
    let header = |value| ("mcp-protocol-version", value);
    let claim = format!(r#","_meta":{{{CLAIM}}}"#);
    let full = format!(",{META}");
    let mismatch = (400, Kind::HeaderMismatch);
    let removed = (404, Kind::RemovedMethod);
    check(vec![
        case("plain", Resolver, &[JSON], initialize(""), None),
        case("a legacy header", Resolver, &[JSON, LEGACY], initialize(""), None),
        case("an unknown header", Resolver, &[JSON, header("2027-03-01")], initialize(""), None),
        case("different headers", Resolver, &[JSON, header("2025-11-25, 2025-06-18")], initialize(""), None),
        case("a claim alone", Resolver, &[JSON], initialize(&claim), None),
        case("a claim alone and a legacy header", Resolver, &[JSON, LEGACY], initialize(&claim), None),
        case("a claim that is no string", Resolver, &[JSON], initialize(r#","_meta":{"io.modelcontextprotocol/protocolVersion":1}"#), None),
        case("a modern header", Resolver, &[JSON, VERSION], initialize(""), mismatch),
        case("a modern header among others", Resolver, &[JSON, header("2025-11-25, 2026-07-28")], initialize(""), mismatch),
        case("a modern header and a claim alone", Resolver, &[JSON, VERSION], initialize(&claim), mismatch),
        case("a complete envelope", Resolver, &[JSON, VERSION], initialize(&full), removed),
        case("a complete envelope without a header", Resolver, &[JSON], initialize(&full), removed),
        case("a complete envelope, another header", Resolver, &[JSON, LEGACY], initialize(&full), mismatch),
        with(case("other bytes in the header", Resolver, &[JSON], initialize(""), (400, Kind::MalformedHeader)), "mcp-protocol-version", b"\xff"),
    ])
    .await;
}

// rule E3
#[rustfmt::skip] // a table
#[tokio::test]
async fn the_envelope_of_a_modern_request_is_complete() {
    let headers = &[JSON, VERSION, LIST];
    let incomplete = (400, Kind::IncompleteEnvelope);
    let info = |info: &str| meta(&format!(r#"{CLAIM},{CAPABILITIES},"io.modelcontextprotocol/clientInfo":{info}"#));
    let notification = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
    check(vec![
        case("no clientInfo", Resolver, headers, meta(&format!("{CLAIM},{CAPABILITIES}")), None),
        case("no capabilities", Resolver, headers, meta(CLAIM), incomplete),
        case("capabilities null", Resolver, headers, meta(&format!(r#"{CLAIM},"io.modelcontextprotocol/clientCapabilities":null"#)), incomplete),
        case("capabilities an array", Resolver, headers, meta(&format!(r#"{CLAIM},"io.modelcontextprotocol/clientCapabilities":[]"#)), incomplete),
        case("clientInfo", Resolver, headers, info(r#"{"name":"a","version":"1","x":[]}"#), None),
        case("clientInfo null", Resolver, headers, info("null"), incomplete),
        case("clientInfo without a version", Resolver, headers, info(r#"{"name":"a"}"#), incomplete),
        case("a name that is a number", Resolver, headers, info(r#"{"name":1,"version":"1"}"#), incomplete),
        case("a name twice", Resolver, headers, info(r#"{"name":"a","name":"b","version":"1"}"#), incomplete),
        case("clientInfo an array", Resolver, headers, info(r#"["a","1"]"#), incomplete),
        case("no params", Resolver, headers, r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#, incomplete),
        case("_meta an array", Resolver, headers, list(r#""_meta":[]"#), incomplete),
        case("a notification needs none", Resolver, &[JSON, VERSION], notification, None),
        case("a notification with a claim alone", Resolver, &[JSON, VERSION], notification.replace(r#""requestId":1"#, &format!(r#""_meta":{{{CLAIM}}}"#)), None),
        case("a notification with a broken claim", Resolver, &[JSON, VERSION], notification.replace(r#""requestId":1"#, r#""_meta":{"io.modelcontextprotocol/protocolVersion":1}"#), incomplete),
    ])
    .await;
}

// rule E4
#[rustfmt::skip] // a table
#[tokio::test]
async fn methods_that_the_revision_removed_are_not_found() {
    for method in ["initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"] {
        let body = support::modern_body(method, "");
        check(vec![
            case("modern", Resolver, &[JSON, VERSION, ("mcp-method", method)], &body, (404, Kind::RemovedMethod)),
            case("legacy", Resolver, &[JSON, LEGACY], format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}"}}"#), None),
        ])
        .await;
    }
}

// rule E6
#[rustfmt::skip] // a table
#[tokio::test]
async fn version_headers_that_repeat_one_value_count_once() {
    let header = |value| ("mcp-protocol-version", value);
    let contradictory = (400, Kind::RepeatedHeader);
    let good = list(META);
    check(vec![
        case("two lines", Resolver, &[JSON, VERSION, VERSION, LIST], &good, None),
        case("one line", Resolver, &[JSON, header("2026-07-28,2026-07-28 ,\t2026-07-28"), LIST], &good, None),
        case("different lines", Resolver, &[JSON, VERSION, LEGACY, LIST], &good, contradictory),
        case("different members", Resolver, &[JSON, header("2025-11-25, 2026-07-28"), LIST], &good, contradictory),
        case("an empty member", Resolver, &[JSON, header("2026-07-28,"), LIST], &good, contradictory),
        case("different legacy lines", Resolver, &[JSON, LEGACY, header("2025-06-18")], list(""), contradictory),
        case("two legacy lines", Resolver, &[JSON, LEGACY, LEGACY], list(""), None),
    ])
    .await;
}

// rules M2, M4, M5
#[rustfmt::skip] // a table
#[tokio::test]
async fn mirrored_headers_equal_the_body() {
    let name = |value| ("mcp-name", value);
    let missing = (400, Kind::MissingHeader);
    let mismatch = (400, Kind::HeaderMismatch);
    let malformed = (400, Kind::MalformedHeader);
    let repeated = (400, Kind::RepeatedHeader);
    let call_headers = |value| [JSON, VERSION, CALL, name(value)];
    let a = call(r#""name":"a""#);
    let read = |uri: &str| format!(r#"{{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{{"uri":"{uri}",{META}}}}}"#);
    let read_headers = |value| [JSON, VERSION, ("mcp-method", "resources/read"), name(value)];
    check(vec![
        case("equal", Validator, &call_headers("a"), &a, None),
        case("no method", Validator, &[JSON, VERSION, name("a")], &a, missing),
        case("another method", Validator, &[JSON, VERSION, LIST, name("a")], &a, mismatch),
        case("a method in capitals", Validator, &[JSON, VERSION, ("mcp-method", "TOOLS/CALL"), name("a")], &a, mismatch),
        case("a wrapped method is none", Validator, &[JSON, VERSION, ("mcp-method", "=?base64?dG9vbHMvY2FsbA==?="), name("a")], &a, mismatch),
        case("two methods", Validator, &[JSON, VERSION, CALL, CALL, name("a")], &a, repeated),
        case("two methods in a line", Validator, &[JSON, VERSION, ("mcp-method", "tools/call, tools/call"), name("a")], &a, mismatch),
        case("an empty method", Validator, &[JSON, VERSION, ("mcp-method", ""), name("a")], &a, mismatch),
        case("an escaped method in the body", Validator, &call_headers("a"), a.replace("tools/call", r"tools\/call"), None),
        with(case("other bytes in the method", Validator, &[JSON, VERSION, name("a")], &a, malformed), "mcp-method", b"tools/call\xe9"),
        case("no name", Validator, &[JSON, VERSION, CALL], &a, missing),
        case("another name", Validator, &call_headers("b"), &a, mismatch),
        case("a name in capitals", Validator, &call_headers("A"), &a, mismatch),
        case("two names", Validator, &[JSON, VERSION, CALL, name("a"), name("a")], &a, repeated),
        case("blanks around", Validator, &[JSON, VERSION, ("mcp-method", " tools/call\t"), name("\ta ")], &a, None),
        case("blanks in the body", Validator, &call_headers(" a "), call(r#""name":" a ""#), mismatch),
        case("wrapped blanks", Validator, &call_headers("=?base64?IGEg?="), call(r#""name":" a ""#), None),
        case("wrapped without need", Validator, &call_headers("=?base64?YQ==?="), &a, None),
        case("a body that looks wrapped", Validator, &call_headers("=?base64?YQ==?="), call(r#""name":"=?base64?YQ==?=""#), mismatch),
        case("a body that looks wrapped, wrapped", Validator, &call_headers("=?base64?PT9iYXNlNjQ/WVE9PT89?="), call(r#""name":"=?base64?YQ==?=""#), None),
        case("no padding", Validator, &call_headers("=?base64?YQ?="), &a, malformed),
        case("not UTF-8", Validator, &call_headers("=?base64?//4=?="), call("\"name\":\"\u{fffd}\u{fffd}\""), malformed),
        case("too short to be wrapped", Validator, &call_headers("=?base64?="), call(r#""name":"=?base64?=""#), None),
        case("an empty name", Validator, &call_headers(""), call(r#""name":"""#), None),
        case("an escaped name", Validator, &call_headers("a"), call(r#""name":"\u0061""#), None),
        case("a name with a lone surrogate", Validator, &call_headers("a"), call(r#""name":"a\ud800""#), mismatch),
        case("a name beyond ASCII", Validator, &call_headers("=?base64?w6k=?="), call(r#""name":"é""#), None),
        with(case("a name beyond ASCII, unwrapped", Validator, &[JSON, VERSION, CALL], call(r#""name":"é""#), malformed), "mcp-name", "é".as_bytes()),
        case("a name that is a number", Validator, &call_headers("42"), call(r#""name":42"#), mismatch),
        case("a header without a name", Validator, &call_headers("a"), call(r#""x":1"#), mismatch),
        case("neither name nor header", Validator, &[JSON, VERSION, CALL], call(r#""x":1"#), missing),
        case("a uri", Validator, &read_headers("file:///a,b"), read("file:///a,b"), None),
        case("the name is not the uri", Validator, &read_headers("a"), read("b").replace("\"uri\"", "\"name\":\"a\",\"uri\""), mismatch),
        case("a prompt", Validator, &[JSON, VERSION, ("mcp-method", "prompts/get"), name("b")], a.replace("tools/call", "prompts/get"), mismatch),
        case("a task", Validator, &[JSON, VERSION, ("mcp-method", "tasks/get"), name("t")], a.replace("tools/call", "tasks/get").replace(r#""name":"a""#, r#""taskId":"t""#), None),
        case("another task", Validator, &[JSON, VERSION, ("mcp-method", "tasks/cancel"), name("t")], a.replace("tools/call", "tasks/cancel").replace(r#""name":"a""#, r#""taskId":"u""#), mismatch),
        case("a name where none is mirrored", Validator, &[JSON, VERSION, LIST, name("x"), name("y")], list(META), None),
        case("anything on legacy traffic", Validator, &[JSON, LEGACY, CALL, CALL, name("x")], list(""), None),
    ])
    .await;
}

// rule M3
#[rustfmt::skip] // a table
#[tokio::test]
async fn a_notification_needs_no_mirrored_header_but_may_not_contradict_one() {
    let body = r#"{"jsonrpc":"2.0","method":"notifications/x","params":{"name":"a"}}"#;
    let claimed = format!(r#"{{"jsonrpc":"2.0","method":"notifications/x","params":{{"_meta":{{{CLAIM}}}}}}}"#);
    let method = |value| ("mcp-method", value);
    check(vec![
        case("none", Validator, &[JSON, VERSION], body, None),
        case("none but a claim", Validator, &[JSON], &claimed, None),
        case("equal", Validator, &[JSON, VERSION, method("notifications/x")], body, None),
        case("another", Validator, &[JSON, VERSION, method("tools/call")], body, (400, Kind::HeaderMismatch)),
        case("two", Validator, &[JSON, VERSION, method("notifications/x"), method("notifications/x")], body, (400, Kind::RepeatedHeader)),
        case("another version", Resolver, &[JSON, LEGACY], &claimed, (400, Kind::HeaderMismatch)),
        case("a name is ignored", Validator, &[JSON, VERSION, ("mcp-name", "b")], body, None),
    ])
    .await;
}

async fn refuse(request: Request<Chunks>) -> (Value, Answer) {
    let answer = send(mcp().layer(plain()), request).await;
    (answer.json(), answer)
}

fn refused(headers: &[(&'static str, &'static str)], body: impl Into<String>) -> Request<Chunks> {
    case("", Resolver, headers, body, None).request()
}

// rule E5
#[tokio::test]
async fn an_unsupported_version_is_answered_with_the_list_of_those_served() {
    let all = json!([
        "2026-07-28",
        "2025-11-25",
        "2025-06-18",
        "2025-03-26",
        "2024-11-05"
    ]);
    let header = |value| ("mcp-protocol-version", value);
    let (json, _) = refuse(refused(&[JSON, header("1900-01-01")], list(""))).await;
    assert_eq!(
        json["error"]["data"],
        json!({ "supported": all, "requested": "1900-01-01" })
    );
    let claim = meta(r#""io.modelcontextprotocol/protocolVersion":"2099-\u0030""#);
    let (json, _) = refuse(refused(&[JSON], claim)).await;
    assert_eq!(
        json["error"]["data"],
        json!({ "supported": all, "requested": "2099-0" })
    );
    let long = "é".repeat(1000);
    let claim = meta(&format!(
        r#""io.modelcontextprotocol/protocolVersion":"{long}""#
    ));
    let (json, _) = refuse(refused(&[JSON], claim)).await;
    assert_eq!(json["error"]["data"]["requested"], "é".repeat(50));
}

// rule E3
#[tokio::test]
async fn an_incomplete_envelope_is_answered_with_the_keys_at_fault() {
    let key = |name: &str| format!("io.modelcontextprotocol/{name}");
    let (json, _) = refuse(refused(&[JSON, VERSION, LIST], list(""))).await;
    let expected =
        json!({ "missing": [key("protocolVersion"), key("clientCapabilities")], "invalid": [] });
    assert_eq!(json["error"]["data"], expected);
    let body = meta(
        r#""io.modelcontextprotocol/protocolVersion":1,"io.modelcontextprotocol/clientInfo":1"#,
    );
    let (json, _) = refuse(refused(&[JSON], body)).await;
    let expected = json!({ "missing": [key("clientCapabilities")], "invalid": [key("protocolVersion"), key("clientInfo")] });
    assert_eq!(json["error"]["data"], expected);
}

// rule M1
#[tokio::test]
async fn a_mirrored_header_that_is_refused_is_named_with_the_reason() {
    for (headers, header, reason) in [
        (&[JSON, LIST][..], "MCP-Protocol-Version", "missing"),
        (&[JSON, LEGACY, LIST], "MCP-Protocol-Version", "mismatch"),
        (
            &[JSON, VERSION, LEGACY, LIST],
            "MCP-Protocol-Version",
            "repeated",
        ),
        (&[JSON, VERSION], "Mcp-Method", "missing"),
        (&[JSON, VERSION, CALL], "Mcp-Method", "mismatch"),
        (&[JSON, VERSION, LIST, LIST], "Mcp-Method", "repeated"),
    ] {
        let (json, _) = refuse(refused(headers, list(META))).await;
        assert_eq!(
            json["error"]["data"],
            json!({ "header": header, "reason": reason })
        );
    }
}

#[tokio::test]
async fn a_refusal_echoes_the_id_byte_for_byte_or_has_none() {
    let good = list("");
    for (id, echoed) in [
        ("0", true),
        ("-7", true),
        ("9007199254740993", true),
        ("1.0", true),
        ("10e-1", true),
        (r#""a\u0062\"c""#, true),
        ("\"é\"", true),
        ("\"\"", true),
        ("null", false),
        ("1.5", false),
        ("[1]", false),
        (r#""\ud800""#, false),
        ("1,\"id\":2", false),
        ("1,\"method\":\"x\",\"id\":2", false),
    ] {
        let body = good.replace("\"id\":1", &format!("\"id\":{id}"));
        let (_, answer) = refuse(refused(&[JSON, VERSION, LIST], body)).await;
        let text = std::str::from_utf8(&answer.body).unwrap();
        if echoed {
            assert!(text.contains(&format!("\"id\":{id},")), "{id}: {text}");
        } else {
            assert!(!text.contains("\"id\""), "{id}: {text}");
        }
    }
    let (_, answer) = refuse(refused(&[JSON, VERSION, LIST], &good[..good.len() - 1])).await;
    assert!(!answer.body.windows(4).any(|window| window == b"\"id\""));
}

// rule E7
#[tokio::test]
async fn other_methods_than_post_and_options_are_not_allowed() {
    for method in ["GET", "DELETE", "PUT", "HEAD", "PATCH", "PROPFIND"] {
        for headers in [&[][..], &[LEGACY], &[VERSION]] {
            let mut request = refused(headers, "");
            *request.method_mut() = method.parse().unwrap();
            request
                .headers_mut()
                .insert("host", "127.0.0.1".parse().unwrap());
            let answer = send(mcp().layer(plain()), request).await;
            assert_eq!(answer.status(), 405, "{method}");
            assert_eq!(answer.head.headers["allow"], "POST", "{method}");
            assert_eq!(answer.body.is_empty(), method == "HEAD", "{method}");
        }
    }
    let mut request = refused(&[], "");
    *request.method_mut() = Method::OPTIONS;
    let layer = mcp();
    assert_eq!(send(layer.layer(plain()), request).await.status(), 200);
}

// rule E7
#[tokio::test]
async fn legacy_streams_pass_unless_a_modern_or_unknown_version_is_named() {
    for (headers, status) in [
        (&[][..], 200),
        (&[LEGACY], 200),
        (&[VERSION], 405),
        (&[("mcp-protocol-version", "x")], 400),
        (&[("mcp-protocol-version", "")], 400),
    ] {
        for method in ["GET", "DELETE", "HEAD"] {
            let mut request = refused(headers, "");
            *request.method_mut() = method.parse().unwrap();
            request
                .headers_mut()
                .insert("host", "127.0.0.1".parse().unwrap());
            let layer = mcp().legacy_streams(true);
            let answer = send(layer.layer(plain()), request).await;
            assert_eq!(answer.status(), status, "{method} {headers:?}");
        }
    }
    // An outer layer's switch holds for the layers behind it.
    let row = ServiceBuilder::new()
        .layer(EraResolverLayer::new().legacy_streams(true))
        .layer(MirrorHeaderValidatorLayer::new())
        .layer(EnvelopeLayer::new(ServerInfo::new("test", "1")))
        .service(plain());
    let mut request = refused(&[LEGACY], "");
    *request.method_mut() = Method::GET;
    let answer = send(row, request).await;
    assert_eq!(answer.status(), 200);
    let era = Era::get(&answer.head.extensions).unwrap();
    assert_eq!(
        (era.kind(), era.version()),
        (EraKind::Legacy, Some("2025-11-25"))
    );
}

// rule B1
#[tokio::test]
async fn a_body_beyond_the_limit_is_refused_whatever_its_framing() {
    let body = list(META);
    for (limit, status) in [(body.len() - 1, 413), (body.len(), 200)] {
        let chunked = |size| {
            let mut request = refused(&[JSON, VERSION, LIST], "");
            *request.body_mut() = Chunks::cut(&body, size);
            request
        };
        let mut announced = refused(&[JSON, VERSION, LIST], "");
        let length = HeaderValue::from(body.len());
        announced.headers_mut().insert("content-length", length);
        *announced.body_mut() = Chunks::cut(&body, 10);
        for request in [
            refused(&[JSON, VERSION, LIST], body.clone()),
            chunked(1),
            chunked(7),
            chunked(1000),
            announced,
        ] {
            let layer = mcp().body_limit(limit);
            let inner = plain();
            let seen = inner.seen();
            let answer = send(layer.layer(inner), request).await;
            assert_eq!(answer.status(), status);
            if status == 413 {
                let rejection = Rejection::get(&answer.head.extensions).unwrap();
                assert_eq!(rejection.kind(), Kind::BodyTooLarge);
            } else {
                assert_eq!(seen.lock().unwrap()[0].body, body);
            }
        }
    }
}

// rule B1
#[tokio::test]
async fn a_length_beyond_the_limit_is_refused_before_the_body_is_read() {
    let mut request = refused(&[JSON], "");
    request
        .headers_mut()
        .insert("content-length", "4194305".parse().unwrap());
    *request.body_mut() = Chunks::of([Step::Pending]);
    let (_, answer) = refuse(request).await;
    assert_eq!(answer.status(), 413);
}

// rule B1
#[tokio::test]
async fn legacy_bodies_have_a_limit_of_their_own() {
    let layer = || {
        EraResolverLayer::new()
            .body_limit(400)
            .legacy_body_limit(800)
    };
    let padded = |meta: &str, length| {
        let body = list(meta);
        format!("{body}{}", " ".repeat(length - body.len()))
    };
    for (headers, body, status) in [
        (&[JSON, VERSION][..], padded(META, 401), 413),
        (&[JSON, VERSION], padded(META, 400), 200),
        (&[JSON], padded(META, 401), 413),
        (&[JSON], padded("", 800), 200),
        (&[JSON], padded("", 801), 413),
    ] {
        let service = ServiceBuilder::new().layer(layer()).service(plain());
        let answer = send(service, refused(headers, body)).await;
        assert_eq!(answer.status(), status, "{headers:?}");
    }
}

// rule B1
#[tokio::test]
async fn a_body_that_breaks_off_is_refused() {
    let mut request = refused(&[JSON], "");
    *request.body_mut() = Chunks::of([Step::Data(Bytes::from_static(b"{")), Step::Fail]);
    let (json, answer) = refuse(request).await;
    assert_eq!(answer.status(), 400);
    assert_eq!(json["error"]["code"], -32600);
}

// rules B1, E1
#[tokio::test]
async fn grpc_with_a_version_header_is_judged_like_any_other_body() {
    for (version, status) in [
        ("2026-07-28", 415),
        ("1999-01-01", 400),
        ("2025-11-25", 200),
    ] {
        let grpc = ("content-type", "application/grpc");
        let answer = send(
            mcp().layer(plain()),
            refused(&[grpc, ("mcp-protocol-version", version)], list("")),
        )
        .await;
        assert_eq!(answer.status(), status, "{version}");
        assert!(
            Era::get(&answer.head.extensions).is_some() || status != 200,
            "it was read"
        );
    }
}

// rule B1
#[tokio::test]
async fn grpc_passes_unread_and_with_its_trailers() {
    for (kind, read) in [
        ("application/grpc", false),
        ("application/grpc+proto", false),
        ("Application/gRPC-web", false),
        ("application/grpcx", true),
    ] {
        let mut request = refused(&[], "");
        request
            .headers_mut()
            .insert("content-type", kind.parse().unwrap());
        let mut trailers = http::HeaderMap::new();
        trailers.insert("grpc-status", "0".parse().unwrap());
        let long = Bytes::from(vec![0; 5 << 20]);
        *request.body_mut() = Chunks::of([Step::Data(long), Step::Trailers(trailers)]);
        let inner = plain();
        let seen = inner.seen();
        let answer = send(mcp().layer(inner), request).await;
        assert_eq!(answer.status(), if read { 413 } else { 200 }, "{kind}");
        if !read {
            let seen = &seen.lock().unwrap()[0];
            assert_eq!(seen.body.len(), 5 << 20);
            assert_eq!(seen.trailers.as_ref().unwrap()["grpc-status"], "0");
        }
    }
}

// rule E10
#[rustfmt::skip] // a table
#[tokio::test]
async fn eras_can_be_switched_off() {
    let all = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
    let header = |value| ("mcp-protocol-version", value);
    let data = |requested: &str, modern| {
        let supported = if modern { json!(["2026-07-28"]) } else { json!(all) };
        json!({ "supported": supported, "requested": requested })
    };
    let missing = json!({ "header": "MCP-Protocol-Version", "reason": "missing", "supported": ["2026-07-28"] });
    let (only_modern, only_legacy) = (Eras::ModernOnly, Eras::LegacyOnly);
    for (eras, headers, body, expected) in [
        (only_modern, &[JSON, VERSION, LIST][..], list(META), None),
        (only_modern, &[JSON], initialize(""), Some((-32022, data("2025-11-25", true)))),
        (only_modern, &[JSON, header("2024-11-05")], initialize(""), Some((-32022, data("2025-11-25", true)))),
        (only_modern, &[JSON], initialize("").replace("2025-11-25", "2026-07-28"), Some((-32020, missing.clone()))),
        (only_modern, &[JSON], initialize("").replace(r#""protocolVersion":"2025-11-25""#, ""), Some((-32020, missing.clone()))),
        (only_modern, &[JSON, LEGACY], initialize("").replace("2025-11-25", "2026-07-28"), Some((-32022, data("2025-11-25", true)))),
        (only_modern, &[JSON, LEGACY], list(""), Some((-32022, data("2025-11-25", true)))),
        (only_modern, &[JSON], meta(r#""io.modelcontextprotocol/protocolVersion":"2025-06-18""#), Some((-32022, data("2025-06-18", true)))),
        (only_modern, &[JSON], list(""), Some((-32020, missing))),
        (only_modern, &[JSON], "garbage".into(), Some((-32700, Value::Null))),
        (only_modern, &[JSON], "[]".into(), Some((-32600, Value::Null))),
        (only_modern, &[JSON], r#"{"jsonrpc":"2.0","id":1,"result":{}}"#.into(), Some((-32600, Value::Null))),
        (only_legacy, &[JSON, LEGACY], list(""), None),
        (only_legacy, &[JSON], initialize(""), None),
        (only_legacy, &[JSON, VERSION, LIST], list(META), Some((-32022, data("2026-07-28", false)))),
        (only_legacy, &[JSON, LIST], list(META), Some((-32022, data("2026-07-28", false)))),
        (only_legacy, &[JSON, VERSION, LIST], list(""), Some((-32022, data("2026-07-28", false)))),
        (only_legacy, &[JSON], format!("[{}]", list(META)), Some((-32600, Value::Null))),
    ] {
        let layer = mcp().eras(eras);
        let answer = send(layer.layer(plain()), refused(headers, body.clone())).await;
        let found = Rejection::get(&answer.head.extensions).map(|_| {
            let json = answer.json();
            let code = json["error"]["code"].as_i64().unwrap();
            (code, json["error"].get("data").cloned().unwrap_or_default())
        });
        assert_eq!(found, expected, "{eras:?} {headers:?} {body}");
    }
    let mut request = refused(&[LEGACY], "");
    *request.method_mut() = Method::GET;
    request.headers_mut().insert("host", "127.0.0.1".parse().unwrap());
    let layer = mcp().eras(only_modern).legacy_streams(true);
    assert_eq!(send(layer.layer(plain()), request).await.status(), 405);
}

// rule E11
#[rustfmt::skip] // a table
#[tokio::test]
async fn a_legacy_header_on_a_modern_claim_is_tolerated_on_demand_and_nothing_more() {
    let served = [JSON, LEGACY, LIST];
    let unknown = [JSON, ("mcp-protocol-version", "v999"), LIST];
    let no_method = [JSON, LEGACY];
    let mismatch = Some(Kind::HeaderMismatch);
    for (tolerated, headers, body, expected) in [
        (false, &served[..], list(META), mismatch),
        (true, &served, list(META), None),
        (true, &unknown, list(META), mismatch),
        (true, &no_method, list(META), Some(Kind::MissingHeader)),
        (true, &served, meta(CLAIM), Some(Kind::IncompleteEnvelope)),
        (true, &served, meta(r#""io.modelcontextprotocol/protocolVersion":"2025-06-18""#), mismatch),
    ] {
        let quirk = tolerated.then_some(Quirk::LegacyHeaderOnModernClaim);
        let stack = quirk.map_or(mcp(), |quirk| mcp().tolerate(quirk));
        let resolver = EraResolverLayer::new();
        let resolver = match quirk {
            Some(quirk) => resolver.tolerate(quirk),
            None => resolver,
        };
        let row = ServiceBuilder::new()
            .layer(resolver)
            .layer(MirrorHeaderValidatorLayer::new())
            .service(plain());
        for answer in [
            send(stack.layer(plain()), refused(headers, body.clone())).await,
            send(row, refused(headers, body.clone())).await,
        ] {
            let found = Rejection::get(&answer.head.extensions).map(Rejection::kind);
            assert_eq!(found, expected, "{tolerated} {headers:?} {body}");
            if expected.is_none() {
                let era = Era::get(&answer.head.extensions).unwrap();
                assert_eq!(era.version(), Some("2026-07-28"));
            }
        }
    }
}

// rule E11
#[rustfmt::skip] // a table
#[tokio::test]
async fn a_modern_header_in_a_session_is_tolerated_on_demand_and_nothing_more() {
    let session = ("mcp-session-id", "s");
    for (tolerated, headers, body, expected) in [
        (false, &[JSON, VERSION, session][..], list(""), Some(Kind::IncompleteEnvelope)),
        (true, &[JSON, VERSION, session], list(""), None),
        (true, &[JSON, VERSION], list(""), Some(Kind::IncompleteEnvelope)),
        (true, &[JSON, VERSION, session], list(META), Some(Kind::MissingHeader)),
        (true, &[JSON, VERSION, session], initialize(""), None),
    ] {
        let layer = mcp();
        let layer = if tolerated { layer.tolerate(Quirk::ModernHeaderInSession) } else { layer };
        let answer = send(layer.layer(plain()), refused(headers, body.clone())).await;
        let found = Rejection::get(&answer.head.extensions).map(Rejection::kind);
        assert_eq!(found, expected, "{tolerated} {headers:?} {body}");
        if expected.is_none() {
            let era = Era::get(&answer.head.extensions).unwrap();
            assert_eq!(era.kind(), EraKind::Legacy);
        }
    }
}

// rules E10, E11
#[tokio::test]
async fn what_is_tolerated_does_not_bring_a_switched_off_era_back() {
    let layer = mcp()
        .eras(Eras::ModernOnly)
        .tolerate(Quirk::ModernHeaderInSession)
        .tolerate(Quirk::LegacyHeaderOnModernClaim);
    let session = ("mcp-session-id", "s");
    for headers in [
        &[JSON, VERSION, LIST, session][..],
        &[JSON, LEGACY, session],
    ] {
        let answer = send(layer.layer(plain()), refused(headers, list(""))).await;
        assert_eq!(answer.status(), 400, "{headers:?}");
    }
}

// rule E1
#[rustfmt::skip] // a table
#[tokio::test]
async fn further_legacy_versions_are_served_and_listed_once_added() {
    let header = ("mcp-protocol-version", "2024-10-07");
    let layer = mcp()
        .legacy_version("2024-10-07")
        .unwrap()
        .legacy_version("2025-11-25")
        .unwrap();
    let answer = send(layer.layer(plain()), refused(&[JSON, header], list(""))).await;
    assert_eq!(answer.status(), 200);
    let era = Era::get(&answer.head.extensions).unwrap();
    assert_eq!((era.kind(), era.version()), (EraKind::Legacy, Some("2024-10-07")));
    let unknown = ("mcp-protocol-version", "x");
    let answer = send(layer.layer(plain()), refused(&[JSON, unknown], list(""))).await;
    let all = json!([
        "2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05", "2024-10-07"
    ]);
    assert_eq!(answer.json()["error"]["data"]["supported"], all);
    for invalid in ["", "a,b", "a b", "é", "2026-07-28"] {
        let error = mcp().legacy_version(invalid).unwrap_err();
        assert!(error.to_string().contains(&format!("{invalid:?}")), "{error}");
    }
}

fn mcp() -> McpLayer {
    McpLayer::new(ServerInfo::new("test", "1"))
}
