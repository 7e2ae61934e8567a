//! A server that shows everything that the reference service can do, with the fixtures that the
//! official conformance suite asks for.
//!
//! ```sh
//! cargo run --example everything
//! cargo run --example everything -- --addr 127.0.0.1:8001
//! ```

use std::{
    env,
    error::Error,
    io::{self, Write as _},
    net::SocketAddr,
    process::ExitCode,
    time::Duration,
};

use axum::Router;
use mcp_layers::{
    CacheHint, McpLayer, OriginGuardLayer, ServerInfo,
    reference::{LogLevel, Notifier, ReferenceService, StateSeal},
};
use tokio::net::TcpListener;
use tower::Layer as _;

mod everything {
    pub(crate) mod content;
    pub(crate) mod input;
    pub(crate) mod prompts;
    pub(crate) mod resources;
    pub(crate) mod tools;
}

use self::everything::{input, prompts, resources, tools};

#[tokio::main]
async fn main() -> ExitCode {
    match serve().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            eprintln!("everything: {fault}");
            ExitCode::FAILURE
        }
    }
}

async fn serve() -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind(address()?).await?;
    let address = listener.local_addr()?;
    let notifier = Notifier::new();
    let app = app(&notifier, address.ip().is_loopback())?;

    let mut stdout = io::stdout();
    writeln!(stdout, "Serving MCP on http://{address}/mcp")?;
    stdout.flush()?;

    let end = async move {
        interrupted().await;
        // Subscriptions have no end of their own: without this, nothing here would end.
        notifier.close();
    };
    axum::serve(listener, app)
        .with_graceful_shutdown(end)
        .await?;
    Ok(())
}

/// The address to listen on.
fn address() -> Result<SocketAddr, String> {
    let mut arguments = env::args().skip(1);
    match (
        arguments.next().as_deref(),
        arguments.next(),
        arguments.next(),
    ) {
        (None, None, None) => Ok(SocketAddr::from(([127, 0, 0, 1], 8000))),
        (Some("--addr"), Some(address), None) => address
            .parse()
            .map_err(|error| format!("--addr {address}: {error}")),
        _ => Err("usage: everything [--addr ADDRESS:PORT]".into()),
    }
}

async fn interrupted() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// The service and the layers around it.
fn app(notifier: &Notifier, is_local: bool) -> Result<Router, Box<dyn Error>> {
    let info = ServerInfo::new("mcp-layers-everything", env!("CARGO_PKG_VERSION"));
    let service = service(info.clone(), notifier)?;
    let origin = OriginGuardLayer::new().require_known_host(is_local);
    let mcp = McpLayer::new(info)
        .origin(origin)
        .cache("tools/list", CacheHint::public(Duration::from_secs(60)))
        .tool_schemas(service.tool_headers()?);
    Ok(Router::new().route_service("/mcp", mcp.layer(service)))
}

fn service(info: ServerInfo, notifier: &Notifier) -> Result<ReferenceService, Box<dyn Error>> {
    // A state that was sealed before a restart is refused after it. Servers that answer for each
    // other take one key out of their configuration.
    let mut key = [0; 32];
    getrandom::fill(&mut key)?;
    let service = ReferenceService::new(info)
        .logging(LogLevel::Info)
        .state_seal(StateSeal::new(key)?)
        .notifier(notifier.clone());
    let service = tools::add(service, notifier);
    let service = input::add(service);
    let service = prompts::add(service);
    Ok(resources::add(service)?)
}
