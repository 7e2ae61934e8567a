//! A server as people have it, behind the layers, for what the reference server does not do: its
//! handler has sessions, asks for a cookie, and answers with CORS headers of its own.
//!
//! ```sh
//! cargo run --example browser_sessions -- ORIGIN...
//! ```
//!
//! `GET /calls`, outside of the layers, tells how often the handler was called.

use std::{
    env,
    error::Error,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use axum::{
    Json, Router,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse as _, Response},
    routing::{any, get},
};
use mcp_layers::{McpLayer, OriginGuardLayer, ServerInfo};
use serde_json::{Value, json};
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut guard = OriginGuardLayer::new().allow_credentials(true);
    for origin in env::args().skip(1) {
        guard = guard.allow_origin(&origin)?;
    }
    let mcp = McpLayer::new(ServerInfo::new("sessions", "1"))
        .origin(guard)
        .legacy_streams(true);

    let calls = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&calls);
    let handler = move |headers: HeaderMap, body: String| {
        calls.fetch_add(1, Ordering::SeqCst);
        async move { answer(&headers, &body) }
    };
    let app = Router::new().route("/mcp", any(handler).layer(mcp)).route(
        "/calls",
        get(move || async move { count.load(Ordering::SeqCst).to_string() }),
    );
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("http://{}/mcp", listener.local_addr()?);
    axum::serve(listener, app).await?;
    Ok(())
}

fn answer(headers: &HeaderMap, body: &str) -> Response {
    let own = [("access-control-allow-origin", "*")];
    let Ok(request) = serde_json::from_str::<Value>(body) else {
        return (StatusCode::NO_CONTENT, own).into_response(); // a DELETE
    };
    let result =
        |result: Value| Json(json!({ "jsonrpc": "2.0", "id": request["id"], "result": result }));
    if request["method"] == "initialize" {
        let session = [("mcp-session-id", "session-1")];
        let hello = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "serverInfo": { "name": "sessions", "version": "1" },
        });
        return (own, session, result(hello)).into_response();
    }
    let cookie = headers.get("cookie").and_then(|it| it.to_str().ok());
    let user = cookie.and_then(|it| it.strip_prefix("user="));
    (own, result(json!({ "tools": [], "user": user }))).into_response()
}
