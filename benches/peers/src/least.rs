//! The least that anything between a host and a handler does for the revision 2026-07-28, to tell what
//! part of the layers' cost is theirs.
//!
//! It takes every request for a good one: it reads the body once, compares three headers, leaves a value
//! in the extensions, and puts a few bytes into the answer without reading it. What is not as expected
//! panics. No rule about origins, repeated members, limits, errors or streams is kept.

use std::{borrow::Cow, convert::Infallible};

use axum::{
    body::{Body, Bytes, to_bytes},
    extract::Request,
    http::{HeaderValue, header::VARY},
    response::Response,
};
use serde::Deserialize;
use serde_json::value::RawValue;
use tower::{Service, ServiceExt};

const LIMIT: usize = 4 * 1024 * 1024;

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    method: Cow<'a, str>,
    #[serde(borrow)]
    params: Params<'a>,
}

#[derive(Deserialize)]
struct Params<'a> {
    #[serde(borrow, rename = "_meta")]
    meta: Option<Meta<'a>>,
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct Meta<'a> {
    #[serde(borrow, rename = "io.modelcontextprotocol/protocolVersion")]
    version: Cow<'a, str>,
    #[serde(borrow, rename = "io.modelcontextprotocol/clientCapabilities")]
    capabilities: &'a RawValue,
}

/// What the handler could find in the extensions.
#[derive(Clone)]
#[allow(dead_code)] // as most handlers do, those here do not look
struct Found {
    body: Bytes,
    modern: bool,
}

pub(crate) async fn least<S>(inner: S, request: Request) -> Result<Response, Infallible>
where
    S: Service<Request, Response = Response, Error = Infallible>,
{
    let (mut head, body) = request.into_parts();
    let body = to_bytes(body, LIMIT).await.expect("a body");
    let message: Message<'_> = serde_json::from_slice(&body).expect("a message");
    let modern = message.params.meta.is_some();
    if let Some(meta) = message.params.meta {
        let header = |name| head.headers.get(name).expect("a mirrored header");
        assert_eq!(header("mcp-protocol-version"), &*meta.version);
        assert_eq!(header("mcp-method"), &*message.method);
        if let Some(name) = message.params.name {
            assert_eq!(header("mcp-name"), &*name);
        }
        assert!(meta.capabilities.get().starts_with('{'));
    }
    let found = Found {
        body: body.clone(),
        modern,
    };
    head.extensions.insert(found);
    let request = Request::from_parts(head, Body::from(body));
    let (mut head, mut body) = inner.oneshot(request).await?.into_parts();
    if modern {
        body = stamp(&to_bytes(body, LIMIT).await.expect("a body"));
    }
    let vary = HeaderValue::from_static("Origin");
    head.headers.insert(VARY, vary);
    Ok(Response::from_parts(head, body))
}

fn stamp(answer: &[u8]) -> Body {
    const RESULT: &[u8] = br#""result":{"#;
    const STAMP: &[u8] = br#""resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"peers","version":"1.0.0"}},"#;
    let mut windows = answer.windows(RESULT.len());
    let found = windows.position(|window| window == RESULT);
    let (front, rest) = answer.split_at(found.expect("a result") + RESULT.len());
    Body::from([front, STAMP, rest].concat())
}
