//! The requests that are measured, with what answers them and what they may cost.

use std::fmt::Write;

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::Full;
use mcp_layers::{
    EnvelopeLayer, EraResolverLayer, McpLayer, MirrorHeaderValidatorLayer, OriginGuardLayer,
    reference::{ReferenceService, Tool, ToolCall, ToolError, ToolResult},
};
use serde_json::json;
use tower::Layer;

use super::service::{Bare, Run, Stack, run, server};

/// One request, and the service that answers it.
#[derive(Clone, Debug)]
pub struct Case {
    pub name: &'static str,
    request: Request<Full<Bytes>>,
    service: Service,
    /// What all layers together answer.
    pub status: StatusCode,
    pub budget: Budget,
}

#[derive(Clone, Debug)]
enum Service {
    Bare(Bare),
    Reference(ReferenceService),
}

/// What a request may cost: beyond the bare service, or in all.
#[derive(Clone, Copy, Debug, Default)]
pub struct Budget {
    pub in_all: bool,
    pub row: Limit,
    pub mcp_layer: Limit,
    /// How many parts of the answer share the costs.
    pub parts: Option<u32>,
}

/// Zero where there is no limit.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limit {
    pub nanoseconds: u32,
    pub allocations: usize,
}

/// Puts a stack around a service: a macro, since each layer hands on another type of body.
macro_rules! mount {
    ($service:expr, $stack:expr) => {{
        let (service, server) = ($service, server());
        let (origin, eras) = (OriginGuardLayer::new(), EraResolverLayer::new());
        let mirror = MirrorHeaderValidatorLayer::new();
        let envelope = EnvelopeLayer::new(server.clone());
        match $stack {
            Stack::Nothing => run(service),
            Stack::OriginGuard => run(origin.layer(service)),
            Stack::EraResolver => run(eras.layer(service)),
            Stack::MirrorHeaderValidator => run(mirror.layer(service)),
            Stack::Envelope => run(envelope.layer(service)),
            Stack::Row => run(origin.layer(eras.layer(mirror.layer(envelope.layer(service))))),
            Stack::McpLayer => run(McpLayer::new(server).layer(service)),
        }
    }};
}

impl Case {
    fn new(name: &'static str, request: Request<Full<Bytes>>, answer: Bare) -> Self {
        Self {
            name,
            request,
            service: Service::Bare(answer),
            status: StatusCode::OK,
            budget: Budget::default(),
        }
    }

    fn reference(
        name: &'static str,
        request: Request<Full<Bytes>>,
        service: &ReferenceService,
    ) -> Self {
        Self {
            service: Service::Reference(service.clone()),
            ..Self::new(name, request, Bare::json(""))
        }
    }

    /// A case whose request is one of several sizes.
    pub fn growing(request: Request<Full<Bytes>>) -> Self {
        Self::new("growth", request, short())
    }

    fn answered(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }

    /// Limits what the layers cost, beyond the bare service.
    fn row(mut self, nanoseconds: u32, allocations: usize) -> Self {
        self.budget.row = Limit {
            nanoseconds,
            allocations,
        };
        self
    }

    fn mcp_layer(mut self, nanoseconds: u32, allocations: usize) -> Self {
        self.budget.mcp_layer = Limit {
            nanoseconds,
            allocations,
        };
        self
    }

    /// Limits the costs in all.
    fn in_all(mut self) -> Self {
        self.budget.in_all = true;
        self
    }

    /// Limits the costs of each of the parts of an answer.
    fn each_of(mut self, parts: u32) -> Self {
        self.budget.parts = Some(parts);
        self
    }

    /// The request, to be handled once.
    pub fn request(&self) -> Request<Full<Bytes>> {
        self.request.clone()
    }

    /// How many bytes the request's body has.
    pub fn length(&self) -> u64 {
        http_body::Body::size_hint(self.request.body()).lower()
    }

    /// Puts the service behind a stack.
    pub fn mount(&self, stack: Stack) -> Run {
        match &self.service {
            Service::Bare(service) => mount!(service.clone(), stack),
            Service::Reference(service) => mount!(service.clone(), stack),
        }
    }

    /// The stacks that the case is measured with.
    pub fn stacks(&self) -> &'static [Stack] {
        match &self.service {
            Service::Bare(_) => &Stack::ALL,
            Service::Reference(_) => &[Stack::Nothing, Stack::McpLayer],
        }
    }
}

/// The figures that `ARCHITECTURE.md` has budgets for, and those beside them.
pub fn all() -> Vec<Case> {
    let mut cases = small();
    cases.extend(lists());
    cases.extend(large());
    cases.extend(streams());
    cases
}

