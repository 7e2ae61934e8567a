//! Handshake traffic passes as if no layer were there: status, headers, bytes and chunks. Only the
//! origin guard says that its answers vary.

mod support;

use std::pin::pin;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response};
use http_body::Frame;
use http_body_util::BodyExt;
use mcp_layers::{
    EnvelopeLayer, EraResolverLayer, McpLayer, MirrorHeaderValidatorLayer, OriginGuardLayer,
    ServerInfo,
};
use support::{Broken, Chunks, Step, inner, post};
use tower::{Layer, ServiceBuilder, ServiceExt};

/// What a client can tell of an answer.
#[derive(Debug, PartialEq)]
struct Told {
    status: u16,
    headers: Vec<(String, Vec<u8>)>,
    frames: Vec<Piece>,
}

#[derive(Debug, PartialEq)]
enum Piece {
    Data(Bytes),
    Trailers(HeaderMap),
    Failed,
}

async fn told<B>(answer: Response<B>) -> Told
where
    B: http_body::Body<Data = Bytes, Error = Broken>,
{
    let (head, body) = answer.into_parts();
    let mut body = pin!(body);
    let mut frames = Vec::new();
    while let Some(frame) = body.frame().await {
        frames.push(match frame.map(Frame::into_data) {
            Ok(Ok(data)) => Piece::Data(data),
            Ok(Err(frame)) => Piece::Trailers(frame.into_trailers().unwrap()),
            Err(Broken) => Piece::Failed,
        });
    }
    let headers = head.headers.iter();
    Told {
        status: head.status.as_u16(),
        headers: headers
            .map(|(name, value)| (name.to_string(), value.as_bytes().to_vec()))
            .collect(),
        frames,
    }
}

type Answer = fn() -> Response<Chunks>;

fn answer(status: u16, headers: &[(&str, &[u8])], body: Chunks) -> Response<Chunks> {
    let mut response = Response::builder().status(status);
    for (name, value) in headers {
        response = response.header(*name, *value);
    }
    response.body(body).unwrap()
}

const JSON: (&str, &[u8]) = ("content-type", b"application/json");
const SSE: (&str, &[u8]) = ("content-type", b"text/event-stream");

