//! A handler that somebody wrote by hand for the handshake era, and one layer that lets it serve
//! both generations of clients.
//!
//! ```sh
//! cargo run --example handmade              # with the layer
//! cargo run --example handmade -- --plain   # without: clients of revision 2026-07-28 give up
//! ```

use std::{env, process::ExitCode};

use axum::{
    Json, Router,
    handler::Handler,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
    routing::any,
};
use mcp_layers::{DiscoverLayer, McpLayer, OriginGuardLayer, ServerInfo};
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// The whole server. It was not changed for revision 2026-07-28, and knows nothing of it.
async fn handler(headers: HeaderMap, Json(request): Json<Value>) -> Response {
    // What 2025-06-18 asks of servers.
    let version = headers.get("mcp-protocol-version");
    if version.is_some_and(|version| version != "2025-11-25" && version != "2025-06-18") {
        return (StatusCode::BAD_REQUEST, "unknown protocol version").into_response();
    }
    let Some(id) = request.get("id") else {
        return StatusCode::ACCEPTED.into_response();
    };
    let params = &request["params"];
    let answer = match request["method"].as_str() {
        Some("initialize") => Ok(json!({
            "protocolVersion": "2025-11-25",
            "capabilities": { "tools": {}, "logging": {} },
            "serverInfo": { "name": "handmade", "version": "1.0.0" },
        })),
        Some("ping") => Ok(json!({})),
        Some("tools/list") => Ok(json!({ "tools": tools() })),
        Some("tools/call") => match (&params["name"], params["arguments"]["text"].as_str()) {
            (name, _) if name == "hello" => Ok(text("hello")),
            (name, Some(given)) if name == "echo" => Ok(text(given)),
            _ => Err((-32602, "unknown tool, or no text")),
        },
        _ => Err((-32601, "method not found")),
    };
    Json(match answer {
        Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
        Err((code, message)) => {
            json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } })
        }
    })
    .into_response()
}

fn tools() -> Value {
    let text = json!({ "text": { "type": "string" } });
    let echo = json!({ "type": "object", "properties": text, "required": ["text"] });
    json!([
        { "name": "hello", "description": "Says hello", "inputSchema": { "type": "object" } },
        { "name": "echo", "description": "Returns the text", "inputSchema": echo },
    ])
}

fn text(text: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": text }] })
}

/// The one layer.
fn layered() -> Result<Router, mcp_layers::era::InvalidVersion> {
    let mcp = McpLayer::new(ServerInfo::new("handmade", "1.0.0"))
        .origin(OriginGuardLayer::new().require_known_host(true))
        .discover(DiscoverLayer::from_initialize().present_as("2025-11-25")?);
    Ok(Router::new().route("/mcp", any(handler.layer(mcp))))
}

#[tokio::main]
async fn main() -> ExitCode {
    match serve().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            eprintln!("handmade: {fault}");
            ExitCode::FAILURE
        }
    }
}

async fn serve() -> Result<(), Box<dyn std::error::Error>> {
    let (mut address, mut app) = ("127.0.0.1:8000".to_owned(), layered()?);
    let mut arguments = env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match &*argument {
            "--plain" => app = Router::new().route("/mcp", any(handler)),
            "--addr" => address = arguments.next().ok_or("--addr needs an address")?,
            other => {
                return Err(format!("unknown flag {other}; there are --addr and --plain").into());
            }
        }
    }
    let listener = TcpListener::bind(&address).await?;
    println!("Serving MCP on http://{}/mcp", listener.local_addr()?);
    Ok(axum::serve(listener, app).await?)
}