/// Short requests with short answers.
pub fn small() -> Vec<Case> {
    let call = modern_call(r#"{"city":"Paris"}"#);
    let mut mismatch = call.clone();
    let headers = mismatch.headers_mut();
    headers.insert("mcp-name", "harmless".parse().unwrap());
    let mut foreign = call.clone();
    let headers = foreign.headers_mut();
    headers.insert("origin", "https://evil.example".parse().unwrap());
    let mut unknown = legacy("tools/call", r#""name":"get_weather""#);
    let headers = unknown.headers_mut();
    headers.insert("mcp-protocol-version", "2027-01-01".parse().unwrap());
    let few = reference(21);
    vec![
        Case::new("small modern call", call.clone(), short())
            .row(3_200, 8)
            .mcp_layer(2_200, 8),
        Case::new(
            "small legacy call",
            legacy_call(r#"{"city":"Paris"}"#),
            short(),
        )
        .row(2_100, 7)
        .mcp_layer(1_250, 7),
        Case::new("refusal of a name", mismatch, short())
            .answered(StatusCode::BAD_REQUEST)
            .mcp_layer(2_800, 10)
            .in_all(),
        Case::new("refusal of a version", unknown, short())
            .answered(StatusCode::BAD_REQUEST)
            .mcp_layer(2_800, 10)
            .in_all(),
        Case::new("refusal of an origin", foreign, short())
            .answered(StatusCode::FORBIDDEN)
            .mcp_layer(2_800, 10)
            .in_all(),
        Case::reference("reference service, small modern call", call, &few),
        Case::reference(
            "reference service, small legacy call",
            legacy_call(r#"{"city":"Paris"}"#),
            &few,
        ),
    ]
}

/// Lists of tools.
pub fn lists() -> Vec<Case> {
    let (modern, legacy) = (modern("tools/list", ""), legacy("tools/list", ""));
    let (few, many) = (reference(21), reference(300));
    vec![
        Case::new("modern list of 21 tools", modern.clone(), list(21)).mcp_layer(16_000, 14),
        Case::new("legacy list of 21 tools", legacy.clone(), list(21)),
        Case::new("modern list of 300 tools", modern.clone(), list(300)),
        Case::new("legacy list of 300 tools", legacy.clone(), list(300)),
        Case::reference(
            "reference service, modern list of 21 tools",
            modern.clone(),
            &few,
        )
        .mcp_layer(5_000, 14)
        .in_all(),
        Case::reference(
            "reference service, legacy list of 21 tools",
            legacy.clone(),
            &few,
        ),
        Case::reference("reference service, modern list of 300 tools", modern, &many),
        Case::reference("reference service, legacy list of 300 tools", legacy, &many),
    ]
}

/// Long requests with short answers.
pub fn large() -> Vec<Case> {
    let call = |name, shape: Shape, bytes| Case::new(name, modern_call(&shape.of(bytes)), short());
    vec![
        call("100 KB argument, ASCII", Shape::Ascii, 100_000).mcp_layer(25_000, 8),
        call("100 KB argument, escapes", Shape::Escapes, 100_000).mcp_layer(80_000, 8),
        call("100 KB argument, multi-byte", Shape::MultiByte, 100_000).mcp_layer(160_000, 8),
        Case::new(
            "100 KB argument, ASCII, legacy",
            legacy_call(&Shape::Ascii.of(100_000)),
            short(),
        ),
        call("2,000 keys", Shape::Keys, 2_000 * Shape::KEY).mcp_layer(70_000, 0),
        call("100,000 levels", Shape::Levels, 200_000),
        call("4 MB argument", Shape::Ascii, 4_000_000).mcp_layer(700_000, 0),
    ]
}

/// Answers that are streams of events.
pub fn streams() -> Vec<Case> {
    const ANSWER: &str = concat!(
        "event: message\nid: 7\ndata: ",
        r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"12 degrees"}]}}"#,
        "\n\n"
    );
    const PROGRESS: &str = concat!(
        "event: message\ndata: ",
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":50,"total":100}}"#,
        "\n\n"
    );
    let call = modern_call(r#"{"city":"Paris"}"#);
    vec![
        Case::new(
            "1,000 events, stamped",
            call.clone(),
            Bare::events(ANSWER, 1_000),
        )
        .mcp_layer(450, 0)
        .each_of(1_000),
        Case::new(
            "1,000 events, passed",
            call.clone(),
            Bare::events(PROGRESS, 1_000),
        )
        .mcp_layer(200, 0)
        .each_of(1_000),
        Case::new(
            "1,000 events, legacy",
            legacy_call("{}"),
            Bare::events(ANSWER, 1_000),
        )
        .each_of(1_000),
    ]
}

/// What an argument is made of.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    Ascii,
    Escapes,
    MultiByte,
    Keys,
    Levels,
    Numbers,
}

