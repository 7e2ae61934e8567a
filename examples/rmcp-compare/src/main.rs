//! Sends the same requests, in both eras, to a service of the released `rmcp` and to the same
//! service with the layers directly around it, and prints where the answers differ, each with the
//! rule that demands it.

mod cases;
mod server;

use std::{convert::Infallible, pin::pin, process::ExitCode, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, Request, Response};
use http_body::Body;
use http_body_util::{BodyExt, Full};
use mcp_layers::{McpLayer, ServerInfo};
use serde_json::Value;
use tokio::time::timeout;
use tower::{Layer, ServiceExt, service_fn, util::BoxCloneSyncService};

use self::cases::{Case, SESSION, V1};

type Service = BoxCloneSyncService<Request<Full<Bytes>>, Told, Infallible>;

/// What a client can tell of an answer.
#[derive(Clone, Debug, PartialEq)]
struct Told {
    status: u16,
    headers: Vec<(String, String)>,
    messages: Vec<Value>,
    session: Option<HeaderValue>,
}

impl Told {
    async fn read<B>(response: Response<B>) -> Self
    where
        B: Body<Data = Bytes>,
    {
        let (head, body) = response.into_parts();
        let session = head.headers.get("mcp-session-id").cloned();
        let mut body = pin!(body);
        let mut text = Vec::new();
        // Streams that wait for something to happen stay open.
        while let Ok(Some(Ok(frame))) = timeout(Duration::from_millis(200), body.frame()).await {
            text.extend_from_slice(&frame.into_data().unwrap_or_default());
        }
        let text = String::from_utf8_lossy(&text).into_owned();
        let is_stream = text.lines().any(|line| line.starts_with("data:"));
        let messages = if is_stream {
            let data = text.lines().filter_map(|line| line.strip_prefix("data:"));
            data.map(message).collect()
        } else {
            vec![message(&text)]
        };
        let headers = head.headers.iter().filter(|(name, _)| {
            // Those of one connection, and those that follow from the body.
            !matches!(
                name.as_str(),
                "content-length" | "date" | "transfer-encoding"
            )
        });
        let headers = headers.map(|(name, value)| {
            let value = match &session {
                Some(session) if session == value => SESSION,
                _ => value.to_str().unwrap_or("?"),
            };
            (name.to_string(), value.to_owned())
        });
        let mut headers = headers.collect::<Vec<_>>();
        headers.sort();
        Self {
            status: head.status.as_u16(),
            headers,
            messages,
            session,
        }
    }

    /// The HTTP status and what the last message is.
    fn brief(&self) -> String {
        let status = self.status;
        match self.messages.last() {
            Some(Value::String(text)) if text.is_empty() => format!("{status}"),
            Some(Value::String(_)) => format!("{status} plain text"),
            Some(message) if message.get("result").is_some() => format!("{status} result"),
            Some(message) => format!("{status} {}", message["error"]["code"]),
            None => format!("{status} nothing"),
        }
    }

    /// The same answer as the layers tell it of every origin.
    // rule O7
    fn varying(mut self) -> Self {
        self.headers.push(("vary".to_owned(), "Origin".to_owned()));
        self.headers.sort();
        self
    }

    /// The same answer without the server's name in its results.
    fn unstamped(mut self) -> Self {
        for message in &mut self.messages {
            let Some(result) = message.get_mut("result").and_then(Value::as_object_mut) else {
                continue;
            };
            let Some(meta) = result.get_mut("_meta").and_then(Value::as_object_mut) else {
                continue;
            };
            meta.remove("io.modelcontextprotocol/serverInfo");
            if meta.is_empty() {
                result.remove("_meta");
            }
        }
        self
    }
}

fn message(text: &str) -> Value {
    serde_json::from_str(text.trim()).unwrap_or_else(|_| Value::String(text.trim().to_owned()))
}

/// One of the two services, and the session that it opened last.
struct Side {
    service: Service,
    session: Option<HeaderValue>,
}

impl Side {
    fn new<S, B>(service: S) -> Self
    where
        S: tower::Service<Request<Full<Bytes>>, Response = Response<B>, Error = Infallible>,
        S: Clone + Send + Sync + 'static,
        S::Future: Send,
        B: Body<Data = Bytes> + Send,
    {
        let service = service_fn(move |request| {
            let answer = service.clone().oneshot(request);
            async { Ok(Told::read(answer.await?).await) }
        });
        Self {
            service: BoxCloneSyncService::new(service),
            session: None,
        }
    }

    async fn ask(&mut self, case: &Case) -> Told {
        let mut request = case.request.clone();
        if let Some(session) = request.headers_mut().get_mut("mcp-session-id")
            && session == SESSION
        {
            *session = self
                .session
                .clone()
                .unwrap_or(HeaderValue::from_static("none"));
        }
        let Ok(mut told) = self.service.clone().oneshot(request.map(Full::new)).await;
        self.session = told.session.take().or(self.session.take());
        told
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let mcp = McpLayer::new(ServerInfo::new("rmcp", "3")).legacy_streams(true);
    let mut bare = Side::new(server::service());
    let mut layered = Side::new(mcp.layer(server::service()));

    let (mut same, mut wrong) = (0, 0);
    let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
    for (era, cases) in [
        ("2026-07-28", cases::modern_cases()),
        ("handshake", cases::legacy_cases()),
    ] {
        for case in &cases {
            let (bare, layered) = (bare.ask(case).await, layered.ask(case).await);
            let is_expected = match case.why {
                "" => bare.clone().varying() == layered,
                V1 => {
                    let unstamped = layered.clone().unstamped();
                    unstamped != layered && unstamped == bare.clone().varying()
                }
                _ => bare.clone().varying() != layered,
            };
            let (before, after) = (bare.brief(), layered.brief());
            let change = if before == after {
                before
            } else {
                format!("{before} -> {after}")
            };
            let line = format!("{era}, {}: {change}", case.name);
            if !is_expected {
                wrong += 1;
                println!("UNEXPECTED {line}\n  {bare:?}\n  {layered:?}");
            } else if case.why.is_empty() {
                same += 1;
            } else {
                match reasons.iter_mut().find(|(why, _)| *why == case.why) {
                    Some((_, lines)) => lines.push(line),
                    None => reasons.push((case.why, vec![line])),
                }
            }
        }
    }
    for (why, lines) in &reasons {
        println!("{why}");
        for line in lines {
            println!("  {line}");
        }
    }
    println!("O7: all answers of the layers vary by Origin");
    let differ = reasons.iter().map(|(_, lines)| lines.len()).sum::<usize>();
    println!("rmcp: {same} answers the same, {differ} differ by a rule, {wrong} unexpected");
    ExitCode::from(u8::from(wrong > 0))
}
