//! The reference service behind every layer, on hyper alone: HTTP/1.1 and HTTP/2 on one port.
//!
//! ```sh
//! cargo run --example hyper
//! curl -s --http2-prior-knowledge http://127.0.0.1:8000/mcp -H 'Content-Type: application/json' -d '{"jsonrpc":"2.0","id":1,"method":"tools/list"}'
//! ```

use std::io;

use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
    service::TowerToHyperService,
};
use mcp_layers::McpLayer;
use tokio::net::TcpListener;
use tower::ServiceBuilder;

use self::common::tools;

mod common {
    pub(crate) mod tools;
}

#[tokio::main]
async fn main() -> io::Result<()> {
    let service = ServiceBuilder::new()
        .layer(McpLayer::new(tools::server_info()))
        .service(tools::service());

    let listener = TcpListener::bind("127.0.0.1:8000").await?;
    println!("Serving MCP on http://{}/mcp", listener.local_addr()?);
    loop {
        let (stream, _) = listener.accept().await?;
        let service = TowerToHyperService::new(service.clone());
        tokio::spawn(async move {
            let server = auto::Builder::new(TokioExecutor::new());
            let serving = server.serve_connection(TokioIo::new(stream), service);
            if let Err(error) = serving.await {
                eprintln!("a connection failed: {error}");
            }
        });
    }
}
