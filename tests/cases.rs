//! Runs every wire case of `cases/*.jsonl` through the layers, in process.
//!
//! Each goes through the four layers in one `ServiceBuilder`, through `McpLayer`, and, if it is the
//! case of one layer, through that layer alone. `cases/README.md` explains the fields.
#![allow(clippy::expect_used, clippy::unwrap_used)]

use std::{
    collections::BTreeSet,
    convert::Infallible,
    fs,
    future::poll_fn,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    task::Poll,
    time::Duration,
};

use axum::{Router, routing::post_service};
use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use mcp_layers::{
    CacheHint, EnvelopeLayer, EraResolverLayer, McpLayer, MirrorHeaderValidatorLayer,
    OriginGuardLayer, Rejection, ServerInfo, ToolHeaders,
};
use tower::{Layer, Service, ServiceBuilder, ServiceExt, limit::ConcurrencyLimit};

use self::cases::{
    case::{CacheScope, Case, Config, Inner, Tested},
    check::{Outcome, differences},
    probe::{Frames, Hold, Probe, Seen},
};

mod cases {
    pub(crate) mod case;
    pub(crate) mod check;
    pub(crate) mod json;
    pub(crate) mod probe;
}

/// The files, and how many cases each has.
const FILES: [(&str, usize); 7] = [
    ("envelope", 24),
    ("era", 20),
    ("framing", 5),
    ("mirror", 32),
    ("origin", 30),
    ("param", 12),
    ("stack", 2),
];

#[tokio::test]
async fn envelope_cases_come_out_right() {
    run("envelope").await;
}

#[tokio::test]
async fn era_cases_come_out_right() {
    run("era").await;
}

#[tokio::test]
async fn framing_cases_come_out_right() {
    run("framing").await;
}

#[tokio::test]
async fn mirror_cases_come_out_right() {
    run("mirror").await;
}

#[tokio::test]
async fn origin_cases_come_out_right() {
    run("origin").await;
}

#[tokio::test]
async fn param_cases_come_out_right() {
    run("param").await;
}

#[tokio::test]
async fn stack_cases_come_out_right() {
    run("stack").await;
}

#[test]
fn every_case_is_run_under_an_id_of_its_own() {
    let there: BTreeSet<PathBuf> = fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "jsonl"))
        .collect();
    let run: BTreeSet<PathBuf> = FILES.iter().map(|(name, _)| file(name)).collect();
    assert_eq!(there, run);

    let mut ids = BTreeSet::new();
    for (name, count) in FILES {
        let cases = read(name);
        assert_eq!(cases.len(), count, "{name}");
        for case in cases {
            assert!(ids.insert(case.id.clone()), "{} occurs twice", case.id);
        }
    }
    assert_eq!(ids.len(), 125);
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases")
}

fn file(name: &str) -> PathBuf {
    folder().join(name).with_extension("jsonl")
}

fn read(name: &str) -> Vec<Arc<Case>> {
    let text = fs::read_to_string(file(name)).unwrap();
    let case = |(line, text)| match serde_json::from_str(text) {
        Ok(case) => Arc::new(case),
        Err(error) => panic!("{name}.jsonl, line {}: {error}", line + 1),
    };
    text.lines().enumerate().map(case).collect()
}

/// Runs the cases of a file, every way, and fails with all that differs.
async fn run(name: &str) {
    let mut failures = Vec::new();
    for case in read(name) {
        let differences = run_case(&case).await;
        if !differences.is_empty() {
            failures.push(format!(
                "{}: {}\n    {}\n    why: {} ({})",
                case.id,
                case.title,
                differences.join("\n    "),
                case.why,
                case.spec
            ));
        }
    }
    assert!(failures.is_empty(), "\n{}\n", failures.join("\n"));
}

async fn run_case(case: &Arc<Case>) -> Vec<String> {
    let mut found = Vec::new();
    for way in [Way::Apart, Way::Together, Way::Alone] {
        // A task of its own: a panic is a difference like any other.
        let outcome = tokio::spawn(way.send(Arc::clone(case))).await;
        let differences = match outcome {
            Ok(Ok(None)) => continue,
            Ok(Ok(Some(outcome))) => differences(case, &outcome),
            Ok(Err(error)) => vec![error],
            Err(error) => vec![error.to_string()],
        };
        found.extend(differences.iter().map(|line| format!("[{way:?}] {line}")));
    }
    found
}

