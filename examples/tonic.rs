//! gRPC and MCP on one port: tonic's health service beside the reference service.
//!
//! ```sh
//! cargo run --example tonic
//! curl -s http://127.0.0.1:8000/mcp -H 'Content-Type: application/json' -d '{"jsonrpc":"2.0","id":1,"method":"tools/list"}'
//! grpcurl -plaintext 127.0.0.1:8000 grpc.health.v1.Health/Check
//! ```

use std::io;

use mcp_layers::McpLayer;
use tokio::net::TcpListener;
use tonic::service::Routes;
use tower::Layer;

use self::common::tools;

mod common {
    pub(crate) mod tools;
}

#[tokio::main]
async fn main() -> io::Result<()> {
    let (_reporter, health) = tonic_health::server::health_reporter();
    let mcp = McpLayer::new(tools::server_info()).layer(tools::service());
    let app = Routes::new(health)
        .into_axum_router()
        .route_service("/mcp", mcp);

    let listener = TcpListener::bind("127.0.0.1:8000").await?;
    println!("Serving MCP on http://{}/mcp", listener.local_addr()?);
    axum::serve(listener, app).await
}
