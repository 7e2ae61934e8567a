//! What is asked in both eras, and why the layers answer otherwise where they do.

use bytes::Bytes;
use http::{Request, request::Builder};

/// One request.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// The rule that demands another answer than the SDK's; empty where the two are the same.
    pub(crate) why: &'static str,
    pub(crate) request: Request<Bytes>,
}

/// That is all the difference where a result is stamped.
pub(crate) const V1: &str = "V1: every result names the server";
const B1: &str = "B1: a refusal is a JSON-RPC error";
const B3: &str = "B3: a member that decides must not occur twice";
const B4: &str = "B4: what is no JSON is 400 -32700, what is no request is 400 -32600 with the id";
const B6: &str = "B6: a refusal is a JSON-RPC error; what is compressed is not taken for JSON";
const E3: &str = "E3: a refusal lists the keys of the envelope that are missing or invalid";
const E4: &str = "E4: a removed method is 404 -32601, and no handler sees it";
const E5: &str = "E5: a refusal is -32022 and lists the versions that are served, newest first";
const E7: &str = "E7: a refusal is a JSON-RPC error";
const M1: &str = "M1: a refusal names the header and what is wrong with it";
const O3: &str = "O3: pages of origins that are not listed are refused";
const O4: &str = "O4: a refusal is a JSON-RPC error, and says what to configure";
const O7: &str = "O7: an admitted page may read the answer";
const O8: &str = "O8: preflights are answered";

/// Stands for the session that was opened last.
pub(crate) const SESSION: &str = "SESSION";

const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}"#;

fn case(name: &'static str, why: &'static str, request: Request<Bytes>) -> Case {
    Case { name, why, request }
}

fn post(builder: Builder, body: impl Into<Bytes>) -> Request<Bytes> {
    builder.body(body.into()).expect("a valid request")
}

fn http(method: &str) -> Builder {
    Request::builder()
        .method(method)
        .uri("/mcp")
        .header("host", "127.0.0.1:8000")
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
}

/// The head of a modern request.
fn head(method: &str) -> Builder {
    http("POST")
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", method)
}

/// A modern message with these further members of `params`.
fn body(method: &str, params: &str) -> String {
    let comma = if params.is_empty() { "" } else { "," };
    format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{{params}{comma}{META}}}}}"#)
}

fn modern(method: &str, params: &str) -> Request<Bytes> {
    post(head(method), body(method, params))
}

const ECHO: &str = r#""name":"echo","arguments":{"text":"hi"}"#;

fn call(name: &str) -> Builder {
    head("tools/call").header("mcp-name", name)
}

fn echo() -> Builder {
    call("echo").header("mcp-param-text", "hi")
}