#[rustfmt::skip] // a table
/// Answers that a server of the handshake era may give.
const ANSWERS: [(&str, Answer); 20] = [
    ("a result", || answer(200, &[JSON], Chunks::one(r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}"#))),
    ("a result with odd blanks", || answer(200, &[JSON], Chunks::one("{ \"id\":1,\n\t\"result\" : { } }\r\n"))),
    ("a result with a length", || answer(200, &[JSON, ("content-length", b"26")], Chunks::one(r#"{"id":1,"result":{"a":1}} "#))),
    ("a result with a session", || answer(200, &[JSON, ("mcp-session-id", b"s-1")], Chunks::one(r#"{"id":1,"result":{}}"#))),
    ("method not found", || answer(200, &[JSON], Chunks::one(r#"{"id":1,"error":{"code":-32601,"message":"x"}}"#))),
    ("an old code", || answer(200, &[JSON], Chunks::one(r#"{"id":1,"error":{"code":-32002,"message":"x"}}"#))),
    ("an error with its own status", || answer(400, &[JSON], Chunks::one(r#"{"id":null,"error":{"code":-32700}}"#))),
    ("a session that is gone", || answer(404, &[], Chunks::default())),
    ("an empty answer", || answer(202, &[], Chunks::default())),
    ("no content", || answer(204, &[JSON], Chunks::default())),
    ("odd headers", || answer(299, &[("x-b", b"\xff\xfe"), ("set-cookie", b"a"), ("set-cookie", b"b"), ("x-empty", b"")], Chunks::one("x"))),
    ("what is labelled JSON and is none", || answer(502, &[JSON], Chunks::one("<html>"))),
    ("a batch", || answer(200, &[JSON], Chunks::one(r#"[{"id":1,"result":{}},{"id":2,"result":{}}]"#))),
    ("chunks", || answer(200, &[JSON], Chunks::cut(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, 5))),
    ("chunks and trailers", || {
        let mut trailers = HeaderMap::new();
        trailers.insert("x-sum", "1".parse().unwrap());
        let steps = [Step::Data("{}".into()), Step::Data(" ".into()), Step::Trailers(trailers)];
        answer(200, &[JSON], Chunks::of(steps))
    }),
    ("a body that breaks off", || answer(200, &[JSON], Chunks::of([Step::Data("{".into()), Step::Fail]))),
    ("compressed", || answer(200, &[JSON, ("content-encoding", b"gzip")], Chunks::one(&b"\x1f\x8b\x08\x00"[..]))),
    ("events", || answer(200, &[SSE, ("cache-control", b"no-cache")], Chunks::cut("id: 1\r\nevent: endpoint\r\ndata: /x\r\n\r\n: c\n\ndata: {\"id\":1,\"result\":{}}\n\n", 7))),
    ("an event without its end", || answer(200, &[SSE], Chunks::one("data: {\"id\":1,\"result\":{}}"))),
    ("five megabytes", || answer(200, &[JSON], Chunks::one(vec![b'['; 5 << 20]))),
];

fn requests() -> Vec<Request<Chunks>> {
    let bodies = [
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"a","version":"1"}}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#,
        r#"{"jsonrpc":"2.0","id":7,"result":{}}"#,
        "not JSON",
        "",
    ];
    let mut requests = Vec::new();
    for body in bodies {
        for version in [None, Some("2025-11-25"), Some("2025-03-26")] {
            let mut request = post(body);
            let headers = request.headers_mut();
            headers.insert("mcp-session-id", "s-1".parse().unwrap());
            headers.insert("mcp-method", "something/else".parse().unwrap());
            if let Some(version) = version {
                headers.insert("mcp-protocol-version", version.parse().unwrap());
            }
            requests.push(request);
        }
    }
    for method in [Method::GET, Method::DELETE, Method::HEAD, Method::OPTIONS] {
        let mut request = post("").map(|_| Chunks::default());
        *request.method_mut() = method;
        requests.push(request);
    }
    requests
}

macro_rules! same_as_bare {
    ($($name:literal $(varies by $by:literal)?: $layer:expr;)*) => {$(
        for (what, make) in ANSWERS {
            for (index, request) in requests().into_iter().enumerate() {
                let bare = inner(make).oneshot(request).await.unwrap();
                let layered = inner(make);
                let seen = layered.seen();
                let request = requests().remove(index);
                let (headers, method) = (request.headers().clone(), request.method().clone());
                let layered = Layer::layer(&$layer, layered).oneshot(request).await.unwrap();
                let case = format!("{what}, request {index} ({method}), by {}", $name);
                #[allow(unused_mut)]
                let mut expected = told(bare).await;
                $(expected.headers.push(("vary".to_owned(), $by.into()));)? // rule O7
                assert_eq!(told(layered).await, expected, "{case}");
                let seen = seen.lock().unwrap();
                assert_eq!(seen.len(), 1, "{case}");
                assert_eq!(seen[0].head.headers, headers, "{case}");
            }
        }
    )*};
}

#[tokio::test]
async fn an_answer_to_a_legacy_request_is_the_bare_one() {
    let info = || ServerInfo::new("test", "1");
    same_as_bare! {
        "OriginGuard" varies by "Origin": OriginGuardLayer::new();
        "EraResolver": EraResolverLayer::new().legacy_streams(true);
        "Envelope": EnvelopeLayer::new(info());
        "McpLayer" varies by "Origin": McpLayer::new(info()).legacy_streams(true);
        "the row" varies by "Origin": ServiceBuilder::new()
            .layer(OriginGuardLayer::new())
            .layer(EraResolverLayer::new().legacy_streams(true))
            .layer(MirrorHeaderValidatorLayer::new())
            .layer(EnvelopeLayer::new(info()));
    }
}

#[tokio::test]
async fn a_legacy_body_reaches_the_inner_service_byte_for_byte() {
    let bodies: [&[u8]; 6] = [
        b"\xef\xbb\xbf{\"id\":1}",
        b"{\"id\":1,\"x\":\"A \x97 B\"}",
        b"{\"id\":18446744073709551616,\"x\":1E400,\"y\":-0,\"z\":\"\\ud83d\"}",
        b"  \r\n[ ]",
        b"\x00\x01",
        b"{",
    ];
    for body in bodies {
        for size in [1, 4, 100] {
            let service = inner(|| Response::new(Chunks::default()));
            let seen = service.seen();
            let steps = body
                .chunks(size)
                .map(|it| Step::Data(Bytes::copy_from_slice(it)));
            let request = post("").map(|_| Chunks::of(steps));
            let answer = McpLayer::new(ServerInfo::new("test", "1"))
                .layer(service)
                .oneshot(request)
                .await
                .unwrap();
            assert_eq!(answer.status(), 200, "{body:?}");
            assert_eq!(seen.lock().unwrap()[0].body, body);
        }
    }
}
