//! The layers under hyper alone, through hyper-util's `TowerToHyperService`, over both versions of
//! HTTP.

mod support;

use std::convert::Infallible;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
    service::TowerToHyperService,
};
use mcp_layers::{
    EnvelopeLayer, EraResolverLayer, McpLayer, MirrorHeaderValidatorLayer, OriginGuardLayer,
    ServerInfo,
    reference::{ReferenceService, Tool, ToolCall, ToolResult},
};
use serde_json::{Value, json};
use tokio::io::DuplexStream;
use tower::{Service, ServiceBuilder};

fn info() -> ServerInfo {
    ServerInfo::new("test", "1")
}

fn reference() -> ReferenceService {
    let tool = Tool::new("get_weather", json!({ "type": "object" }));
    ReferenceService::new(info()).tool(tool, |_: ToolCall| async { Ok(ToolResult::text("sun")) })
}

/// Serves one connection and gives its other end.
fn serve<S, B>(service: S) -> TokioIo<DuplexStream>
where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible>
        + Clone
        + Send
        + 'static,
    S::Future: Send + 'static,
    B: http_body::Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>>
        + Send
        + 'static,
{
    let (client, server) = tokio::io::duplex(1 << 16);
    tokio::spawn(async move {
        let server = TokioIo::new(server);
        auto::Builder::new(TokioExecutor::new())
            .serve_connection(server, TowerToHyperService::new(service))
            .await
            .map_err(|error| error.to_string())
    });
    TokioIo::new(client)
}

fn request(uri: &str, body: &str) -> Request<Full<Bytes>> {
    let (mut head, _) = support::tools_call().into_parts();
    head.uri = uri.parse().unwrap();
    Request::from_parts(head, Full::from(body.to_owned()))
}

fn call() -> String {
    support::modern_body("tools/call", r#""name":"get_weather","arguments":{}"#)
}

async fn read(response: Response<Incoming>) -> (StatusCode, Value) {
    let status = response.status();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&body).unwrap())
}

async fn over_http1(
    io: TokioIo<DuplexStream>,
    request: Request<Full<Bytes>>,
) -> (StatusCode, Value) {
    let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
    tokio::spawn(connection);
    read(sender.send_request(request).await.unwrap()).await
}

async fn over_http2(
    io: TokioIo<DuplexStream>,
    mut request: Request<Full<Bytes>>,
) -> (StatusCode, Value) {
    // The authority stands in the URI there.
    request.headers_mut().remove("host");
    let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), io);
    let (mut sender, connection) = handshake.await.unwrap();
    tokio::spawn(connection);
    read(sender.send_request(request).await.unwrap()).await
}

#[tokio::test]
async fn the_stack_serves_both_versions_of_http() {
    let stack = || {
        ServiceBuilder::new()
            .layer(McpLayer::new(info()))
            .service(reference())
    };
    let uri = "http://127.0.0.1:8000/mcp";
    for (status, json) in [
        over_http1(serve(stack()), request("/mcp", &call())).await,
        over_http2(serve(stack()), request(uri, &call())).await,
    ] {
        assert_eq!(status, StatusCode::OK, "{json}");
        assert_eq!(json["result"]["content"][0]["text"], "sun");
        assert_eq!(json["result"]["resultType"], "complete");
    }
}

#[tokio::test]
async fn the_row_of_layers_serves_both_versions_of_http() {
    let row = || {
        ServiceBuilder::new()
            .layer(OriginGuardLayer::new())
            .layer(EraResolverLayer::new())
            .layer(MirrorHeaderValidatorLayer::new())
            .layer(EnvelopeLayer::new(info()))
            .service(reference())
    };
    let other = call().replace("get_weather", "rm_rf");
    let uri = "http://127.0.0.1:8000/mcp";
    for (status, json) in [
        over_http1(serve(row()), request("/mcp", &other)).await,
        over_http2(serve(row()), request(uri, &other)).await,
    ] {
        assert_eq!(status, StatusCode::BAD_REQUEST);
        assert_eq!(json["error"]["code"], -32020);
    }
}

// rule O4
#[tokio::test]
async fn the_authority_of_http_2_is_the_host() {
    let stack = || {
        ServiceBuilder::new()
            .layer(McpLayer::new(info()))
            .service(reference())
    };
    for (uri, status) in [
        ("http://localhost:8000/mcp", 200),
        ("http://evil.example:8000/mcp", 403),
    ] {
        let mut request = request(uri, &call());
        let origin = uri.trim_end_matches("/mcp").parse().unwrap();
        request.headers_mut().insert("origin", origin);
        let (found, _) = over_http2(serve(stack()), request).await;
        assert_eq!(found, status, "{uri}");
    }
}

// rule M4
#[tokio::test]
async fn blanks_around_a_mirrored_value_survive_http_2_and_are_no_difference() {
    let stack = ServiceBuilder::new()
        .layer(McpLayer::new(info()))
        .service(reference());
    let mut request = request("http://127.0.0.1:8000/mcp", &call());
    let padded = http::HeaderValue::from_static(" get_weather\t");
    request.headers_mut().insert("mcp-name", padded);
    let (status, _) = over_http2(serve(stack), request).await;
    assert_eq!(status, StatusCode::OK);
}
