//! The command line of the reference server.

use std::{
    ffi::OsString,
    net::{SocketAddr, ToSocketAddrs as _},
    sync::Arc,
};

use mcp_layers::{Eras, OriginGuardLayer};

pub(crate) const HELP: &str = "\
Serves four small tools over the Model Context Protocol, at /mcp

Usage: reference_server [OPTION]...

  --addr ADDRESS         listen on this address; port 0 takes a free one [127.0.0.1:8000]
  --allow-origin ORIGIN  admit the web pages of an origin, such as https://app.example;
                         may be given several times
  --allow-host HOST      be known under this name; may be given several times
  --token TOKEN          ask every request for this bearer token; the commands that are
                         printed contain it
  --eras ERAS            serve `both` eras, only the `modern` one, or only the `legacy` one [both]
  --legacy-streams       pass GET and DELETE of the handshake era on to the service
  --help                 print this
";

/// What the command line asks for.
pub(crate) enum Command {
    Help,
    Serve(Options),
}

/// How to serve.
pub(crate) struct Options {
    /// What one address stands for: a name can have several.
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) guard: OriginGuardLayer,
    pub(crate) names_hosts: bool,
    pub(crate) token: Option<Arc<str>>,
    pub(crate) eras: Eras,
    pub(crate) legacy_streams: bool,
}

impl Options {
    pub(crate) fn parse(mut arguments: impl Iterator<Item = OsString>) -> Result<Command, String> {
        let mut options = Self {
            addresses: vec![SocketAddr::from(([127, 0, 0, 1], 8000))],
            guard: OriginGuardLayer::new(),
            names_hosts: false,
            token: None,
            eras: Eras::Both,
            legacy_streams: false,
        };
        while let Some(argument) = arguments.next() {
            let argument = text(argument)?;
            let (flag, mut value) = match argument.split_once('=') {
                Some((flag, value)) => (flag, Some(value.to_owned())),
                None => (&*argument, None),
            };
            match flag {
                "--help" | "-h" if value.is_none() => return Ok(Command::Help),
                "--legacy-streams" if value.is_none() => options.legacy_streams = true,
                "--addr" | "--allow-origin" | "--allow-host" | "--token" | "--eras" => {
                    if value.is_none() {
                        value = arguments.next().map(text).transpose()?;
                        value = value.filter(|value| !value.starts_with("--"));
                    }
                    match value {
                        Some(value) => options = options.set(flag, &value)?,
                        None => return Err(format!("{flag} needs a value")),
                    }
                }
                _ => return Err(format!("unknown option {argument:?}")),
            }
        }
        Ok(Command::Serve(options))
    }

    fn set(mut self, flag: &str, value: &str) -> Result<Self, String> {
        match flag {
            "--addr" => {
                let addresses = value.to_socket_addrs().map(Iterator::collect);
                self.addresses = addresses.unwrap_or_default();
                if self.addresses.is_empty() {
                    return Err(format!("--addr {value:?} is no address and port"));
                }
            }
            "--allow-origin" => {
                let guard = self.guard.allow_origin(value);
                self.guard = guard.map_err(|error| error.to_string())?;
            }
            "--allow-host" => {
                let guard = self.guard.allow_host(value);
                self.guard = guard.map_err(|error| error.to_string())?;
                self.names_hosts = true;
            }
            "--eras" => {
                self.eras = match value {
                    "both" => Eras::Both,
                    "modern" => Eras::ModernOnly,
                    "legacy" => Eras::LegacyOnly,
                    _ => return Err(format!("--eras {value:?} is not both, modern or legacy")),
                }
            }
            _ if value.is_empty() || !value.bytes().all(|byte| byte.is_ascii_graphic()) => {
                return Err("--token is empty or holds other characters than visible ASCII".into());
            }
            _ => self.token = Some(value.into()),
        }
        Ok(self)
    }
}

fn text(argument: OsString) -> Result<String, String> {
    let text = argument.into_string();
    text.map_err(|argument| format!("{argument:?} is not Unicode"))
}
