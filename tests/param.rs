//! Headers that repeat arguments, rule by rule: through the validator alone, the row of layers,
//! and as the one stack.

mod support;

use base64::{Engine, prelude::BASE64_STANDARD};
use http::{HeaderName, HeaderValue, Request};
use mcp_layers::{
    EnvelopeLayer, EraResolverLayer, McpLayer, MirrorHeaderValidatorLayer, Rejection,
    RejectionKind as Kind, ServerInfo, ToolHeaders,
    mirror::{InvalidAnnotation, InvalidAnnotationKind as Fault, ParamHeaders},
};
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use support::{Answer, Chunks, modern, modern_body, plain, post, send};
use tower::ServiceBuilder;

fn tools() -> ToolHeaders {
    let schema = json!({
        "type": "object",
        "properties": {
            "region": { "type": "string", "x-mcp-header": "Region" },
            "limit": { "type": "integer", "x-mcp-header": "Limit" },
            "dry_run": { "type": "boolean", "x-mcp-header": "Dry-Run" },
            "opts": { "type": "object", "properties": {
                "tenant": { "type": "string", "x-mcp-header": "Tenant" },
                "in": { "properties": { "deep": { "type": "integer", "x-mcp-header": "Deep" } } },
            } },
            "query": { "type": "string" },
            "\\ud800": { "type": "string", "x-mcp-header": "Surrogate" },
        },
    });
    let tools = ToolHeaders::new().tool("sql", &schema).unwrap();
    tools.tool("plain", &json!({ "type": "object" })).unwrap()
}