/// How the layers are put around the inner service.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// Four layers in one `ServiceBuilder`.
    Apart,
    /// `McpLayer`.
    Together,
    /// Only the layer whose case it is.
    Alone,
}

impl Way {
    /// Sends the case's request; `None` if the case does not go this way.
    async fn send(self, case: Arc<Case>) -> Result<Option<Outcome>, String> {
        let exchange = Exchange::new(&case);
        let config = &case.config;
        let outcome = match (self, case.layer) {
            (Self::Apart, _) => {
                let layers = ServiceBuilder::new()
                    .layer(origin(config)?)
                    .layer(era(config))
                    .layer(mirror(config)?)
                    .layer(envelope(config)?);
                match config.inner {
                    Some(Inner::Router) => exchange.run(exchange.router().layer(layers)).await,
                    _ => exchange.run(layers.service(exchange.service())).await,
                }
            }
            (Self::Together, _) => {
                let layer = together(config)?;
                match config.inner {
                    Some(Inner::Router) => exchange.run(exchange.router().layer(layer)).await,
                    _ => exchange.run(layer.layer(exchange.service())).await,
                }
            }
            (Self::Alone, Tested::OriginGuard) => {
                let layer = origin(config)?;
                exchange.run(layer.layer(exchange.service())).await
            }
            (Self::Alone, Tested::EraResolver) => {
                let layer = era(config);
                exchange.run(layer.layer(exchange.service())).await
            }
            (Self::Alone, Tested::MirrorHeaderValidator) => {
                let layer = mirror(config)?;
                exchange.run(layer.layer(exchange.service())).await
            }
            (Self::Alone, Tested::Envelope) => {
                let layer = envelope(config)?;
                exchange.run(layer.layer(exchange.service())).await
            }
            (Self::Alone, Tested::Several) => return Ok(None),
        };
        outcome.map(Some)
    }
}

fn origin(config: &Config) -> Result<OriginGuardLayer, String> {
    let mut layer = OriginGuardLayer::new().legacy_streams(config.era.legacy_streams);
    let Some(origin) = &config.origin else {
        return Ok(layer);
    };
    if origin.same_origin == Some(false) {
        return Err("a guard without the same-origin rule can't be built".to_owned());
    }
    for entry in &origin.allowed_origins {
        layer = layer.allow_origin(entry).map_err(|e| e.to_string())?;
    }
    for entry in &origin.allowed_hosts {
        layer = layer.allow_host(entry).map_err(|e| e.to_string())?;
    }
    Ok(layer.dangerously_trust_forwarded_host(origin.trust_forwarded_host))
}

fn era(config: &Config) -> EraResolverLayer {
    let layer = EraResolverLayer::new().legacy_streams(config.era.legacy_streams);
    match config.max_body {
        Some(limit) => layer.body_limit(limit),
        None => layer,
    }
}

fn mirror(config: &Config) -> Result<MirrorHeaderValidatorLayer, String> {
    let mut layer = MirrorHeaderValidatorLayer::new();
    if let Some(tools) = tools(config)? {
        layer = layer.tool_schemas(tools);
    }
    Ok(match config.max_body {
        Some(limit) => layer.body_limit(limit),
        None => layer,
    })
}

fn tools(config: &Config) -> Result<Option<ToolHeaders>, String> {
    let mut tools = ToolHeaders::new();
    for (name, schema) in &config.tools {
        tools = tools.tool(name, schema).map_err(|e| e.to_string())?;
    }
    Ok((!config.tools.is_empty()).then_some(tools))
}

/// The methods whose results carry cache hints.
const CACHEABLE: [&str; 6] = [
    "prompts/list",
    "resources/list",
    "resources/read",
    "resources/templates/list",
    "server/discover",
    "tools/list",
];

fn envelope(config: &Config) -> Result<EnvelopeLayer, String> {
    let mut layer = EnvelopeLayer::new(server_info(config));
    if let Some(hint) = cache_hint(config)? {
        for method in CACHEABLE {
            layer = layer.cache(method, hint);
        }
    }
    Ok(match answer_limit(config) {
        Some(limit) => layer.answer_limit(limit),
        None => layer,
    })
}

