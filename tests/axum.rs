//! The layers under axum, in every place where axum takes a layer.

mod support;

use axum::{
    Extension, Router,
    body::Body,
    extract::DefaultBodyLimit,
    handler::Handler,
    routing::{any, post},
};
use http::{Request, StatusCode};
use mcp_layers::{
    EnvelopeLayer, EraKind, EraResolverLayer, McpLayer, Message, MirrorHeaderValidatorLayer,
    OriginGuardLayer, Rejection, RejectionKind, ServerInfo,
};
use support::{Answer, send, tools_call};
use tower::ServiceBuilder;

fn info() -> ServerInfo {
    ServerInfo::new("test", "1")
}

fn mcp() -> McpLayer {
    McpLayer::new(info())
}

/// Tells what reached it.
async fn handler(message: Option<Extension<Message>>, body: axum::body::Bytes) -> String {
    let method = message.and_then(|Extension(message)| message.method().map(str::to_owned));
    format!("{} {}", method.unwrap_or_default(), body.len())
}

fn router() -> Router {
    Router::new().route("/mcp", any(handler))
}

fn call() -> Request<Body> {
    tools_call().map(Body::new)
}

fn length() -> usize {
    support::modern_body("tools/call", r#""name":"get_weather","arguments":{}"#).len()
}

fn check(answer: &Answer, method: &str) {
    assert_eq!(answer.status(), StatusCode::OK);
    assert_eq!(answer.body, format!("{method} {}", length()));
}

#[tokio::test]
async fn each_layer_alone_fits_a_router() {
    for app in [
        router().layer(EraResolverLayer::new()),
        router().layer(MirrorHeaderValidatorLayer::new()),
        router().layer(EnvelopeLayer::new(info())),
        router().layer(mcp()),
    ] {
        check(&send(app, call()).await, "tools/call");
    }
    check(
        &send(router().layer(OriginGuardLayer::new()), call()).await,
        "",
    );
}

#[tokio::test]
async fn layers_fit_one_after_the_other_in_one_builder_and_around_everything() {
    let one_by_one = router()
        .layer(EnvelopeLayer::new(info()))
        .layer(MirrorHeaderValidatorLayer::new())
        .layer(EraResolverLayer::new())
        .layer(OriginGuardLayer::new());
    check(&send(one_by_one, call()).await, "tools/call");
    let builder = ServiceBuilder::new()
        .layer(OriginGuardLayer::new())
        .layer(EraResolverLayer::new())
        .layer(MirrorHeaderValidatorLayer::new())
        .layer(EnvelopeLayer::new(info()));
    check(
        &send(router().layer(builder.clone()), call()).await,
        "tools/call",
    );
    check(&send(builder.service(router()), call()).await, "tools/call");
    let on_a_handler = Router::new().route("/mcp", any(handler.layer(mcp())));
    check(&send(on_a_handler, call()).await, "tools/call");
    let on_a_route = Router::new().route("/mcp", any(handler).layer(mcp()));
    check(&send(on_a_route, call()).await, "tools/call");
    check(
        &send(router().route_layer(mcp()), call()).await,
        "tools/call",
    );
    let twice = router().layer(mcp()).layer(mcp());
    check(&send(twice, call()).await, "tools/call");
}

#[tokio::test]
async fn layers_in_a_row_share_one_parse_though_axum_boxes_the_body_between_them() {
    use axum::{
        extract::Request,
        middleware::{Next, from_fn},
    };
    let seen = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let note = {
        let seen = std::sync::Arc::clone(&seen);
        move |request: Request, next: Next| {
            let message = Message::get(request.extensions());
            let place = message.map(|message| std::ptr::from_ref(message) as usize);
            seen.lock().unwrap().push(place);
            next.run(request)
        }
    };
    let app = router()
        .layer(from_fn(note.clone()))
        .layer(EnvelopeLayer::new(info()))
        .layer(from_fn(note.clone()))
        .layer(MirrorHeaderValidatorLayer::new())
        .layer(from_fn(note))
        .layer(EraResolverLayer::new());
    check(&send(app, call()).await, "tools/call");
    let seen = seen.lock().unwrap();
    assert!(seen.len() == 3 && seen[0].is_some());
    assert!(seen.iter().all(|it| *it == seen[0]), "{seen:?}");
}

#[tokio::test]
async fn a_handler_extracts_the_message_with_its_era() {
    async fn handler(Extension(message): Extension<Message>) -> String {
        assert_eq!(message.era().kind(), EraKind::Modern);
        message.name().unwrap().to_owned()
    }
    let app = Router::new().route("/mcp", post(handler)).layer(mcp());
    assert_eq!(send(app, call()).await.body, "get_weather");
}

#[tokio::test]
async fn a_refusal_carries_itself_in_the_extensions() {
    let mut request = call();
    request
        .headers_mut()
        .insert("mcp-name", "other".parse().unwrap());
    let answer = send(router().layer(mcp()), request).await;
    assert_eq!(answer.status(), StatusCode::BAD_REQUEST);
    let rejection = Rejection::get(&answer.head.extensions).unwrap();
    assert_eq!(rejection.kind(), RejectionKind::HeaderMismatch);
    let expected = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32020,"data":{"header":"Mcp-Name","reason":"mismatch"},"message":"Header mismatch: Mcp-Name does not match the body"}}"#;
    assert_eq!(answer.body, expected);
}

#[tokio::test]
async fn authentication_sees_admitted_origins_alone_and_no_refused_body() {
    use axum::{extract::Request, middleware::Next, response::Response};
    async fn authenticate(request: Request, next: Next) -> Result<Response, StatusCode> {
        assert!(
            Message::get(request.extensions()).is_none(),
            "no body was read"
        );
        match request.headers().get("authorization") {
            Some(value) if value == "Bearer secret" => Ok(next.run(request).await),
            _ => Err(StatusCode::UNAUTHORIZED),
        }
    }
    let app = || {
        let auth = axum::middleware::from_fn(authenticate);
        router().layer(mcp().authenticate(auth))
    };
    let with = |header: &'static str, value: &str| {
        let mut request = call();
        request.headers_mut().insert(header, value.parse().unwrap());
        request
    };
    assert_eq!(send(app(), call()).await.status(), StatusCode::UNAUTHORIZED);
    let foreign = with("origin", "https://evil.example");
    assert_eq!(send(app(), foreign).await.status(), StatusCode::FORBIDDEN);
    check(
        &send(app(), with("authorization", "Bearer secret")).await,
        "tools/call",
    );
    let mut broken = with("authorization", "Bearer wrong");
    *broken.body_mut() = Body::from("not JSON");
    assert_eq!(send(app(), broken).await.status(), StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn axum_s_own_limit_still_holds_behind_the_layers() {
    let long = || {
        let text = support::modern_body("tools/call", r#""name":"get_weather""#);
        let padding = " ".repeat(3 << 20);
        call().map(|_| Body::from(format!("{text}{padding}")))
    };
    let answer = send(router().layer(mcp()), long()).await;
    assert_eq!(answer.status(), StatusCode::PAYLOAD_TOO_LARGE);
    let app = router().layer(mcp()).layer(DefaultBodyLimit::disable());
    assert_eq!(send(app, long()).await.status(), StatusCode::OK);
}
