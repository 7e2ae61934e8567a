//! The command line of the gateway.

use std::time::Duration;

use axum::http::{Uri, uri::Scheme};
use mcp_layers::OriginGuardLayer;

pub(crate) const HELP: &str = "\
Serves any Streamable HTTP server to both generations of MCP clients, at /mcp

Usage: gateway --upstream URL [OPTION]...

  --upstream URL         the server, such as http://127.0.0.1:9000/mcp; only http
  --addr ADDRESS         listen on this address; port 0 takes a free one [127.0.0.1:8000]
  --allow-origin ORIGIN  admit the web pages of an origin, such as https://app.example;
                         may be given several times
  --allow-host HOST      be known under this name; may be given several times
  --timeout SECONDS      how long the server may take to begin an answer, and how long it may
                         be silent in one that it gives in a session [60]
  --help                 print this
";

/// What the command line asks for.
pub(crate) enum Command {
    Help,
    Serve(Box<Options>),
}

/// How to serve.
pub(crate) struct Options {
    pub(crate) upstream: Uri,
    pub(crate) address: String,
    pub(crate) guard: OriginGuardLayer,
    pub(crate) timeout: Duration,
}

impl Options {
    pub(crate) fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Command, String> {
        let mut upstream = None;
        let mut options = Self {
            upstream: Uri::default(),
            address: "127.0.0.1:8000".to_owned(),
            guard: OriginGuardLayer::new(),
            timeout: Duration::from_secs(60),
        };
        while let Some(argument) = arguments.next() {
            let (flag, value) = match argument.split_once('=') {
                Some((flag, value)) => (flag, Some(value.to_owned())),
                None => (&*argument, None),
            };
            if matches!(flag, "--help" | "-h") {
                return Ok(Command::Help);
            }
            let value = || {
                value
                    .or_else(|| arguments.next())
                    .ok_or(format!("{flag} needs a value"))
            };
            match flag {
                "--upstream" => upstream = Some(address(&value()?)?),
                "--addr" => options.address = value()?,
                "--allow-origin" => {
                    let guard = options.guard.allow_origin(&value()?);
                    options.guard = guard.map_err(|error| error.to_string())?;
                }
                "--allow-host" => {
                    let guard = options.guard.allow_host(&value()?);
                    options.guard = guard.map_err(|error| error.to_string())?;
                }
                "--timeout" => {
                    let seconds = value()?.parse::<f32>().ok();
                    let timeout = seconds.and_then(|it| Duration::try_from_secs_f32(it).ok());
                    let timeout = timeout.filter(|timeout| !timeout.is_zero());
                    options.timeout = timeout.ok_or("--timeout is no number of seconds")?;
                }
                _ => return Err(format!("unknown option {argument:?}")),
            }
        }
        options.upstream = upstream.ok_or("--upstream is missing")?;
        Ok(Command::Serve(Box::new(options)))
    }
}

fn address(text: &str) -> Result<Uri, String> {
    let uri = text.parse::<Uri>().map_err(|error| error.to_string())?;
    if uri.scheme() != Some(&Scheme::HTTP) || uri.host().is_none_or(str::is_empty) {
        return Err(format!("--upstream {text:?} is no http:// address"));
    }
    Ok(uri)
}