fn together(config: &Config) -> Result<McpLayer, String> {
    let mut layer = McpLayer::new(server_info(config))
        .origin(origin(config)?)
        .legacy_streams(config.era.legacy_streams);
    if let Some(tools) = tools(config)? {
        layer = layer.tool_schemas(tools);
    }
    if let Some(limit) = config.max_body {
        layer = layer.body_limit(limit);
    }
    if let Some(hint) = cache_hint(config)? {
        for method in CACHEABLE {
            layer = layer.cache(method, hint);
        }
    }
    Ok(match answer_limit(config) {
        Some(limit) => layer.answer_limit(limit),
        None => layer,
    })
}

fn answer_limit(config: &Config) -> Option<usize> {
    let inside = config.envelope.as_ref();
    config
        .envelope_max_body
        .or_else(|| inside.and_then(|envelope| envelope.envelope_max_body))
}

fn server_info(config: &Config) -> ServerInfo {
    match &config.envelope {
        Some(envelope) => {
            let info = &envelope.server_info;
            ServerInfo::new(info.name.as_str(), info.version.as_str())
        }
        None => ServerInfo::new("ExampleServer", "1.0.0"),
    }
}

fn cache_hint(config: &Config) -> Result<Option<CacheHint>, String> {
    let Some(envelope) = &config.envelope else {
        return Ok(None);
    };
    match (
        envelope.ttl_ms.map(Duration::from_millis),
        envelope.cache_scope,
    ) {
        (None, None) => Ok(None),
        (Some(ttl), Some(CacheScope::Private)) => Ok(Some(CacheHint::private(ttl))),
        (Some(ttl), Some(CacheScope::Public)) => Ok(Some(CacheHint::public(ttl))),
        _ => Err("a hint needs ttl_ms and cache_scope".to_owned()),
    }
}

/// One case on its way through one stack.
struct Exchange {
    case: Arc<Case>,
    probe: Probe,
    seen: Arc<Mutex<Seen>>,
}

impl Exchange {
    fn new(case: &Arc<Case>) -> Self {
        let (probe, seen) = Probe::new(Arc::clone(case));
        Self {
            case: Arc::clone(case),
            probe,
            seen,
        }
    }

    /// The strictest inner service: one permit, and no clone is ready.
    fn service(&self) -> ConcurrencyLimit<Probe> {
        ConcurrencyLimit::new(self.probe.clone(), 1)
    }

    fn router(&self) -> Router {
        Router::new().route("/mcp", post_service(self.service()))
    }

    async fn run<S, B>(&self, service: S) -> Result<Outcome, String>
    where
        S: Service<Request<Frames>, Response = Response<B>, Error = Infallible> + Clone,
        B: Body<Data = Bytes>,
        B::Error: std::fmt::Debug,
    {
        let send = async {
            match self.case.config.inner {
                Some(Inner::Crowded) => {
                    let (one, two, three) = tokio::join!(
                        self.send(service.clone()),
                        self.send(service.clone()),
                        self.send(service.clone())
                    );
                    let alike = one.status == two.status && two.status == three.status;
                    assert!(alike, "requests at once get different answers");
                    (one, 3)
                }
                Some(Inner::Router) | None => (self.send(service).await, 1),
            }
        };
        let (mut outcome, requests) = tokio::time::timeout(Duration::from_secs(20), send)
            .await
            .map_err(|_| "no answer".to_owned())?;
        outcome.requests = requests;
        outcome.seen = std::mem::take(&mut *self.seen.lock().unwrap());
        Ok(outcome)
    }