/// A call of `tool` with the JSON text of its arguments and these headers.
fn call(tool: &str, arguments: &str, headers: &[(&str, &[u8])]) -> Request<Chunks> {
    let params = if arguments.is_empty() {
        format!(r#""name":"{tool}""#)
    } else {
        format!(r#""name":"{tool}","arguments":{arguments}"#)
    };
    let mut request = modern("tools/call", modern_body("tools/call", &params));
    add(&mut request, &[("mcp-name", tool.as_bytes())]);
    add(&mut request, headers);
    request
}

fn add(request: &mut Request<Chunks>, headers: &[(&str, &[u8])]) {
    for (name, value) in headers {
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        let value = HeaderValue::from_bytes(value).unwrap();
        request.headers_mut().append(name, value);
    }
}

/// Sends the request through the validator alone, the row of layers, and the stack.
async fn answers(tools: &ToolHeaders, request: impl Fn() -> Request<Chunks>) -> [Answer; 3] {
    let validator = MirrorHeaderValidatorLayer::new().tool_schemas(tools.clone());
    let alone = ServiceBuilder::new()
        .layer(validator.clone())
        .service(plain());
    let row = ServiceBuilder::new()
        .layer(EraResolverLayer::new())
        .layer(validator)
        .layer(EnvelopeLayer::new(ServerInfo::new("test", "1")))
        .service(plain());
    let stack = ServiceBuilder::new()
        .layer(McpLayer::new(ServerInfo::new("test", "1")).tool_schemas(tools.clone()))
        .service(plain());
    [
        send(alone, request()).await,
        send(row, request()).await,
        send(stack, request()).await,
    ]
}

async fn check(name: &str, request: impl Fn() -> Request<Chunks>, expected: Option<Kind>) {
    for answer in answers(&tools(), request).await {
        let found = Rejection::get(&answer.head.extensions).map(Rejection::kind);
        assert_eq!(found, expected, "{name}: {:?}", answer.body);
        if let Some(kind) = expected {
            assert_eq!(answer.status(), 400, "{name}");
            let error = &answer.json()["error"];
            assert_eq!(error["code"], kind.code(), "{name}");
        }
    }
}

type Case<'a> = (&'a str, &'a str, &'a [(&'a str, &'a [u8])], Option<Kind>);

async fn check_calls(cases: &[Case<'_>]) {
    for (name, arguments, headers, expected) in cases {
        check(name, || call("sql", arguments, headers), *expected).await;
    }
}

const MISSING: Option<Kind> = Some(Kind::MissingHeader);
const MISMATCH: Option<Kind> = Some(Kind::HeaderMismatch);
const MALFORMED: Option<Kind> = Some(Kind::MalformedHeader);
const REPEATED: Option<Kind> = Some(Kind::RepeatedHeader);
const TWICE: Option<Kind> = Some(Kind::RepeatedMember);

// rule P2
#[rustfmt::skip] // a table
#[tokio::test]
async fn an_argument_that_is_there_needs_its_header_and_no_other_may_have_one() {
    let region: (&str, &[u8]) = ("mcp-param-region", b"us-west1");
    let tenant: (&str, &[u8]) = ("Mcp-Param-Tenant", b"alice");
    check_calls(&[
        ("equal", r#"{"region":"us-west1"}"#, &[region], None),
        ("another", r#"{"region":"eu-north1"}"#, &[region], MISMATCH),
        ("another case", r#"{"region":"US-west1"}"#, &[region], MISMATCH),
        ("a header name in another case", r#"{"region":"x"}"#, &[("MCP-PARAM-REGION", b"x")], None),
        ("no header", r#"{"region":"us-west1"}"#, &[], MISSING),
        ("an empty argument without header", r#"{"region":""}"#, &[], MISSING),
        ("an empty header", r#"{"region":""}"#, &[("mcp-param-region", b"")], None),
        ("no argument", "{}", &[region], MISMATCH),
        ("no arguments", "", &[region], MISMATCH),
        ("arguments that are null", "null", &[region], MISMATCH),
        ("arguments that are an array", r#"[{"region":"us-west1"}]"#, &[region], MISMATCH),
        ("neither", "{}", &[], None),
        ("neither, no arguments", "", &[], None),
        ("neither, arguments that are a string", r#""region""#, &[], None),
        ("null", r#"{"region":null}"#, &[], None),
        ("null with a header", r#"{"region":null}"#, &[("mcp-param-region", b"null")], MISMATCH),
        ("null with an empty header", r#"{"region":null}"#, &[("mcp-param-region", b"")], MISMATCH),
        ("an escaped key", r#"{"r\u0065gion":"us-west1"}"#, &[region], None),
        ("an escaped key without header", r#"{"r\u0065gion":"us-west1"}"#, &[], MISSING),
        ("two escaped keys", r#"{"qu\u0065ry":1,"r\u0065gion":"us-west1"}"#, &[region], None),
        ("an escaped value", r#"{"region":"us\u002dwest1"}"#, &[region], None),
        ("a key in another case", r#"{"Region":"us-west1"}"#, &[region], MISMATCH),
        ("a key further in", r#"{"opts":{"region":"us-west1"}}"#, &[region], MISMATCH),
        ("a property inside", r#"{"opts":{"tenant":"alice"}}"#, &[tenant], None),
        ("another property inside", r#"{"opts":{"tenant":"bob"}}"#, &[tenant], MISMATCH),
        ("a property inside without header", r#"{"opts":{"tenant":"alice"}}"#, &[], MISSING),
        ("a property inside that is null", r#"{"opts":{"tenant":null}}"#, &[], None),
        ("a step that is null", r#"{"opts":null}"#, &[], None),
        ("a step that is null with a header", r#"{"opts":null}"#, &[tenant], MISMATCH),
        ("a step that is a string", r#"{"opts":"tenant"}"#, &[], None),
        ("a step that is an array", r#"{"opts":[{"tenant":"alice"}]}"#, &[tenant], MISMATCH),
        ("two steps", r#"{"opts":{"x":[],"in":{"deep":7}}}"#, &[("mcp-param-deep", b"7")], None),
        ("two steps, another", r#"{"opts":{"in":{"deep":8}}}"#, &[("mcp-param-deep", b"7")], MISMATCH),
        ("an object", r#"{"region":{}}"#, &[], MISMATCH),
        ("an object with its text", r#"{"region":{}}"#, &[("mcp-param-region", b"{}")], MISMATCH),
        ("an array", r#"{"region":["us-west1"]}"#, &[], MISMATCH),
        ("an array with a value", r#"{"region":["us-west1"]}"#, &[region], MISMATCH),
        ("a lone surrogate", r#"{"region":"\ud800"}"#, &[("mcp-param-region", br"\ud800")], MISMATCH),
        ("a lone surrogate without header", r#"{"region":"\ud800"}"#, &[], MISSING),
        ("a lone surrogate elsewhere", r#"{"query":"\ud800"}"#, &[], None),
        ("a key that is a lone surrogate", r#"{"\ud800":"x"}"#, &[], None),
        ("a key that looks like one", r#"{"\\ud800":"x"}"#, &[("mcp-param-surrogate", b"x")], None),
        ("all at once", r#"{"region":"us-west1","limit":1,"dry_run":true,"opts":{"tenant":"alice"},"query":""}"#,
            &[region, tenant, ("mcp-param-limit", b"1"), ("mcp-param-dry-run", b"true")], None),
    ])
    .await;
}

// rules M4, M5
#[rustfmt::skip] // a table
#[tokio::test]
async fn values_are_trimmed_and_unwrapped_and_repeated_lines_are_refused() {
    let region = |value: &'static [u8]| ("mcp-param-region", value);
    check_calls(&[
        ("blanks around", r#"{"region":"x"}"#, &[region(b" \tx ")], None),
        ("blanks inside", r#"{"region":"x \t y"}"#, &[region(b"x \t y")], None),
        ("blanks around the argument", r#"{"region":" x "}"#, &[region(b" x ")], MISMATCH),
        ("wrapped blanks", r#"{"region":" x "}"#, &[region(b"=?base64?IHgg?=")], None),
        ("wrapped for nothing", r#"{"region":"Hello"}"#, &[region(b"=?base64?SGVsbG8=?=")], None),
        ("wrapped twice", r#"{"region":"=?base64?SGVsbG8=?="}"#, &[region(b"=?base64?SGVsbG8=?=")], MISMATCH),
        ("an empty wrap", r#"{"region":""}"#, &[region(b"=?base64??=")], None),
        ("a wrap without padding", r#"{"region":"Hello"}"#, &[region(b"=?base64?SGVsbG8?=")], MALFORMED),
        ("a wrap that is not UTF-8", r#"{"region":"x"}"#, &[region(b"=?base64?//4=?=")], MALFORMED),
        ("a wrapped number", r#"{"limit":42}"#, &[("mcp-param-limit", b"=?base64?NDI=?=")], None),
        ("a wrapped number with a blank", r#"{"limit":42}"#, &[("mcp-param-limit", b"=?base64?IDQy?=")], MALFORMED),
        ("a wrapped boolean", r#"{"dry_run":true}"#, &[("mcp-param-dry-run", b"=?base64?dHJ1ZQ==?=")], None),
        ("other bytes", "{\"region\":\"\u{e9}\"}", &[region("\u{e9}".as_bytes())], MALFORMED),
        ("other bytes, latin 1", "{\"region\":\"\u{e9}\"}", &[region(b"\xe9")], MALFORMED),
        ("other bytes without argument", "{}", &[region(b"\xe9")], MALFORMED),
        ("two lines", r#"{"region":"x"}"#, &[region(b"x"), region(b"y")], REPEATED),
        ("two equal lines", r#"{"region":"x"}"#, &[region(b"x"), ("Mcp-Param-REGION", b"x")], REPEATED),
        ("two lines without argument", "{}", &[region(b"x"), region(b"x")], REPEATED),
        ("a comma", r#"{"region":"x, y"}"#, &[region(b"x, y")], None),
    ])
    .await;
}

// rule P3
#[rustfmt::skip] // a table
#[tokio::test]
async fn numbers_compare_exactly_in_every_spelling() {
    let limit = |value: &'static [u8]| [("mcp-param-limit", value)];
    let zeros = "0".repeat(5_000);
    let long = format!(r#"{{"limit":42{zeros}e-5000}}"#);
    check_calls(&[
        ("equal", r#"{"limit":42}"#, &limit(b"42"), None),
        ("a fraction of zeros", r#"{"limit":42.0}"#, &limit(b"42"), None),
        ("a fraction of zeros in the header", r#"{"limit":42}"#, &limit(b"42.000"), None),
        ("powers of ten", r#"{"limit":4.2e1}"#, &limit(b"420E-1"), None),
        ("thousands of digits", &long, &limit(b"42"), None),
        ("negative", r#"{"limit":-7}"#, &limit(b"-7"), None),
        ("another sign", r#"{"limit":-7}"#, &limit(b"7"), MISMATCH),
        ("negative zero", r#"{"limit":-0}"#, &limit(b"0"), None),
        ("zero", r#"{"limit":0}"#, &limit(b"-0.0e9"), None),
        ("the largest", r#"{"limit":9007199254740991}"#, &limit(b"9007199254740991"), None),
        ("the smallest", r#"{"limit":-9007199254740991}"#, &limit(b"-9007199254740991"), None),
        ("neighbours", r#"{"limit":9007199254740991}"#, &limit(b"9007199254740990"), MISMATCH),
        ("a header out of range", r#"{"limit":9007199254740991}"#, &limit(b"9007199254740992"), MISMATCH),
        ("out of range", r#"{"limit":9007199254740992}"#, &limit(b"9007199254740992"), MISMATCH),
        ("out of range below", r#"{"limit":-9007199254740992}"#, &limit(b"-9007199254740992"), MISMATCH),
        ("out of range without header", r#"{"limit":9007199254740992}"#, &[], MISMATCH),
        ("beyond floating point", r#"{"limit":1e400}"#, &[], MISMATCH),
        ("a fraction", r#"{"limit":1.5}"#, &limit(b"1.5"), MISMATCH),
        ("a fraction without header", r#"{"limit":1.5}"#, &[], MISMATCH),
        ("a fraction in the header", r#"{"limit":1}"#, &limit(b"1.5"), MISMATCH),
        ("missing", r#"{"limit":1}"#, &[], MISSING),
        ("empty", r#"{"limit":0}"#, &limit(b""), MALFORMED),
        ("a plus", r#"{"limit":42}"#, &limit(b"+42"), MALFORMED),
        ("hexadecimal", r#"{"limit":42}"#, &limit(b"0x2A"), MALFORMED),
        ("a leading zero", r#"{"limit":42}"#, &limit(b"042"), MALFORMED),
        ("a word", r#"{"limit":42}"#, &limit(b"forty-two"), MALFORMED),
        ("two numbers", r#"{"limit":42}"#, &limit(b"42 42"), MALFORMED),
        ("a number in quotes", r#"{"limit":42}"#, &limit(b"\"42\""), MALFORMED),
    ])
    .await;
}

// rule P3
#[rustfmt::skip] // a table
#[tokio::test]
async fn values_compare_as_they_print_whatever_the_schema_declares() {
    let limit = |value: &'static [u8]| [("mcp-param-limit", value)];
    let dry = |value: &'static [u8]| [("mcp-param-dry-run", value)];
    let region = |value: &'static [u8]| [("mcp-param-region", value)];
    check_calls(&[
        ("true", r#"{"dry_run":true}"#, &dry(b"true"), None),
        ("false", r#"{"dry_run":false}"#, &dry(b"false"), None),
        ("the opposite", r#"{"dry_run":true}"#, &dry(b"false"), MISMATCH),
        ("the other opposite", r#"{"dry_run":false}"#, &dry(b"true"), MISMATCH),
        ("false without header", r#"{"dry_run":false}"#, &[], MISSING),
        ("a capital", r#"{"dry_run":true}"#, &dry(b"True"), MALFORMED),
        ("one", r#"{"dry_run":true}"#, &dry(b"1"), MALFORMED),
        ("empty", r#"{"dry_run":false}"#, &dry(b""), MALFORMED),
        ("a string for a boolean", r#"{"dry_run":"yes"}"#, &dry(b"yes"), None),
        ("a number for a boolean", r#"{"dry_run":1.0}"#, &dry(b"1"), None),
        ("a string for an integer", r#"{"limit":"abc"}"#, &limit(b"abc"), None),
        ("another string for an integer", r#"{"limit":"abc"}"#, &limit(b"abd"), MISMATCH),
        ("a string of digits", r#"{"limit":"42"}"#, &limit(b"42"), None),
        ("a string of digits is not a number", r#"{"limit":"42"}"#, &limit(b"42.0"), MISMATCH),
        ("a boolean for an integer", r#"{"limit":true}"#, &limit(b"true"), None),
        ("a number for a string", r#"{"region":7}"#, &region(b"7.0"), None),
        ("another number for a string", r#"{"region":7}"#, &region(b"8"), MISMATCH),
        ("a fraction for a string", r#"{"region":7.5}"#, &region(b"7.5"), MISMATCH),
        ("a boolean for a string", r#"{"region":false}"#, &region(b"false"), None),
    ])
    .await;
}

// rule B3
#[rustfmt::skip] // a table
#[tokio::test]
async fn an_annotated_argument_may_not_occur_twice() {
    let region: (&str, &[u8]) = ("mcp-param-region", b"a");
    let tenant: (&str, &[u8]) = ("mcp-param-tenant", b"a");
    check_calls(&[
        ("twice", r#"{"region":"b","region":"a"}"#, &[region], TWICE),
        ("twice, equal", r#"{"region":"a","region":"a"}"#, &[region], TWICE),
        ("twice, escaped", r#"{"region":"a","reg\u0069on":"b"}"#, &[region], TWICE),
        ("twice, the first one null", r#"{"region":null,"region":"a"}"#, &[], TWICE),
        ("twice, inside", r#"{"opts":{"tenant":"a","tenant":"b"}}"#, &[tenant], TWICE),
        ("twice, the object around it", r#"{"opts":{"tenant":"a"},"opts":{"tenant":"b"}}"#, &[tenant], TWICE),
        ("twice, an object that lacks it", r#"{"opts":{},"opts":{"tenant":"a"}}"#, &[tenant], TWICE),
        ("twice, further in", r#"{"opts":{"in":1,"in":{"deep":1}}}"#, &[], TWICE),
        ("another one", r#"{"region":"a","query":1,"query":2}"#, &[region], None),
        ("another one inside", r#"{"opts":{"tenant":"a","x":1,"x":2}}"#, &[tenant], None),
        ("the same name elsewhere", r#"{"region":"a","opts":{"region":1,"region":2}}"#, &[region], None),
    ])
    .await;
}

// rule P4
#[tokio::test]
async fn headers_that_no_annotation_knows_are_ignored() {
    let unknown: [(&str, &[u8]); 5] = [
        ("mcp-param-unknown", b"x"),
        ("mcp-param-unknown", b"y"),
        ("mcp-param-strange", b"\xff"),
        ("mcp-param-", b"x"),
        ("mcp-param-regions", b"x"),
    ];
    check("of a known tool", || call("sql", "{}", &unknown), None).await;
    check("of a plain tool", || call("plain", "{}", &unknown), None).await;
    let region: [(&str, &[u8]); 1] = [("mcp-param-region", b"x")];
    check("of another tool", || call("plain", "{}", &region), None).await;
    check("of no tool", || call("unknown", "{}", &region), None).await;
    let resource = || {
        let mut request = modern(
            "prompts/get",
            modern_body("prompts/get", r#""name":"sql","arguments":{"region":"y"}"#),
        );
        add(&mut request, &[("mcp-name", b"sql"), region[0]]);
        request
    };
    check("of another method", resource, None).await;
    let legacy = || {
        let mut request = post(
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"sql","arguments":{"region":"y"}}}"#,
        );
        add(&mut request, &region);
        request
    };
    check("of the handshake era", legacy, None).await;
}

// rule P4
#[tokio::test]
async fn without_schemas_nothing_is_compared() {
    let request = || call("sql", r#"{"region":"a"}"#, &[("mcp-param-region", b"b")]);
    for refused in [false, true] {
        let validator = MirrorHeaderValidatorLayer::new().refuse_unknown_tools(refused);
        let validator = ServiceBuilder::new().layer(validator).service(plain());
        assert_eq!(send(validator, request()).await.status(), 200);
        let stack = McpLayer::new(ServerInfo::new("test", "1")).refuse_unknown_tools(refused);
        let stack = ServiceBuilder::new().layer(stack).service(plain());
        assert_eq!(send(stack, request()).await.status(), 200);
    }
}

// rule P4
#[tokio::test]
async fn calls_of_unknown_tools_are_refused_where_that_is_switched_on() {
    for (tool, yes, expected) in [
        ("unknown", true, Some(Kind::UnknownTool)),
        ("unknown", false, None),
        ("plain", true, None),
        ("sql", true, None),
    ] {
        let validator = MirrorHeaderValidatorLayer::new()
            .tool_schemas(tools())
            .refuse_unknown_tools(yes);
        let alone = ServiceBuilder::new().layer(validator).service(plain());
        let stack = McpLayer::new(ServerInfo::new("test", "1"))
            .tool_schemas(tools())
            .refuse_unknown_tools(yes);
        let stack = ServiceBuilder::new().layer(stack).service(plain());
        for answer in [
            send(alone, call(tool, "{}", &[])).await,
            send(stack, call(tool, "{}", &[])).await,
        ] {
            let found = Rejection::get(&answer.head.extensions).map(Rejection::kind);
            assert_eq!(found, expected, "{tool}");
            if expected.is_some() {
                assert_eq!(answer.status(), 400);
                let error = &answer.json()["error"];
                assert_eq!(error["code"], -32020);
                assert_eq!(error["data"]["header"], "Mcp-Name");
            }
        }
    }
}

// rule M1
#[tokio::test]
async fn a_refusal_names_the_header_as_the_schema_spells_it() {
    let dry: &[u8] = b"maybe";
    for (arguments, headers, header, reason) in [
        (r#"{"region":"x"}"#, &[][..], "Mcp-Param-Region", "missing"),
        (
            r#"{"dry_run":true}"#,
            &[("mcp-param-dry-run", dry)],
            "Mcp-Param-Dry-Run",
            "malformed",
        ),
        (
            r#"{"dry_run":true}"#,
            &[("mcp-param-dry-run", dry), ("mcp-param-dry-run", dry)],
            "Mcp-Param-Dry-Run",
            "repeated",
        ),
        (
            r#"{"region":"x"}"#,
            &[("mcp-param-region", dry)],
            "Mcp-Param-Region",
            "mismatch",
        ),
        (r#"{"limit":1e99}"#, &[], "Mcp-Param-Limit", "mismatch"),
    ] {
        for answer in answers(&tools(), || call("sql", arguments, headers)).await {
            let error = &answer.json()["error"];
            let data = json!({ "header": header, "reason": reason });
            assert_eq!(error["data"], data, "{arguments}");
            let text = error["message"].as_str().unwrap();
            assert!(text.contains(header), "{text}");
            assert_eq!(answer.json()["id"], 1);
        }
    }
}

// The order of checks: O, E7, B, E, M, P.
#[tokio::test]
async fn standard_headers_are_compared_before_those_of_arguments() {
    let mut request = call("sql", r#"{"region":"x"}"#, &[]);
    request.headers_mut().remove("mcp-name");
    let validator = MirrorHeaderValidatorLayer::new().tool_schemas(tools());
    let service = ServiceBuilder::new().layer(validator).service(plain());
    let answer = send(service, request).await;
    assert_eq!(answer.json()["error"]["data"]["header"], "Mcp-Name");
}

#[tokio::test]
async fn many_arguments_are_walked_once() {
    let others: String = (0..200_000)
        .flat_map(|index| [r#""a"#.to_owned(), index.to_string(), r#"":1,"#.to_owned()])
        .collect();
    let arguments = format!(r#"{{{others}"region":"x"}}"#);
    let request = || call("sql", &arguments, &[("mcp-param-region", b"x")]);
    check("many", request, None).await;
    let deep = format!(
        r#"{{"query":{}1{},"opts":{}1{},"region":"x"}}"#,
        "[".repeat(100_000),
        "]".repeat(100_000),
        r#"{"opts":"#.repeat(100_000),
        "}".repeat(100_000)
    );
    let request = || call("sql", &deep, &[("mcp-param-region", b"x")]);
    check("deep", request, None).await;
}

#[tokio::test]
async fn a_property_may_have_a_name_of_any_length() {
    for length in [0, 1, 62, 63, 64, 65, 200] {
        let name = "n".repeat(length);
        let schema =
            json!({ "properties": { &name: { "type": "string", "x-mcp-header": "Long" } } });
        let tools = ToolHeaders::new().tool("sql", &schema).unwrap();
        let arguments = json!({ &name: "x", format!("{name}n"): 1 }).to_string();
        for (headers, status) in [(&[("mcp-param-long", &b"x"[..])][..], 200), (&[][..], 400)] {
            for answer in answers(&tools, || call("sql", &arguments, headers)).await {
                assert_eq!(answer.status(), status, "{length}");
            }
        }
    }
}

fn names(schema: &Value) -> Result<Vec<String>, InvalidAnnotation> {
    let headers = ParamHeaders::of("tool", schema)?;
    Ok(headers.names().map(str::to_owned).collect())
}

fn property(schema: &Value) -> Value {
    json!({ "properties": { "a": schema } })
}

// rule P1
#[test]
fn annotations_are_read_along_properties() {
    let schema = json!({
        "properties": {
            "a": { "type": "string", "x-mcp-header": "A" },
            "b": { "type": "integer", "x-mcp-header": "b!#$%&'*+-.^_`|~9" },
            "c": { "type": "array", "properties": {
                "d": { "type": "boolean", "x-mcp-header": "D" },
            } },
            "e": { "type": "string", "x-mcp-header": "E", "properties": {
                "f": { "type": "string", "x-mcp-header": "F" },
            } },
        },
    });
    let mut found = names(&schema).unwrap();
    found.sort();
    assert_eq!(
        found,
        [
            "Mcp-Param-A",
            "Mcp-Param-D",
            "Mcp-Param-E",
            "Mcp-Param-F",
            "Mcp-Param-b!#$%&'*+-.^_`|~9",
        ]
    );
}

// rule P1
#[test]
fn what_only_looks_like_an_annotation_is_none() {
    for schema in [
        json!(null),
        json!(true),
        json!("x-mcp-header"),
        json!({}),
        json!({ "properties": { "x-mcp-header": { "type": "string" } } }),
        json!({ "properties": { "a": { "properties": { "x-mcp-header": { "type": "object" } } } } }),
        json!({ "$defs": { "x-mcp-header": { "type": "string" } } }),
        json!({ "patternProperties": { "x-mcp-header": { "type": "string" } } }),
        json!({ "dependentSchemas": { "x-mcp-header": true } }),
        json!({ "dependentRequired": { "x-mcp-header": ["a"] } }),
        json!({ "required": ["x-mcp-header"] }),
        json!({ "default": { "x-mcp-header": "A" } }),
        json!({ "examples": [{ "x-mcp-header": "A" }] }),
        property(&json!({ "const": { "x-mcp-header": "A" } })),
        property(&json!({ "enum": [{ "x-mcp-header": "A" }] })),
        property(&json!({ "description": "x-mcp-header" })),
    ] {
        assert_eq!(names(&schema), Ok(vec![]), "{schema}");
    }
    let named = json!({ "properties": {
        "x-mcp-header": { "type": "string", "x-mcp-header": "X" },
        "default": { "type": "string", "x-mcp-header": "Default" },
    } });
    assert_eq!(names(&named).unwrap().len(), 2);
}

// rule P1
#[allow(clippy::too_many_lines)] // a table
#[test]
fn annotations_that_break_a_constraint_are_errors() {
    let annotated = json!({ "type": "string", "x-mcp-header": "A" });
    let string = |name: Value| property(&json!({ "type": "string", "x-mcp-header": name }));
    let typed = |kind: Value| property(&json!({ "type": kind, "x-mcp-header": "A" }));
    let mut cases = vec![
        (string(json!("")), Fault::Name, "/properties/a"),
        (string(json!("a b")), Fault::Name, "/properties/a"),
        (string(json!("a\r\nb")), Fault::Name, "/properties/a"),
        (string(json!("a:b")), Fault::Name, "/properties/a"),
        (string(json!("é")), Fault::Name, "/properties/a"),
        (string(json!(1)), Fault::Name, "/properties/a"),
        (string(json!(null)), Fault::Name, "/properties/a"),
        (typed(json!("number")), Fault::Type, "/properties/a"),
        (typed(json!("object")), Fault::Type, "/properties/a"),
        (typed(json!("null")), Fault::Type, "/properties/a"),
        (typed(json!(null)), Fault::Type, "/properties/a"),
        (
            typed(json!(["string", "null"])),
            Fault::Type,
            "/properties/a",
        ),
        (
            property(&json!({ "x-mcp-header": "A" })),
            Fault::Type,
            "/properties/a",
        ),
        (
            json!({ "properties": {
                "a": { "type": "string", "x-mcp-header": "Same" },
                "b": { "properties": { "c": { "type": "string", "x-mcp-header": "sAME" } } },
            } }),
            Fault::Repeated,
            "/properties/b/properties/c",
        ),
        (annotated.clone(), Fault::Misplaced, ""),
        (
            json!({ "properties": { "a/~b": { "items": annotated } } }),
            Fault::Misplaced,
            "/properties/a~1~0b/items",
        ),
        (
            json!({ "properties": { "a": { "anyOf": [true, annotated] } } }),
            Fault::Misplaced,
            "/properties/a/anyOf/1",
        ),
        (
            json!({ "properties": [{ "properties": { "a": annotated } }] }),
            Fault::Misplaced,
            "/properties/0/properties/a",
        ),
        (
            json!({ "x-shared": { "a": annotated } }),
            Fault::Misplaced,
            "/x-shared/a",
        ),
    ];
    for keyword in [
        "additionalItems",
        "additionalProperties",
        "contains",
        "contentSchema",
        "else",
        "if",
        "items",
        "not",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
    ] {
        cases.push((json!({ keyword: annotated }), Fault::Misplaced, ""));
        cases.push((
            json!({ keyword: { "properties": { "a": annotated } } }),
            Fault::Misplaced,
            "",
        ));
    }
    for keyword in ["allOf", "anyOf", "items", "oneOf", "prefixItems"] {
        cases.push((
            json!({ keyword: [{ "properties": { "a": annotated } }] }),
            Fault::Misplaced,
            "",
        ));
    }
    for keyword in [
        "$defs",
        "definitions",
        "dependencies",
        "dependentSchemas",
        "patternProperties",
    ] {
        cases.push((json!({ keyword: { "a": annotated } }), Fault::Misplaced, ""));
        cases.push((
            json!({ keyword: { "default": annotated } }),
            Fault::Misplaced,
            "",
        ));
    }
    for (schema, kind, pointer) in cases {
        let fault = ToolHeaders::new().tool("sql", &schema).unwrap_err();
        assert_eq!(fault.kind(), kind, "{schema}");
        assert_eq!(fault.tool(), "sql");
        if !pointer.is_empty() {
            assert_eq!(fault.pointer(), pointer, "{schema}");
            let text = fault.to_string();
            assert!(text.contains("sql") && text.contains(pointer), "{text}");
        }
        let at = schema.pointer(fault.pointer()).unwrap();
        assert!(at.get("x-mcp-header").is_some(), "{schema}");
    }
}

// rule P1
#[test]
fn schemas_of_any_depth_are_read() {
    let deep = |steps: usize| {
        let mut schema = json!({ "type": "string", "x-mcp-header": "A" });
        for _ in 0..steps {
            let properties = Map::from_iter([("a".to_owned(), schema)]);
            schema = Map::from_iter([("properties".to_owned(), properties.into())]).into();
        }
        schema
    };
    assert_eq!(names(&deep(64)).unwrap(), ["Mcp-Param-A"]);
    assert_eq!(names(&deep(65)).unwrap_err().kind(), Fault::TooDeep);
    let mut schema = deep(100_000);
    assert_eq!(names(&schema).unwrap_err().kind(), Fault::TooDeep);
    // Dropping it is recursive: take it apart.
    while let Some(inner) = schema.pointer_mut("/properties/a") {
        schema = inner.take();
    }
}

#[tokio::test]
async fn the_deepest_annotation_is_compared() {
    let mut schema = json!({ "type": "string", "x-mcp-header": "Region" });
    let mut arguments = r#""x""#.to_owned();
    for _ in 0..64 {
        schema = property(&schema);
        arguments = format!(r#"{{"a":{arguments}}}"#);
    }
    let tools = ToolHeaders::new().tool("sql", &schema).unwrap();
    for (value, status) in [(&b"x"[..], 200), (b"y", 400)] {
        let request = || call("sql", &arguments, &[("mcp-param-region", value)]);
        for answer in answers(&tools, request).await {
            assert_eq!(answer.status(), status);
        }
    }
}

// rule P5
#[tokio::test]
async fn a_fixed_set_is_read_from_a_list() {
    let tools = ToolHeaders::from_json(
        r#"[
            {"name":"plain","description":"\ud800","inputSchema":{"maximum":1e999}},
            {"inputSchema":{"properties":{"region":{"type":"string","x-mcp-\u0068eader":"Region"}}},"name":"s\u0071l"},
            {"name":"none"}
        ]"#,
    )
    .unwrap();
    let request = || call("sql", r#"{"region":"x"}"#, &[]);
    for answer in answers(&tools, request).await {
        assert_eq!(answer.status(), 400);
    }
    for (text, kind) in [
        ("", Fault::Unreadable),
        ("{}", Fault::Unreadable),
        ("[", Fault::Unreadable),
        ("[] []", Fault::Unreadable),
        ("[1]", Fault::Unreadable),
        (r#"[{"inputSchema":{}}]"#, Fault::Unreadable),
        (r#"[{"name":7}]"#, Fault::Unreadable),
        (r#"[{"name":"\ud800"}]"#, Fault::Unreadable),
        (
            r#"[{"name":"a","inputSchema":{"x-mcp-header":"A"}}]"#,
            Fault::Misplaced,
        ),
        (
            r#"[{"name":"a","inputSchema":{"x-mcp-heade\u0072":1}}]"#,
            Fault::Misplaced,
        ),
        (
            r#"[{"name":"a","inputSchema":{"x-mcp-header":1e999}}]"#,
            Fault::Unreadable,
        ),
    ] {
        let fault = ToolHeaders::from_json(text).unwrap_err();
        assert_eq!(fault.kind(), kind, "{text}");
        assert!(!fault.to_string().is_empty());
    }
}

/// Writes a value as a client has to.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#value-encoding>
fn encode(value: &str) -> String {
    let is_wrapped = value.starts_with("=?base64?") && value.ends_with("?=");
    let has_blank_ends = value.trim_matches([' ', '\t']) != value;
    let is_visible = value.chars().all(|it| matches!(it, ' '..='~' | '\t'));
    let plain = is_visible && !has_blank_ends && !is_wrapped;
    if plain {
        value.to_owned()
    } else {
        format!("=?base64?{}?=", BASE64_STANDARD.encode(value))
    }
}

/// The kind of refusal that the stack gives a call of `sql`.
fn verdict(arguments: &str, header: &str, value: &str) -> Option<Kind> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let stack = McpLayer::new(ServerInfo::new("test", "1")).tool_schemas(tools());
    let stack = ServiceBuilder::new().layer(stack).service(plain());
    let request = call("sql", arguments, &[(header, value.as_bytes())]);
    let answer = runtime.block_on(send(stack, request));
    Rejection::get(&answer.head.extensions).map(Rejection::kind)
}

/// Some text of a number of this value.
fn spelt(value: i64, zeros: usize, form: u8) -> String {
    let sign = if value < 0 { "-" } else { "" };
    let digits = value.unsigned_abs().to_string();
    let padding = "0".repeat(zeros);
    match form {
        2 if value == 0 => format!("-0.{padding}0"),
        0 => format!("{sign}{digits}"),
        1 => format!("{sign}{digits}.0{padding}"),
        2 => format!("{sign}{digits}{padding}e-{zeros}"),
        3 => format!("{sign}0.{padding}{digits}E+{}", zeros + digits.len()),
        _ => format!(
            "{sign}{}.{}e{}",
            &digits[..1],
            &format!("{digits}0")[1..],
            digits.len() - 1
        ),
    }
}

proptest! {
    // rule M5
    #[test]
    fn every_string_survives_its_encoding(value: String, other: String) {
        let region = |value: &str| json!({ "region": value }).to_string();
        let sent = encode(&value);
        prop_assert_eq!(verdict(&region(&value), "mcp-param-region", &sent), None);
        let expected = if value == other { None } else { MISMATCH };
        prop_assert_eq!(verdict(&region(&other), "mcp-param-region", &sent), expected);
    }

    // rule M5
    #[test]
    fn every_string_that_looks_wrapped_survives_its_encoding(
        value in r"(=\?base64\?)?[ \t=?aQ]{0,6}(\?=)?",
    ) {
        let region = json!({ "region": value }).to_string();
        prop_assert_eq!(verdict(&region, "mcp-param-region", &encode(&value)), None);
    }

    // rule P3
    #[test]
    fn numbers_are_equal_if_their_values_are(
        value in prop_oneof![-100i64..100, (1i64 << 53) - 3..(1 << 53) + 3, any::<i64>()],
        other in -1i64..2,
        zeros in 0usize..30,
        forms: (u8, u8),
    ) {
        let sent = value.saturating_add(other);
        let limit = format!(r#"{{"limit":{}}}"#, spelt(value, zeros, forms.0 % 5));
        let found = verdict(&limit, "mcp-param-limit", &spelt(sent, zeros, forms.1 % 5));
        let safe = value.unsigned_abs() < 1 << 53;
        prop_assert_eq!(found, if safe && sent == value { None } else { MISMATCH });
    }
}
