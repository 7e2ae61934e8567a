//! The pure entry point says what the layers say, without a type of `http`.

mod support;

use http::{HeaderName, HeaderValue, Request};
use mcp_layers::{
    EraKind, Eras, McpLayer, MessageKind, Quirk, Rejection, RejectionKind, ServerInfo, ToolHeaders,
    check::Checks,
};
use proptest::prelude::*;
use serde_json::json;
use support::{Chunks, META, plain, send};
use tower::Layer;

const JSON: (&str, &[u8]) = ("content-type", b"application/json");
const VERSION: (&str, &[u8]) = ("MCP-Protocol-Version", b"2026-07-28");
const LEGACY: (&str, &[u8]) = ("MCP-PROTOCOL-VERSION", b"2025-11-25");

fn list() -> String {
    support::modern_body("tools/list", "")
}

#[test]
fn a_modern_request_passes_with_its_era_and_message_in_any_case_of_names() {
    let headers = [JSON, VERSION, ("mCP-mETHOD", b"tools/list")];
    let checked = Checks::new().check("POST", headers, list()).unwrap();
    let era = checked.era().unwrap();
    assert_eq!(
        (era.kind(), era.version()),
        (EraKind::Modern, Some("2026-07-28"))
    );
    let message = checked.message().unwrap();
    assert_eq!(message.kind(), MessageKind::Request);
    assert_eq!(message.method(), Some("tools/list"));
}

#[test]
fn a_request_without_a_message_has_an_era_alone() {
    let checks = Checks::new().legacy_streams(true);
    let checked = checks.check("GET", [LEGACY], "").unwrap();
    assert_eq!(checked.era().unwrap().version(), Some("2025-11-25"));
    assert!(checked.message().is_none());
    let grpc = [("content-type", &b"application/grpc"[..])];
    let checked = checks.check("POST", grpc, "x").unwrap();
    assert!(checked.era().is_none() && checked.message().is_none());
}

#[test]
fn every_setting_of_the_layers_is_one_here() {
    let kind =
        |checks: &Checks, method: &str, headers: &[(&'static str, &'static [u8])], body: &str| {
            let checked = checks.check(method, headers.iter().copied(), body.to_owned());
            checked.err().map(|rejection| rejection.kind())
        };
    let method = ("mcp-method", &b"tools/list"[..]);
    let checks = Checks::new();
    assert_eq!(
        kind(&checks, "GET", &[], ""),
        Some(RejectionKind::MethodNotAllowed)
    );
    assert_eq!(
        kind(&checks, "post", &[JSON], ""),
        Some(RejectionKind::MethodNotAllowed)
    );
    assert_eq!(
        kind(&checks.clone().legacy_streams(true), "GET", &[], ""),
        None
    );
    let old = [JSON, ("mcp-protocol-version", &b"2024-10-07"[..])];
    assert_eq!(
        kind(&checks, "POST", &old, "{}"),
        Some(RejectionKind::UnsupportedProtocolVersion)
    );
    assert_eq!(
        kind(
            &checks.clone().legacy_version("2024-10-07").unwrap(),
            "POST",
            &old,
            "{}"
        ),
        None
    );
    let modern = [JSON, VERSION, method];
    let only = checks.clone().eras(Eras::LegacyOnly);
    assert_eq!(
        kind(&only, "POST", &modern, &list()),
        Some(RejectionKind::UnsupportedProtocolVersion)
    );
    let quirk = [JSON, LEGACY, method];
    assert_eq!(
        kind(&checks, "POST", &quirk, &list()),
        Some(RejectionKind::HeaderMismatch)
    );
    let tolerant = checks.clone().tolerate(Quirk::LegacyHeaderOnModernClaim);
    assert_eq!(kind(&tolerant, "POST", &quirk, &list()), None);
    let short = checks.clone().body_limit(list().len() - 1);
    assert_eq!(
        kind(&short, "POST", &modern, &list()),
        Some(RejectionKind::BodyTooLarge)
    );

    let schema = json!({ "type": "object", "properties": { "a": { "type": "string", "x-mcp-header": "A" } } });
    let tools = ToolHeaders::new().tool("t", &schema).unwrap();
    let checks = checks.tool_schemas(tools);
    let call = |name: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{name}","arguments":{{"a":"x"}},{META}}}}}"#
        )
    };
    let headers = |name: &'static [u8]| {
        [
            JSON,
            VERSION,
            ("mcp-method", b"tools/call"),
            ("mcp-name", name),
        ]
    };
    assert_eq!(
        kind(&checks, "POST", &headers(b"t"), &call("t")),
        Some(RejectionKind::MissingHeader)
    );
    assert_eq!(kind(&checks, "POST", &headers(b"u"), &call("u")), None);
    let strict = checks.refuse_unknown_tools(true);
    assert_eq!(
        kind(&strict, "POST", &headers(b"u"), &call("u")),
        Some(RejectionKind::UnknownTool)
    );
}