    async fn send<S, B>(&self, service: S) -> Outcome
    where
        S: Service<Request<Frames>, Response = Response<B>, Error = Infallible>,
        B: Body<Data = Bytes>,
        B::Error: std::fmt::Debug,
    {
        let Ok(response) = service.oneshot(self.case.request.to_request()).await;
        let (parts, body) = response.into_parts();
        let rejection = Rejection::get(&parts.extensions).map(Rejection::kind);
        let mut outcome = Outcome {
            status: parts.status,
            headers: parts.headers,
            rejection: rejection.map(|kind| (kind.status(), i64::from(kind.code()))),
            body: Vec::new(),
            trailers: None,
            told_length: body.size_hint().exact(),
            read_when_held: Vec::new(),
            left: false,
            inner_dropped: false,
            requests: 1,
            seen: Seen::default(),
        };
        let watch = self.seen.lock().unwrap().watch.clone();
        let held = || watch.as_ref().and_then(|watch| watch.held());

        let mut body = Box::pin(body);
        loop {
            let next = poll_fn(|cx| match body.as_mut().poll_frame(cx) {
                Poll::Ready(frame) => Poll::Ready(Ok(frame)),
                Poll::Pending => held().map_or(Poll::Pending, |hold| Poll::Ready(Err(hold))),
            });
            match next.await {
                Ok(Some(frame)) => match frame.expect("the body is readable").into_data() {
                    Ok(data) => outcome.body.extend_from_slice(&data),
                    Err(frame) => outcome.trailers = frame.into_trailers().ok(),
                },
                Ok(None) => break,
                Err(Hold::UntilRead) => {
                    outcome.read_when_held.push(outcome.body.len());
                    watch.as_ref().unwrap().release();
                }
                Err(Hold::Forever) => {
                    outcome.left = true;
                    break;
                }
            }
        }
        drop(body);
        outcome.inner_dropped = watch.is_some_and(|watch| watch.dropped());
        outcome
    }
}

