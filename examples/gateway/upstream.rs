//! The server behind the gateway, and what can go wrong with it.

use std::{fmt, time::Duration};

use axum::{
    body::{Body, Bytes},
    http::{
        HeaderMap, HeaderName, Method, Request, Response, StatusCode, Uri, Version,
        header::{self, HeaderValue},
        uri::PathAndQuery,
    },
};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use serde_json::json;
use tokio::time::timeout;

use super::events::{Events, Told};

/// How long an unused connection is kept: less than the five seconds after which common servers
/// close theirs, so that a request seldom meets a connection that is about to go.
const IDLE: Duration = Duration::from_secs(3);

/// The longest answer that is read whole, in bytes.
pub(crate) const LIMIT: usize = 64 * 1024 * 1024;

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum Fault {
    /// Nobody listens there.
    Down,
    /// The answer did not begin in time, or does not go on.
    Slow,
    BrokeOff,
    /// The server does not know the session, and has done nothing.
    Gone,
    /// What came is no answer of MCP.
    Odd(String),
}

impl Fault {
    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Self::Slow => StatusCode::GATEWAY_TIMEOUT,
            _ => StatusCode::BAD_GATEWAY,
        }
    }

    /// The answer to the request with this id.
    pub(crate) fn to_json(&self, id: Option<&[u8]>) -> Bytes {
        let error = json!({ "code": -32603, "message": self.to_string() }).to_string();
        let id = id.map(|id| [br#""id":"#, id, b","].concat());
        let id = id.unwrap_or_default();
        [
            &br#"{"jsonrpc":"2.0","#[..],
            &id,
            br#""error":"#,
            error.as_bytes(),
            b"}",
        ]
        .concat()
        .into()
    }

    pub(crate) fn answer(&self, id: Option<&[u8]>) -> Response<Body> {
        answer(self.status(), self.to_json(id))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Down => "The upstream server cannot be reached",
            Self::Slow => "The upstream server has not answered in time",
            Self::BrokeOff => "The upstream server broke off its answer",
            Self::Gone => "The upstream server has ended the session",
            Self::Odd(what) => what,
        })
    }
}

/// An answer of one JSON text.
pub(crate) fn answer(status: StatusCode, text: Bytes) -> Response<Body> {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

/// A client of the one server.
#[derive(Debug)]
pub(crate) struct Upstream {
    client: Client<HttpConnector, Body>,
    uri: Uri,
    timeout: Duration,
}

impl Upstream {
    pub(crate) fn new(uri: Uri, timeout: Duration) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(timeout));
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .build(connector);
        Self {
            client,
            uri,
            timeout,
        }
    }

    /// How long an answer may take to begin.
    pub(crate) fn patience(&self) -> Duration {
        self.timeout
    }

    /// Passes a request on and waits until its answer begins.
    ///
    /// Dropping the future, or the body of the answer, ends the exchange with the server.
    pub(crate) async fn send(&self, mut request: Request<Body>) -> Result<Response<Body>, Fault> {
        *request.uri_mut() = self.address(request.uri());
        *request.version_mut() = Version::HTTP_11;
        drop_hop_by_hop(request.headers_mut());
        // Who may ask was decided in front of the gateway; for the server, the gateway asks.
        for name in [header::HOST, header::ORIGIN, header::EXPECT] {
            request.headers_mut().remove(name);
        }
        // A stream of the server's own messages may begin when the first of them does.
        let timeout = match *request.method() {
            Method::GET => Duration::MAX,
            _ => self.timeout,
        };
        match tokio::time::timeout(timeout, self.client.request(request)).await {
            Ok(Ok(response)) => {
                let (mut head, body) = response.into_parts();
                drop_hop_by_hop(&mut head.headers);
                Ok(Response::from_parts(head, Body::new(body)))
            }
            Ok(Err(error)) if error.is_connect() => Err(Fault::Down),
            Ok(Err(_)) => Err(Fault::BrokeOff),
            Err(_) => Err(Fault::Slow),
        }
    }

    /// Passes a request on and reads the whole answer, or the first one in a stream.
    pub(crate) async fn ask(&self, request: Request<Body>) -> Result<(Response<()>, Bytes), Fault> {
        let (head, body) = self.send(request).await?.into_parts();
        let text = if is_stream(&head.headers) {
            timeout(self.timeout, first_answer(body)).await
        } else {
            timeout(self.timeout, read(body)).await
        };
        let text = text.unwrap_or(Err(Fault::Slow))?;
        Ok((Response::from_parts(head, ()), text))
    }

    fn address(&self, asked: &Uri) -> Uri {
        let mut parts = self.uri.clone().into_parts();
        if let Some(query) = asked.query() {
            let path = format!("{}?{query}", self.uri.path());
            // What was parsed before can be parsed again.
            parts.path_and_query = path.parse::<PathAndQuery>().ok().or(parts.path_and_query);
        }
        Uri::from_parts(parts).unwrap_or_else(|_| self.uri.clone())
    }
}

/// A message to the server, as the gateway itself sends one.
pub(crate) fn message(text: impl Into<Body>) -> Request<Body> {
    let mut request = Request::new(text.into());
    *request.method_mut() = Method::POST;
    for (name, value) in [
        (header::CONTENT_TYPE, "application/json"),
        (header::ACCEPT, "application/json, text/event-stream"),
    ] {
        request
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    request
}

/// Reads a body to its end.
pub(crate) async fn read(body: Body) -> Result<Bytes, Fault> {
    match Limited::new(body, LIMIT).collect().await {
        Ok(read) => Ok(read.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(Fault::Odd(format!(
            "The upstream server answers with more than {LIMIT} bytes"
        ))),
        Err(_) => Err(Fault::BrokeOff),
    }
}

/// Reads a stream up to the first event that answers something.
async fn first_answer(mut body: Body) -> Result<Bytes, Fault> {
    let mut events = Events::default();
    loop {
        let frame = body.frame().await.ok_or(Fault::BrokeOff)?;
        let frame = frame.map_err(|_| Fault::BrokeOff)?;
        for event in events.feed(&frame.into_data().unwrap_or_default())? {
            if let Told::Answer { .. } = Told::read(&event.data) {
                drain(body);
                return Ok(event.data.into());
            }
        }
    }
}

/// Reads what is left of a stream behind its answer, which is nothing, so that its connection can
/// serve again.
pub(crate) fn drain(mut body: Body) {
    let end = async move { while let Some(Ok(_)) = body.frame().await {} };
    tokio::spawn(timeout(Duration::from_secs(1), end));
}

pub(crate) fn is_stream(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    kind.eq_ignore_ascii_case("text/event-stream")
}

/// Headers that speak of one connection only, and those that `Connection` names.
fn drop_hop_by_hop(headers: &mut HeaderMap) {
    let named = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse::<HeaderName>().ok());
    let proxy = headers
        .keys()
        .filter(|name| name.as_str().starts_with("proxy-"));
    let dropped = named.chain(proxy.cloned()).collect::<Vec<_>>();
    for name in dropped.into_iter().chain([
        header::CONNECTION,
        HeaderName::from_static("keep-alive"),
        header::TE,
        header::TRAILER,
        header::TRANSFER_ENCODING,
        header::UPGRADE,
    ]) {
        headers.remove(name);
    }
}
