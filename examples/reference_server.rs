//! Serves the reference service on axum, behind every check, to clients of both eras.
//!
//! ```sh
//! cargo run --example reference_server
//! cargo run --example reference_server -- --help
//! ```

use std::{
    env,
    io::{self, Write as _},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    process::{self, ExitCode},
    sync::Arc,
    time::Duration,
};

use axum::{
    Router,
    extract::{Request, State},
    http::{HeaderMap, StatusCode, header},
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse as _, Response},
};
use mcp_layers::{Eras, McpLayer, mirror::InvalidAnnotation};
use tokio::{net::TcpListener, time::timeout};
use tower::Layer as _;

use self::common::{
    options::{Command, HELP, Options},
    tools,
};

mod common {
    pub(crate) mod options;
    pub(crate) mod tools;
}

/// How long open requests may take once the server was asked to end.
const GRACE: Duration = Duration::from_secs(10);

#[tokio::main]
async fn main() -> ExitCode {
    let options = match Options::parse(env::args_os().skip(1)) {
        Ok(Command::Serve(options)) => options,
        Ok(Command::Help) => {
            print(HELP);
            return ExitCode::SUCCESS;
        }
        Err(fault) => {
            eprintln!("reference_server: {fault} (try --help)");
            return ExitCode::from(2);
        }
    };
    match serve(options).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            eprintln!("reference_server: {fault}");
            ExitCode::FAILURE
        }
    }
}

async fn serve(options: Options) -> Result<(), String> {
    let listener = TcpListener::bind(&options.addresses[..])
        .await
        .map_err(|error| format!("cannot listen on {}: {error}", options.addresses[0]))?;
    let address = listener.local_addr().map_err(|error| error.to_string())?;
    let mut signals = Signals::listen().map_err(|error| error.to_string())?;

    let is_local = address.ip().to_canonical().is_loopback();
    if !is_local && !options.names_hosts {
        eprintln!(
            "reference_server: warning: other machines can reach {address}, and no --allow-host \
             tells the names of this server"
        );
    }
    let app = app(&options, is_local).map_err(|error| error.to_string())?;
    print(&greeting(address, &options));

    axum::serve(listener, app)
        .with_graceful_shutdown(async move {
            signals.next().await;
            // Open requests are finished, if they end soon; whoever asks twice does not want to
            // wait for them at all.
            tokio::spawn(async move {
                let asked = timeout(GRACE, signals.next()).await;
                process::exit(if asked.is_ok() { 130 } else { 0 });
            });
        })
        .await
        .map_err(|error| error.to_string())
}

/// The service and the layers around it.
fn app(options: &Options, is_local: bool) -> Result<Router, InvalidAnnotation> {
    let service = tools::service();
    // A server that only this machine can reach has no other names than those of loopback.
    let origin = options.guard.clone().require_known_host(is_local);
    let mcp = McpLayer::new(tools::server_info())
        .origin(origin)
        .authenticate(from_fn_with_state(options.token.clone(), authenticate))
        .eras(options.eras)
        .legacy_streams(options.legacy_streams)
        .tool_schemas(service.tool_headers()?);
    Ok(Router::new().route_service("/mcp", mcp.layer(service)))
}

/// Asks for the token, if there is one.
async fn authenticate(
    State(token): State<Option<Arc<str>>>,
    request: Request,
    next: Next,
) -> Response {
    match token {
        Some(token) if !bears(request.headers(), &token) => {
            let challenge = [(header::WWW_AUTHENTICATE, "Bearer")];
            (StatusCode::UNAUTHORIZED, challenge).into_response()
        }
        _ => next.run(request).await,
    }
}

fn bears(headers: &HeaderMap, token: &str) -> bool {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return false;
    };
    match value.as_bytes().split_at_checked("Bearer ".len()) {
        Some((scheme, given)) if scheme.eq_ignore_ascii_case(b"Bearer ") => {
            // Looks at every byte: how long it takes must not tell where the first wrong one is.
            let pairs = given.iter().zip(token.as_bytes());
            given.len() == token.len() && pairs.fold(0, |wrong, (a, b)| wrong | (a ^ b)) == 0
        }
        _ => false,
    }
}

/// The address, and a command to try for each era that is served.
fn greeting(address: SocketAddr, options: &Options) -> String {
    const MODERN: &str = r#" -H 'MCP-Protocol-Version: 2026-07-28' -H 'Mcp-Method: tools/list' -d '{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}'"#;
    const LEGACY: &str = r#" -d '{"jsonrpc":"2.0","id":1,"method":"tools/list"}'"#;

    let host = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    let url = format!("http://{}/mcp", SocketAddr::new(host, address.port()));
    let token = options.token.as_ref().map(|token| {
        let quoted = token.replace('\'', r"'\''");
        format!(" -H 'Authorization: Bearer {quoted}'")
    });
    let curl = format!(
        "curl -s '{url}' -H 'Content-Type: application/json'{}",
        token.unwrap_or_default()
    );
    let mut lines = vec![format!("Serving MCP on {url}")];
    if options.eras != Eras::LegacyOnly {
        lines.push(format!("\nRevision 2026-07-28:\n  {curl}{MODERN}"));
    }
    if options.eras != Eras::ModernOnly {
        lines.push(format!("\nThe handshake era:\n  {curl}{LEGACY}"));
    }
    lines.join("\n") + "\n"
}

/// Prints at once, also into a file or a pipe, and does not mind if nobody reads it.
fn print(text: &str) {
    let mut stdout = io::stdout().lock();
    let _ = stdout.write_all(text.as_bytes());
    let _ = stdout.flush();
}

/// Ctrl-C and SIGTERM.
struct Signals {
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
}

impl Signals {
    fn listen() -> io::Result<Self> {
        #[cfg(unix)]
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            #[cfg(unix)]
            interrupt: signal(SignalKind::interrupt())?,
            #[cfg(unix)]
            terminate: signal(SignalKind::terminate())?,
        })
    }

    async fn next(&mut self) {
        #[cfg(unix)]
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
        #[cfg(not(unix))]
        let _ = tokio::signal::ctrl_c().await;
    }
}