/// Headers and bodies that are nearly right.
fn request() -> impl Strategy<Value = (String, Vec<(String, String)>, String)> {
    let header = prop_oneof![
        Just(("content-type", "application/json")),
        Just(("content-type", "text/plain")),
        Just(("mcp-protocol-version", "2026-07-28")),
        Just(("mcp-protocol-version", "2025-11-25")),
        Just(("mcp-protocol-version", "x")),
        Just(("mcp-method", "tools/list")),
        Just(("mcp-method", "tools/call")),
        Just(("mcp-name", "a")),
        Just(("content-length", "99999999")),
        Just(("mcp-session-id", "s")),
    ];
    let header = header.prop_map(|(name, value)| (name.to_owned(), value.to_owned()));
    let method = prop::sample::select(vec!["POST", "POST", "POST", "GET", "OPTIONS", "DELETE"]);
    let body = (
        prop::sample::select(vec![
            "tools/list",
            "tools/call",
            "initialize",
            "ping",
            "notifications/x",
        ]),
        prop::sample::select(vec!["", r#""name":"a","#, r#""name":"a","name":"b","#]),
        any::<bool>(),
        any::<bool>(),
        prop::option::of(0..200_usize),
    );
    let body = body.prop_map(|(method, params, id, meta, cut)| {
        let id = if id { r#""id":1,"# } else { "" };
        let meta = if meta { META } else { "\"x\":1" };
        let mut text =
            format!(r#"{{"jsonrpc":"2.0",{id}"method":"{method}","params":{{{params}{meta}}}}}"#);
        if let Some(cut) = cut {
            text.truncate(cut * 3);
        }
        text
    });
    let headers = prop::collection::vec(header, 0..6);
    (method.prop_map(str::to_owned), headers, body)
}

proptest! {
    #[test]
    fn the_layers_and_the_pure_entry_point_agree_on_every_request((method, headers, body) in request()) {
        let mut request = Request::new(Chunks::one(body.clone()));
        *request.method_mut() = method.parse().unwrap();
        for (name, value) in &headers {
            let name = HeaderName::try_from(name).unwrap();
            request.headers_mut().append(name, HeaderValue::try_from(value).unwrap());
        }
        request.headers_mut().insert("host", "localhost".parse().unwrap());
        let pairs = headers.iter().map(|(name, value)| (&**name, value.as_bytes()));
        let pure = Checks::new().check(&method, pairs, body);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let stack = McpLayer::new(ServerInfo::new("test", "1")).layer(plain());
        let answer = runtime.block_on(send(stack, request));
        match (pure, Rejection::get(&answer.head.extensions)) {
            (Ok(checked), None) => {
                let era = mcp_layers::Era::get(&answer.head.extensions);
                prop_assert_eq!(checked.era(), era);
            }
            (Err(pure), Some(layered)) => {
                prop_assert_eq!(pure.kind(), layered.kind());
                prop_assert_eq!(pure.body(), answer.body);
            }
            (pure, layered) => prop_assert!(false, "{:?} is not {:?}", pure, layered),
        }
    }
}