/// What is demanded, what the inner service answers, and what must be said about it.
const UNMET: [(&str, &str, &str); 27] = [
    (r#""status":202"#, PLAIN, "status 200 OK, not One(202)"),
    (
        r#""status":[400,403]"#,
        PLAIN,
        "status 200 OK, not OneOf([400, 403])",
    ),
    (
        r#""reaches_inner":false"#,
        PLAIN,
        "1 calls of the inner service, not 0",
    ),
    (
        r#""reaches_inner":false,"status":400"#,
        r#""status":400,"body":"{}""#,
        "the refusal carries no Rejection",
    ),
    (
        r#""jsonrpc_error_code":-32020"#,
        PLAIN,
        "error code None, not -32020",
    ),
    (
        r#""jsonrpc_error_code":-32020"#,
        r#""body":"{\"id\":null,\"error\":{\"code\":-32020}}""#,
        "\"id\":null",
    ),
    (
        r#""jsonrpc_error_code":-32020"#,
        r#""content_type":"text/plain","body":"{\"error\":{\"code\":-32020}}""#,
        "not application/json",
    ),
    (
        r#""response_headers":{"vary":"origin"}"#,
        PLAIN,
        "vary is []",
    ),
    (
        r#""response_headers":{"vary":"a"}"#,
        r#""headers":[["vary","a"],["vary","a"]],"body":"""#,
        r#"vary is ["a", "a"]"#,
    ),
    (
        r#""response_headers":{"vary":"contains:a,origin"}"#,
        r#""headers":[["vary","A, X-Origin"]],"body":"""#,
        r#"vary is ["A, X-Origin"]"#,
    ),
    (
        r#""response_headers":{"content-type":null}"#,
        PLAIN,
        r#"content-type is ["application/json"]"#,
    ),
    (r#""result_has":["tools"]"#, PLAIN, "does not have tools"),
    (r#""result_has":["a=2"]"#, PLAIN, "does not have a=2"),
    (r#""result_has":["a>=2"]"#, PLAIN, "does not have a>=2"),
    (
        r#""result_lacks":["b.c/d"]"#,
        PLAIN,
        r#"the result has b.c/d: "x""#,
    ),
    (
        r#""result_lacks":["a"]"#,
        r#""body":"{\"error\":{\"code\":1}}""#,
        "the answer has no result",
    ),
    (
        r#""result_unchanged_paths":["missing"]"#,
        PLAIN,
        "missing of the result is not None",
    ),
    (
        r#""contains_text":["1.00"]"#,
        PLAIN,
        "does not contain 1.00",
    ),
    (r#""events":1"#, PLAIN, "0 events, not 1"),
    (
        r#""events":2"#,
        r#""content_type":"text/event-stream","body":"data: 1\n\n: 2\n\n""#,
        "1 events, not 2",
    ),
    (
        r#""streaming":"acknowledgement readable at once""#,
        r#""chunks":["data: {\"id\"","@pending:500ms",":1}\n\n"]"#,
        "is readable while the body is held",
    ),
    (
        r#""on_client_drop":"the inner body is dropped promptly; no task keeps polling it""#,
        PLAIN,
        "the body came to its end",
    ),
    (
        r#""content_length":"must equal the new body length or be absent""#,
        r#""headers":[["Content-Length","3"]],"body":"{}""#,
        "Content-Length is \"3\", the body has 2 bytes",
    ),
    (
        r#""trailers":{"grpc-status":"0"}"#,
        PLAIN,
        "trailer grpc-status is None",
    ),
    (
        r#""error_id_raw":"1""#,
        PLAIN,
        "the error's id is Some(\"7\"), not 1",
    ),
    (
        r#""error_data_has":{"supported":"contains:b"}"#,
        r#""body":"{\"error\":{\"data\":{\"supported\":[\"a\"]}}}""#,
        "supported of the error's data is Some(\"[\\\"a\\\"]\"), not contains:b",
    ),
    (
        r#""inner_sees_header":["x","y"]"#,
        PLAIN,
        "the inner service sees x: None",
    ),
];

const PLAIN: &str = r#""body":"{\"id\":7,\"result\":{\"a\":1.0,\"b.c/d\":\"x\"}}""#;

// The two that compare with the inner answer need a layer that changes it; the cases of the
// envelope fail them as soon as it stamps what it must not.
#[tokio::test]
async fn an_unmet_expectation_is_noticed() {
    for (expect, inner, said) in UNMET {
        let case = bare_case(expect, inner);
        let exchange = Exchange::new(&case);
        let outcome = exchange.run(exchange.service()).await.unwrap();
        let found = differences(&case, &outcome);
        let named = found.iter().any(|line| line.contains(said));
        assert!(named, "{expect} on {inner} gives {found:?}");
    }
}

#[tokio::test]
async fn a_met_expectation_gives_no_difference() {
    let met = r#""result_has":["a","a=1.0","a>=1","b.c/d=x"],"result_lacks":["c"],
        "result_unchanged_paths":["a"],"body_identical_to_inner":true,"body_complete":true,
        "contains_text":["1.0"],"response_headers":{"content-type":"application/json","vary":null},
        "content_length":"must equal the new body length or be absent",
        "inner_sees_body_identical":true"#;
    let case = bare_case(met, PLAIN);
    let exchange = Exchange::new(&case);
    let outcome = exchange.run(exchange.service()).await.unwrap();
    assert_eq!(differences(&case, &outcome), [""; 0]);
}

#[test]
fn a_field_that_nobody_knows_is_an_error() {
    let line = bare_line(r#""result_hass":["a"]"#, PLAIN);
    let error = serde_json::from_str::<Case>(&line).unwrap_err();
    assert!(error.to_string().contains("result_hass"), "{error}");
}

fn bare_case(expect: &str, inner: &str) -> Arc<Case> {
    Arc::new(serde_json::from_str(&bare_line(expect, inner)).unwrap())
}

/// A case in which everything but the given members is plain.
fn bare_line(expect: &str, inner: &str) -> String {
    let over = |base: &str, members: &str| {
        let mut base: serde_json::Value = serde_json::from_str(base).unwrap();
        let members: serde_json::Value = serde_json::from_str(&format!("{{{members}}}")).unwrap();
        for (key, value) in members.as_object().unwrap() {
            base[key] = value.clone();
        }
        base
    };
    let expect = over(
        r#"{"status":200,"jsonrpc_error_code":null,"reaches_inner":true,"response_headers":{},
            "result_has":[],"result_lacks":[]}"#,
        expect,
    );
    let inner = over(
        r#"{"status":200,"headers":[],"content_type":"application/json"}"#,
        inner,
    );
    serde_json::json!({
        "id": "bare", "layer": "Stack (all layers)", "title": "", "config": {},
        "request": {"method": "POST", "path": "/mcp", "headers": [], "body": "{\"id\":7}"},
        "inner_response": inner, "expect": expect, "why": "", "spec": ""
    })
    .to_string()
}
