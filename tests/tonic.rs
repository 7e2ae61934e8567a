//! gRPC and MCP on one port: the layers let gRPC through untouched, trailers and all.

mod support;

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full};
use mcp_layers::{EraKind, McpLayer, OriginGuardLayer, ServerInfo, reference::ReferenceService};
use support::send;
use tokio::net::TcpListener;
use tonic::{body::Body, service::Routes};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
use tower::{Layer, ServiceBuilder};

fn info() -> ServerInfo {
    ServerInfo::new("test", "1")
}

fn health() -> Routes {
    let (_, health) = tonic_health::server::health_reporter();
    Routes::new(health)
}

async fn check(app: axum::Router) -> i32 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async { axum::serve(listener, app).await });
    let channel = tonic::transport::Channel::from_shared(format!("http://{address}")).unwrap();
    let mut client = HealthClient::new(channel.connect().await.unwrap());
    let request = HealthCheckRequest {
        service: String::new(),
    };
    client.check(request).await.unwrap().into_inner().status
}

#[tokio::test]
async fn a_grpc_client_is_served_beside_the_mcp_route_and_through_the_layers() {
    let mcp = || McpLayer::new(info()).layer(ReferenceService::new(info()));
    let beside = health().into_axum_router().route_service("/mcp", mcp());
    assert_eq!(check(beside.clone()).await, 1, "serving");
    let around = beside.layer(McpLayer::new(info()));
    assert_eq!(check(around).await, 1, "serving");
}

#[tokio::test]
async fn the_trailers_of_a_grpc_answer_survive() {
    let service = ServiceBuilder::new()
        .layer(OriginGuardLayer::new())
        .layer(McpLayer::new(info()))
        .service(health());
    // An empty message: no compression, no bytes.
    let body = Full::new(Bytes::from_static(&[0; 5]));
    let request = Request::post("http://127.0.0.1:8000/grpc.health.v1.Health/Check")
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(Body::new(body))
        .unwrap();
    let answer = send(service, request).await;
    assert_eq!(answer.status(), StatusCode::OK);
    assert_eq!(answer.trailers.unwrap()["grpc-status"], "0");
    assert!(!answer.body.is_empty());
}

#[tokio::test]
async fn an_mcp_request_is_judged_around_tonic_s_routes_too() {
    let service = ServiceBuilder::new()
        .layer(McpLayer::new(info()))
        .service(health());
    let (head, body) = support::tools_call().into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let request = Request::from_parts(head, Body::new(Full::new(body)));
    let answer = send(service, request).await;
    assert_eq!(
        answer.status(),
        StatusCode::OK,
        "tonic answers what it does not know in trailers"
    );
    let era = mcp_layers::Era::get(&answer.head.extensions).unwrap();
    assert_eq!(era.kind(), EraKind::Modern);
}
