//! The reference service behind every layer, as a route of an axum application.
//!
//! ```sh
//! cargo run --example axum
//! curl -s http://127.0.0.1:8000/mcp -H 'Content-Type: application/json' -d '{"jsonrpc":"2.0","id":1,"method":"tools/list"}'
//! ```

use std::io;

use axum::{Router, routing::get};
use mcp_layers::McpLayer;
use tokio::net::TcpListener;
use tower::Layer;

use self::common::tools;

mod common {
    pub(crate) mod tools;
}

#[tokio::main]
async fn main() -> io::Result<()> {
    let mcp = McpLayer::new(tools::server_info()).layer(tools::service());
    let app = Router::new()
        .route_service("/mcp", mcp)
        .route("/health", get(|| async { "well" })); // stays outside of the layers

    let listener = TcpListener::bind("127.0.0.1:8000").await?;
    println!("Serving MCP on http://{}/mcp", listener.local_addr()?);
    axum::serve(listener, app).await
}
