//! Puts the layers in front of any Streamable HTTP server, in whatever language it is written.
//!
//! ```sh
//! cargo run --example gateway -- --upstream http://127.0.0.1:9000/mcp
//! cargo run --example gateway -- --help
//! ```
//!
//! Clients of the handshake era pass straight through, with sessions of their own. Clients of
//! revision 2026-07-28 pass straight through too if the server knows the revision; if it does not,
//! they share one session that the gateway opens and keeps.

use std::{
    env,
    error::Error,
    io::{self, Write as _},
    process::ExitCode,
    time::Duration,
};

use axum::{Router, handler::Handler as _};
use mcp_layers::{LearnedTools, McpLayer, ServerInfo};
use tokio::{net::TcpListener, sync::oneshot, time::timeout};
use tower::Layer as _;

use self::gateway::{
    options::{Command, HELP, Options},
    proxy::{Gateway, handle},
    upstream::Upstream,
};

mod gateway {
    pub(crate) mod answer;
    pub(crate) mod events;
    pub(crate) mod options;
    pub(crate) mod proxy;
    pub(crate) mod session;
    pub(crate) mod upstream;
}

/// How long open requests may take once the gateway was asked to end.
const GRACE: Duration = Duration::from_secs(5);

#[tokio::main]
async fn main() -> ExitCode {
    let options = match Options::parse(env::args().skip(1)) {
        Ok(Command::Help) => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Ok(Command::Serve(options)) => *options,
        Err(fault) => {
            eprintln!("gateway: {fault} (try --help)");
            return ExitCode::from(2);
        }
    };
    match serve(options).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            eprintln!("gateway: {fault}");
            ExitCode::FAILURE
        }
    }
}

async fn serve(options: Options) -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind(&options.address).await?;
    let address = listener.local_addr()?;
    // A gateway that only this machine can reach has no other names than those of loopback.
    let is_local = address.ip().to_canonical().is_loopback();

    let gateway = Gateway::new(Upstream::new(options.upstream, options.timeout));
    let mcp = McpLayer::new(ServerInfo::new(
        "mcp-layers-gateway",
        env!("CARGO_PKG_VERSION"),
    ))
    .origin(options.guard.require_known_host(is_local))
    .legacy_streams(true)
    .tool_schemas(LearnedTools::new());
    let service = mcp.layer(handle.with_state(gateway.clone()));
    let app = Router::new().route_service("/mcp", service);

    writeln!(io::stdout(), "Serving MCP on http://{address}/mcp")?;
    let (stopping, stopped) = oneshot::channel();
    let serving = axum::serve(listener, app).with_graceful_shutdown(async move {
        stop().await;
        let _ = stopping.send(());
    });
    tokio::select! {
        ended = serving => ended?,
        // Streams of the handshake era never end by themselves.
        () = async { let _ = stopped.await; tokio::time::sleep(GRACE).await } => {}
    }
    let _ = timeout(GRACE, gateway.close()).await;
    Ok(())
}

/// Ctrl-C or SIGTERM.
async fn stop() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = tokio::signal::ctrl_c() => {}
            }
            return;
        }
    }
    let _ = tokio::signal::ctrl_c().await;
}