impl Shape {
    pub const ALL: [Self; 6] = [
        Self::Ascii,
        Self::Escapes,
        Self::MultiByte,
        Self::Keys,
        Self::Levels,
        Self::Numbers,
    ];

    /// The bytes of one member of [`Keys`](Self::Keys).
    const KEY: usize = r#""key_0000000":"value_0000000","#.len();

    pub fn name(self) -> &'static str {
        match self {
            Self::Ascii => "ASCII",
            Self::Escapes => "escapes",
            Self::MultiByte => "multi-byte",
            Self::Keys => "keys",
            Self::Levels => "levels",
            Self::Numbers => "numbers",
        }
    }

    /// An object of about this many bytes, as JSON text.
    pub fn of(self, bytes: usize) -> String {
        let text = |text: &str| text.repeat(bytes / text.len());
        match self {
            Self::Ascii => format!(r#"{{"text":"{}"}}"#, text("The quick brown fox. ")),
            Self::Escapes => format!(r#"{{"text":"{}"}}"#, text(r#"\n\"a\u00e9"#)),
            Self::MultiByte => format!(r#"{{"text":"{}"}}"#, text("Съешь же ещё 世界 ")),
            Self::Keys => {
                let mut object = String::from("{");
                for key in 0..bytes / Self::KEY {
                    write!(object, r#""key_{key:07}":"value_{key:07}","#).unwrap();
                }
                object.pop();
                object.push('}');
                object
            }
            Self::Levels => {
                let levels = bytes / 2;
                format!(r#"{{"a":{}{}}}"#, "[".repeat(levels), "]".repeat(levels))
            }
            Self::Numbers => format!(r#"{{"a":[{}0]}}"#, text("-12.5e3,")),
        }
    }
}

/// A modern call of `get_weather`; with short arguments, of about 300 bytes.
pub fn modern_call(arguments: &str) -> Request<Full<Bytes>> {
    let params = format!(r#""name":"get_weather","arguments":{arguments}"#);
    let mut request = modern("tools/call", &params);
    let headers = request.headers_mut();
    headers.insert("mcp-name", "get_weather".parse().unwrap());
    request
}

pub fn legacy_call(arguments: &str) -> Request<Full<Bytes>> {
    let params = format!(r#""name":"get_weather","arguments":{arguments}"#);
    legacy("tools/call", &params)
}

/// A service that answers in a few bytes.
pub fn short() -> Bare {
    Bare::json(
        r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"12 degrees"}]}}"#,
    )
}

fn modern(method: &str, params: &str) -> Request<Full<Bytes>> {
    const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1.0"},"io.modelcontextprotocol/clientCapabilities":{}}"#;
    let comma = if params.is_empty() { "" } else { "," };
    let mut request = post(method, &format!("{params}{comma}{META}"));
    let headers = request.headers_mut();
    headers.insert("mcp-protocol-version", "2026-07-28".parse().unwrap());
    headers.insert("mcp-method", method.parse().unwrap());
    request
}

fn legacy(method: &str, params: &str) -> Request<Full<Bytes>> {
    let mut request = post(method, params);
    let headers = request.headers_mut();
    headers.insert("mcp-protocol-version", "2025-11-25".parse().unwrap());
    request
}

fn post(method: &str, params: &str) -> Request<Full<Bytes>> {
    let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{{params}}}}}"#);
    Request::post("/mcp")
        .header("host", "127.0.0.1:8000")
        .header("user-agent", "bench/1.0")
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .header("content-length", body.len())
        .body(Full::new(body.into()))
        .unwrap()
}

fn tool(number: usize) -> Tool {
    let schema = json!({
        "type": "object",
        "properties": {
            "city": { "type": "string", "description": "The city's name, in any language" },
            "days": { "type": "integer", "minimum": 1 },
        },
        "required": ["city"],
    });
    let name = match number {
        0 => "get_weather".into(),
        number => format!("get_weather_{number}"),
    };
    Tool::new(name, schema).description("Tells the weather of the next days, in a place")
}

/// A service of this crate with this many tools.
pub fn reference(tools: usize) -> ReferenceService {
    async fn weather(_: ToolCall) -> Result<ToolResult, ToolError> {
        Ok(ToolResult::text("12 degrees"))
    }
    (0..tools).fold(ReferenceService::new(server()), |service, number| {
        service.tool(tool(number), weather)
    })
}

/// A service that knows nothing of this crate, and answers with a list of this many tools.
fn list(tools: usize) -> Bare {
    let tools = (0..tools).map(tool).map(|tool| {
        json!({
            "name": tool.name(),
            "description": "Tells the weather of the next days, in a place",
            "inputSchema": tool.input_schema(),
        })
    });
    let list =
        json!({ "jsonrpc": "2.0", "id": 1, "result": { "tools": tools.collect::<Vec<_>>() } });
    Bare::json(list.to_string())
}
