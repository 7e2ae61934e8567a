//! What operators are told when a check is weakened or cannot be made.
//!
//! The subscriber is that of the whole process: one of a thread would race with the caches of
//! `tracing` while another thread meets the same place first.

mod support;

use std::{
    fmt,
    sync::{Mutex, Once},
};

use mcp_layers::{LearnedTools, McpLayer, Quirk, ServerInfo};
use serde_json::json;
use support::{Chunks, plain, post, send, tools_call};
use tower::Layer;
use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

/// What the warnings named, in order.
static NAMED: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Runs one test at a time, and gives the warnings that come while it runs.
async fn watch() -> tokio::sync::MutexGuard<'static, ()> {
    static INSTALLED: Once = Once::new();
    static TURN: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
    INSTALLED.call_once(|| tracing::subscriber::set_global_default(Warnings).unwrap());
    let turn = TURN.lock().await;
    NAMED.lock().unwrap().clear();
    turn
}

fn named() -> Vec<String> {
    NAMED.lock().unwrap().clone()
}

struct Warnings;

impl Visit for Warnings {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "quirk" || field.name() == "limit" {
            NAMED.lock().unwrap().push(format!("{value:?}"));
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "tool" {
            NAMED.lock().unwrap().push(value.to_owned());
        }
    }
}

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::WARN
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        event.record(&mut Self);
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

// rule P1
#[tokio::test]
async fn a_tool_that_cannot_be_checked_is_reported_once() {
    let _turn = watch().await;
    let tools = LearnedTools::new().max_bytes_per_tool(200);
    let tool = |name: &str, header: &str, description: String| {
        let region = json!({ "type": "string", "x-mcp-header": header });
        let schema = json!({ "properties": { "region": region }, "description": description });
        json!({ "name": name, "inputSchema": schema })
    };
    let all = [
        tool("good", "A", String::new()),
        tool("bad", "", String::new()),
        tool("long", "X", "x".repeat(200)),
    ];
    let list = json!({ "jsonrpc": "2.0", "id": 1, "result": { "tools": all } }).to_string();
    for _ in 0..3 {
        tools.learn(list.as_bytes());
    }
    assert_eq!(
        named(),
        ["bad", "long", "200"],
        "the long one with the limit"
    );
}

// rule E11
#[tokio::test]
async fn a_tolerance_is_reported_whenever_it_acts() {
    let _turn = watch().await;
    let stack = McpLayer::new(ServerInfo::new("test", "1"))
        .tolerate(Quirk::LegacyHeaderOnModernClaim)
        .tolerate(Quirk::ModernHeaderInSession)
        .layer(plain());
    let mut wrong = tools_call();
    let legacy = http::HeaderValue::from_static("2025-11-25");
    wrong.headers_mut().insert("mcp-protocol-version", legacy);
    assert_eq!(send(stack.clone(), wrong).await.status(), 200);
    let mut session = post(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
    for (name, value) in [
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-session-id", "s"),
    ] {
        let value = http::HeaderValue::from_static(value);
        session.headers_mut().insert(name, value);
    }
    assert_eq!(send(stack.clone(), session).await.status(), 200);
    assert_eq!(send(stack, tools_call()).await.status(), 200);
    assert_eq!(
        named(),
        ["LegacyHeaderOnModernClaim", "ModernHeaderInSession"]
    );
}

// rule V7
#[tokio::test]
async fn an_answer_above_the_limit_is_reported() {
    let _turn = watch().await;
    let stack = McpLayer::new(ServerInfo::new("test", "1")).answer_limit(10);
    let long = support::inner(|| {
        let response = http::Response::builder().header("content-type", "application/json");
        response
            .body(Chunks::one(r#"{"id":1,"result":{}}"#))
            .unwrap()
    });
    assert_eq!(send(stack.layer(long), tools_call()).await.status(), 200);
    assert_eq!(named(), ["10"]);
}
