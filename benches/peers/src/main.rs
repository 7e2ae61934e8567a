//! Serves the same tools with this crate and with others, one of them each time:
//! `peers usual|usual-layers|lean|lean-layers|lean-least|reference|rmcp|tower-mcp`. Prints the address, a
//! port of the system's choice.

mod least;
mod others;

use std::{convert::Infallible, env, error::Error, sync::LazyLock};

use axum::{
    Json, Router,
    extract::Request as AxumRequest,
    handler::Handler,
    response::Response as AxumResponse,
    routing::{Route, any, post},
};
use mcp_layers::{
    McpLayer, ServerInfo,
    reference::{ReferenceService, Tool, ToolCall, ToolResult},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tower::{Layer, Service, layer::layer_fn, service_fn};

pub(crate) const TOOLS: usize = 21;
pub(crate) const DESCRIPTION: &str = "Tells the weather of the next days, in a place";
pub(crate) const ANSWER: &str = "12 degrees";

/// One thread each for the server and for the load, so that neither takes the other's.
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let which = env::args().nth(1).unwrap_or_default();
    let layer = McpLayer::new(server());
    let app = match &*which {
        "usual" => Router::new().route("/mcp", post(usual)),
        "usual-layers" => Router::new().route("/mcp", any(usual.layer(layer))),
        "lean" => Router::new().route("/mcp", post(lean)),
        "lean-layers" => Router::new().route("/mcp", any(lean.layer(layer))),
        "lean-least" => Router::new().route("/mcp", any(lean).layer(layer_fn(behind_the_least))),
        "reference" => Router::new().route_service("/mcp", layer.layer(reference())),
        "rmcp" => others::rmcp(),
        "tower-mcp" => others::tower_mcp(),
        other => return Err(format!("no such server: {other}").into()),
    };
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("http://{}/mcp", listener.local_addr()?);
    axum::serve(listener, app).await?;
    Ok(())
}

fn behind_the_least(
    inner: Route,
) -> impl Clone + Service<AxumRequest, Response = AxumResponse, Error = Infallible, Future: Send> {
    service_fn(move |request| least::least(inner.clone(), request))
}

fn server() -> ServerInfo {
    ServerInfo::new("peers", "1.0.0")
}

pub(crate) fn names() -> impl Iterator<Item = String> {
    let numbered = (1..TOOLS).map(|number| format!("get_weather_{number}"));
    std::iter::once("get_weather".to_owned()).chain(numbered)
}

pub(crate) fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "city": { "type": "string", "description": "The city's name, in any language" },
            "days": { "type": "integer", "minimum": 1 },
        },
        "required": ["city"],
    })
}

fn tools() -> Value {
    let tools = names()
        .map(|name| json!({ "name": name, "description": DESCRIPTION, "inputSchema": schema() }));
    json!({ "tools": tools.collect::<Value>() })
}

/// A handler as people write it by hand, and as the README shows it: it knows tools, and nothing of
/// eras.
async fn usual(Json(request): Json<Value>) -> Json<Value> {
    let params = &request["params"];
    let result = match request["method"].as_str() {
        Some("tools/list") => tools(),
        Some("tools/call") if params["arguments"]["city"].is_string() => {
            json!({ "content": [{ "type": "text", "text": ANSWER }] })
        }
        _ => json!({}),
    };
    Json(json!({ "jsonrpc": "2.0", "id": request["id"], "result": result }))
}

#[derive(Deserialize)]
struct Request {
    id: Value,
    method: String,
}

#[derive(Serialize)]
struct Response {
    jsonrpc: &'static str,
    id: Value,
    result: &'static Value,
}

/// The same in as little time as can be: it reads two members, and its answers are made beforehand.
async fn lean(Json(request): Json<Request>) -> Json<Response> {
    static LIST: LazyLock<Value> = LazyLock::new(tools);
    static ANSWERED: LazyLock<Value> =
        LazyLock::new(|| json!({ "content": [{ "type": "text", "text": ANSWER }] }));
    Json(Response {
        jsonrpc: "2.0",
        id: request.id,
        result: match &*request.method {
            "tools/list" => &LIST,
            _ => &ANSWERED,
        },
    })
}

fn reference() -> ReferenceService {
    names().fold(ReferenceService::new(server()), |service, name| {
        let tool = Tool::new(name, schema()).description(DESCRIPTION);
        service.tool(tool, |_: ToolCall| async { Ok(ToolResult::text(ANSWER)) })
    })
}