#[rustfmt::skip] // a table
#[allow(clippy::too_many_lines)]
pub(crate) fn modern_cases() -> Vec<Case> {
    let list = || body("tools/list", "");
    vec![
        case("server/discover", "", modern("server/discover", "")),
        case("tools/list", V1, modern("tools/list", "")),
        case("tools/call", V1, post(echo(), body("tools/call", ECHO))),
        case("tools/call with progress", V1, post(call("count"), body("tools/call", r#""name":"count""#).replace(r#""_meta":{"#, r#""_meta":{"progressToken":1,"#))),
        case("an unknown tool", "", post(call("nope"), body("tools/call", r#""name":"nope""#))),
        case("wrong arguments", V1, post(call("echo"), body("tools/call", r#""name":"echo","arguments":{}"#))),
        case("an unknown method", "", modern("nope/nope", "")),
        case("a notification", "", post(head("notifications/x"), r#"{"jsonrpc":"2.0","method":"notifications/x"}"#)),
        case("a session id, which is ignored", V1, post(head("tools/list").header("mcp-session-id", "x"), list())),
        case("GET", E7, post(http("GET").header("mcp-protocol-version", "2026-07-28"), "")),
        case("DELETE", E7, post(http("DELETE").header("mcp-protocol-version", "2026-07-28"), "")),
        case("no envelope", E3, post(head("tools/list"), r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#)),
        case("an envelope without capabilities", E3, post(head("tools/list"), list().replace("clientCapabilities", "x"))),
        case("an unknown version", E5, post(http("POST").header("mcp-protocol-version", "2099-01-01").header("mcp-method", "tools/list"), list().replace("2026-07-28", "2099-01-01"))),
        case("two versions", M1, post(http("POST").header("mcp-protocol-version", "2025-11-25").header("mcp-method", "tools/list"), list())),
        case("no version header", M1, post(http("POST").header("mcp-method", "tools/list"), list())),
        case("no Mcp-Method", M1, post(http("POST").header("mcp-protocol-version", "2026-07-28"), list())),
        case("another Mcp-Method", M1, post(head("tools/call"), list())),
        case("Mcp-Method twice", M1, post(head("tools/list").header("mcp-method", "tools/list"), list())),
        case("no Mcp-Name", M1, post(head("tools/call").header("mcp-param-text", "hi"), body("tools/call", ECHO))),
        case("another Mcp-Name", M1, post(call("hello").header("mcp-param-text", "hi"), body("tools/call", ECHO))),
        case("Mcp-Name twice", M1, post(echo().header("mcp-name", "echo"), body("tools/call", ECHO))),
        case("Mcp-Name in Base64", V1, post(call("=?base64?ZWNobw==?=").header("mcp-param-text", "hi"), body("tools/call", ECHO))),
        case("Mcp-Name in broken Base64", M1, post(call("=?base64?ZWNobw?=").header("mcp-param-text", "hi"), body("tools/call", ECHO))),
        case("no Mcp-Param-Text", "", post(call("echo"), body("tools/call", ECHO))),
        case("another Mcp-Param-Text", "", post(call("echo").header("mcp-param-text", "x"), body("tools/call", ECHO))),
        case("ping, which was removed", E4, modern("ping", "")),
        case("initialize, which was removed", E4, modern("initialize", r#""protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}"#)),
        case("logging/setLevel, which was removed", E4, modern("logging/setLevel", r#""level":"info""#)),
        case("no JSON", B4, post(head("tools/list"), "{")),
        case("an array", B4, post(head("tools/list"), format!("[{}]", list()))),
        case("an answer", B4, post(head("tools/list"), r#"{"jsonrpc":"2.0","id":1,"result":{}}"#)),
        case("another jsonrpc", B4, post(head("tools/list"), list().replace(r#""2.0""#, r#""1.0""#))),
        case("id null", B4, post(head("tools/list"), list().replace(r#""id":1"#, r#""id":null"#))),
        case("id 1.5", B4, post(head("tools/list"), list().replace(r#""id":1"#, r#""id":1.5"#))),
        case("id 1.0", V1, post(head("tools/list"), list().replace(r#""id":1"#, r#""id":1.0"#))),
        case("an id of 20 digits", "", post(head("tools/list"), list().replace(r#""id":1"#, r#""id":12345678901234567890"#))),
        case("an id with an escape", V1, post(head("tools/list"), list().replace(r#""id":1"#, r#""id":"\u0061""#))),
        case("params as an array", B4, post(head("tools/list"), r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":[]}"#)),
        case("method twice", B3, post(head("tools/list"), list().replace(r#""id":1"#, r#""id":1,"method":"ping""#))),
        case("name twice", B3, post(echo(), body("tools/call", &format!(r#""name":"hello",{ECHO}"#)))),
        case("another media type", B6, post(Request::post("/mcp").header("host", "localhost").header("accept", "application/json, text/event-stream").header("content-type", "text/plain").header("mcp-protocol-version", "2026-07-28").header("mcp-method", "tools/list"), list())),
        case("a compressed body", B6, post(head("tools/list").header("content-encoding", "gzip"), list())),
        case("no Accept", "", post(Request::post("/mcp").header("host", "localhost").header("content-type", "application/json").header("mcp-protocol-version", "2026-07-28").header("mcp-method", "tools/list"), list())),
        case("a body of five megabytes", B1, post(head("tools/list"), list() + &" ".repeat(5 << 20))),
        case("a page of another origin", O3, post(head("tools/list").header("origin", "https://evil.example"), list())),
        case("a page of this host", O7, post(head("tools/list").header("origin", "http://127.0.0.1:8000"), list())),
        case("a preflight of a page of this host", O8, post(Request::options("/mcp").header("host", "127.0.0.1:8000").header("origin", "http://127.0.0.1:8000").header("access-control-request-method", "POST"), "")),
        case("a page of a rebound name", O4, post(Request::post("/mcp").header("host", "evil.example").header("origin", "http://evil.example").header("content-type", "application/json").header("accept", "application/json, text/event-stream").header("mcp-protocol-version", "2026-07-28").header("mcp-method", "tools/list"), list())),
    ]
}

/// A message of the session.
fn legacy(body: &'static str) -> Request<Bytes> {
    let head = http("POST").header("mcp-session-id", SESSION);
    post(head.header("mcp-protocol-version", "2025-11-25"), body)
}

const LIST: &str = r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#;

/// In this order: it is the life of a session.
#[rustfmt::skip] // a table
pub(crate) fn legacy_cases() -> Vec<Case> {
    let initialize = r#"{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#;
    let in_session = |method| http(method).header("mcp-session-id", SESSION);
    vec![
        case("no session", "", post(http("POST"), LIST)),
        case("an unknown session", "", post(http("POST").header("mcp-session-id", "x"), LIST)),
        case("server/discover without an envelope", "", post(http("POST"), r#"{"jsonrpc":"2.0","id":1,"method":"server/discover"}"#)),
        case("initialize", "", post(http("POST"), initialize)),
        case("notifications/initialized", "", legacy(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#)),
        case("ping", "", legacy(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#)),
        case("tools/list", "", legacy(LIST)),
        case("tools/list without a version header", "", post(in_session("POST"), LIST)),
        case("tools/call", "", legacy(r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hi"}}}"#)),
        case("tools/call with progress", "", legacy(r#"{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"count","_meta":{"progressToken":1}}}"#)),
        case("an unknown tool", "", legacy(r#"{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"nope"}}"#)),
        case("an unknown method", "", legacy(r#"{"jsonrpc":"2.0","id":6,"method":"nope/nope"}"#)),
        case("an answer", "", legacy(r#"{"jsonrpc":"2.0","id":7,"result":{}}"#)),
        case("no JSON", "", legacy("{")),
        case("an array", "", legacy(r#"[{"jsonrpc":"2.0","id":2,"method":"tools/list"}]"#)),
        case("method twice", B3, legacy(r#"{"jsonrpc":"2.0","id":2,"method":"ping","method":"tools/list"}"#)),
        case("a header that contradicts nothing but looks modern", "", post(in_session("POST").header("mcp-method", "x").header("mcp-name", "y"), LIST)),
        case("an unknown version header", E5, post(in_session("POST").header("mcp-protocol-version", "x"), LIST)),
        case("a version of a draft", E5, post(in_session("POST").header("mcp-protocol-version", "2024-10-07"), LIST)),
        case("a page of another origin", O3, post(in_session("POST").header("origin", "https://evil.example"), LIST)),
        case("a stream", "", post(in_session("GET").header("accept", "text/event-stream"), "")),
        case("a stream taken up", "", post(in_session("GET").header("last-event-id", "0"), "")),
        case("HEAD", "", post(in_session("HEAD"), "")),
        case("DELETE", "", post(in_session("DELETE"), "")),
        case("after DELETE", "", legacy(LIST)),
    ]
}
