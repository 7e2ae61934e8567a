//! The layers under tower alone: readiness, cancellation, sharing of the parse, neighbours.

mod support;

use std::{
    convert::Infallible,
    fmt::Debug,
    future::Future,
    pin::pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body::Body;
use http_body_util::{BodyExt, Channel, Full};
use mcp_layers::{
    EnvelopeLayer, Era, EraKind, EraResolverLayer, McpLayer, Message, MessageKind,
    MirrorHeaderValidatorLayer, OriginGuardLayer, RequestBody, ResponseBody, ServerInfo,
};
use support::{Chunks, Step, plain, send, tools_call};
use tower::{Layer, Service, ServiceBuilder, ServiceExt, limit::ConcurrencyLimit, service_fn};

fn info() -> ServerInfo {
    ServerInfo::new("test", "1")
}

/// A handler that is generic over the body infers whatever the layers above make of it.
async fn generic<B>(_: Request<B>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::from("ok")))
}

/// A handler that names the body type.
async fn concrete(
    request: Request<RequestBody<Chunks>>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let body = request.into_body().collect().await.unwrap().to_bytes();
    Ok(Response::new(Full::from(body)))
}

fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[tokio::test]
async fn handlers_of_any_shape_fit() {
    let row = ServiceBuilder::new()
        .layer(OriginGuardLayer::new())
        .layer(EraResolverLayer::new())
        .layer(MirrorHeaderValidatorLayer::new())
        .layer(EnvelopeLayer::new(info()))
        .service_fn(generic);
    assert_eq!(
        row.oneshot(tools_call()).await.unwrap().status(),
        StatusCode::OK
    );
    let named = ServiceBuilder::new()
        .layer(McpLayer::new(info()))
        .service_fn(concrete);
    assert_eq!(
        named.oneshot(tools_call()).await.unwrap().status(),
        StatusCode::OK
    );
    let closure = ServiceBuilder::new()
        .layer(McpLayer::new(info()))
        .service_fn(|request: Request<RequestBody<Chunks>>| async move {
            Ok::<_, Infallible>(Response::new(request.into_body()))
        });
    assert_eq!(
        closure.oneshot(tools_call()).await.unwrap().status(),
        StatusCode::OK
    );
}

#[tokio::test]
async fn the_instance_that_was_polled_ready_is_the_one_called() {
    async fn drive<L>(layer: L)
    where
        L: Layer<support::Inner<fn() -> Response<Chunks>>>,
        L::Service: Service<Request<Chunks>, Error = Infallible>,
    {
        // The inner service panics when it is called on another instance.
        let mut service = layer.layer(support::inner(|| Response::new(Chunks::default())));
        for _ in 0..3 {
            let ready = service.ready().await.unwrap();
            drop(ready.call(tools_call()).await);
            let mut get = Request::new(Chunks::default());
            get.headers_mut()
                .insert("host", "localhost".parse().unwrap());
            drop(service.ready().await.unwrap().call(get).await);
        }
    }
    drive(OriginGuardLayer::new()).await;
    drive(EraResolverLayer::new()).await;
    drive(EraResolverLayer::new().legacy_streams(true)).await;
    drive(MirrorHeaderValidatorLayer::new()).await;
    drive(EnvelopeLayer::new(info())).await;
    drive(McpLayer::new(info())).await;
    drive(McpLayer::new(info()).legacy_streams(true)).await;
}

#[tokio::test]
async fn dropping_the_future_while_reading_releases_what_was_reserved() {
    let dropped = Arc::new(AtomicUsize::new(0));
    for layer in [McpLayer::new(info()), McpLayer::new(info()).body_limit(10)] {
        let mut service = layer.layer(ConcurrencyLimit::new(service_fn(generic), 1));
        let mut request = tools_call();
        *request.body_mut() =
            Chunks::of([Step::Data("{".into()), Step::Pending]).counting(&dropped);
        {
            let reading = service.ready().await.unwrap().call(request);
            let mut reading = pin!(reading);
            assert!(poll(reading.as_mut()).is_pending());
            let mut other = service.clone();
            assert!(poll(pin!(other.ready())).is_pending(), "the permit is held");
        }
        assert!(poll(pin!(service.ready())).is_ready(), "the permit is back");
    }
    assert_eq!(dropped.load(Ordering::SeqCst), 2, "so are the bodies");
}

#[tokio::test]
async fn dropping_the_future_while_the_inner_service_answers_drops_its_future() {
    struct Flag(Arc<AtomicUsize>);
    impl Drop for Flag {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let dropped = Arc::new(AtomicUsize::new(0));
    let flag = Arc::clone(&dropped);
    let mut service =
        McpLayer::new(info()).layer(service_fn(move |_: Request<RequestBody<Chunks>>| {
            let flag = Flag(Arc::clone(&flag));
            async move {
                let () = std::future::pending().await;
                drop(flag);
                Ok::<_, Infallible>(Response::new(Chunks::default()))
            }
        }));
    {
        let mut answering = pin!(service.call(tools_call()));
        assert!(poll(answering.as_mut()).is_pending());
        assert_eq!(dropped.load(Ordering::SeqCst), 0);
    }
    assert_eq!(dropped.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn dropping_the_future_while_an_answer_is_read_drops_the_answer() {
    let dropped = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&dropped);
    let service = McpLayer::new(info()).layer(support::inner(move || {
        Response::builder()
            .header("content-type", "application/json")
            .body(Chunks::of([Step::Data("{".into()), Step::Pending]).counting(&count))
            .unwrap()
    }));
    {
        let mut stamping = pin!(service.clone().oneshot(tools_call()));
        assert!(poll(stamping.as_mut()).is_pending());
        assert_eq!(dropped.load(Ordering::SeqCst), 0);
    }
    assert_eq!(dropped.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn dropping_an_answer_drops_the_inner_body() {
    let dropped = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&dropped);
    let service = McpLayer::new(info()).layer(support::inner(move || {
        Response::builder()
            .header("content-type", "text/event-stream")
            .body(Chunks::of([Step::Data(": hello\n\n".into()), Step::Pending]).counting(&count))
            .unwrap()
    }));
    let answer = service.oneshot(tools_call()).await.unwrap();
    let mut body = answer.into_body();
    assert!(
        body.frame().await.unwrap().is_ok(),
        "what there is leaves at once"
    );
    assert!(poll(pin!(body.frame())).is_pending());
    drop(body);
    assert_eq!(dropped.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_refusal_releases_what_was_reserved() {
    let service = McpLayer::new(info()).layer(ConcurrencyLimit::new(service_fn(generic), 1));
    for _ in 0..3 {
        let mut request = tools_call();
        request.headers_mut().remove("mcp-method");
        let response = service.clone().oneshot(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::BAD_REQUEST);
    }
}

/// Notes where the message's text lives.
fn spy<B>(
    seen: &Arc<Mutex<Vec<usize>>>,
) -> tower::util::MapRequestLayer<impl Fn(Request<B>) -> Request<B> + Clone + use<B>> {
    let seen = Arc::clone(seen);
    tower::util::MapRequestLayer::new(move |request: Request<B>| {
        let message = Message::get(request.extensions()).unwrap();
        seen.lock()
            .unwrap()
            .push(std::ptr::from_ref(message) as usize);
        request
    })
}

#[tokio::test]
async fn layers_in_a_row_share_one_parse() {
    let seen = Arc::default();
    let service = ServiceBuilder::new()
        .layer(EraResolverLayer::new())
        .layer(spy(&seen))
        .layer(MirrorHeaderValidatorLayer::new())
        .layer(spy(&seen))
        .layer(EnvelopeLayer::new(info()))
        .layer(spy(&seen))
        .service_fn(generic);
    assert_eq!(
        service.oneshot(tools_call()).await.unwrap().status(),
        StatusCode::OK
    );
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 3);
    assert!(seen.iter().all(|it| *it == seen[0]), "{seen:?}");
}

#[tokio::test]
async fn a_body_that_was_replaced_between_two_layers_is_read_again() {
    let evil = r#""name":"rm_rf","arguments":{}"#;
    let swap = tower::util::MapRequestLayer::new(move |request: Request<RequestBody<Chunks>>| {
        request.map(|_| Chunks::one(support::modern_body("tools/call", evil)))
    });
    let service = ServiceBuilder::new()
        .layer(EraResolverLayer::new())
        .layer(swap)
        .layer(MirrorHeaderValidatorLayer::new())
        .service_fn(generic);
    let response = service.oneshot(tools_call()).await.unwrap();
    assert_eq!(response.status(), StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn a_body_that_was_replaced_is_judged_by_the_outer_layer_s_rules() {
    let swap = || {
        tower::util::MapRequestLayer::new(|request: Request<RequestBody<Chunks>>| {
            request.map(|_| Chunks::one(support::modern_body("tools/list", "")))
        })
    };
    let service = ServiceBuilder::new()
        .layer(EraResolverLayer::new().eras(mcp_layers::Eras::LegacyOnly))
        .layer(swap())
        .layer(MirrorHeaderValidatorLayer::new())
        .service_fn(generic);
    let request = support::post(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
    let answer = send(service, request).await;
    assert_eq!(answer.json()["error"]["code"], -32022);
}

#[tokio::test]
async fn an_equal_body_in_another_buffer_is_read_again() {
    let seen: Arc<Mutex<Vec<usize>>> = Arc::default();
    let note = Arc::clone(&seen);
    let copy = tower::util::MapRequestLayer::new(move |request: Request<RequestBody<Chunks>>| {
        let message = Message::get(request.extensions()).unwrap();
        note.lock().unwrap().push(message.body().as_ptr() as usize);
        let copy = Bytes::copy_from_slice(message.body());
        request.map(|_| Chunks::one(copy))
    });
    let service = ServiceBuilder::new()
        .layer(EraResolverLayer::new())
        .layer(copy)
        .layer(MirrorHeaderValidatorLayer::new())
        .service_fn(|request: Request<RequestBody<Chunks>>| async move {
            let message = Message::get(request.extensions()).unwrap();
            Ok::<_, Infallible>(Response::new(Full::from(format!(
                "{:p}",
                message.body().as_ptr()
            ))))
        });
    let answer = send(service, tools_call()).await;
    let first = format!("{:#x}", seen.lock().unwrap()[0]);
    assert_ne!(answer.body, first);
}

// rule E9
#[tokio::test]
async fn the_message_and_the_era_reach_the_handler_and_the_era_comes_back() {
    let inner = plain();
    let seen = inner.seen();
    let service = McpLayer::new(info()).layer(inner);
    let answer = send(service, tools_call()).await;
    let seen = seen.lock().unwrap();
    let message = Message::get(&seen[0].head.extensions).unwrap();
    assert_eq!(message.kind(), MessageKind::Request);
    assert_eq!(message.id(), Some(&b"1"[..]));
    assert_eq!(message.method(), Some("tools/call"));
    assert_eq!(message.name(), Some("get_weather"));
    assert_eq!(message.arguments(), Some(&b"{}"[..]));
    assert_eq!(message.client_capabilities(), Some(&b"{}"[..]));
    assert_eq!(
        message.client_info(),
        Some(&br#"{"name":"test","version":"1"}"#[..])
    );
    assert_eq!(message.body(), &seen[0].body);
    assert!(!message.is_retry());
    for era in [
        message.era(),
        Era::get(&seen[0].head.extensions).unwrap(),
        Era::get(&answer.head.extensions).unwrap(),
    ] {
        assert_eq!(
            (era.kind(), era.version()),
            (EraKind::Modern, Some("2026-07-28"))
        );
    }
}

#[tokio::test]
async fn a_refusal_by_a_mirrored_header_tells_the_era_too() {
    let mut request = tools_call();
    request
        .headers_mut()
        .insert("mcp-name", "other".parse().unwrap());
    let answer = send(McpLayer::new(info()).layer(plain()), request).await;
    assert_eq!(answer.status(), StatusCode::BAD_REQUEST);
    assert_eq!(
        Era::get(&answer.head.extensions).unwrap().kind(),
        EraKind::Modern
    );
}

// rule E8
#[tokio::test]
async fn session_headers_are_taken_off_modern_messages_alone() {
    for (request, kept) in [
        (tools_call(), false),
        (
            support::post(r#"{"jsonrpc":"2.0","id":1,"method":"x"}"#),
            true,
        ),
    ] {
        for by in [
            "McpLayer",
            "EraResolver",
            "MirrorHeaderValidator",
            "Envelope",
        ] {
            let inner = support::inner(|| {
                Response::builder()
                    .header("mcp-session-id", "s")
                    .body(Chunks::default())
                    .unwrap()
            });
            let seen = inner.seen();
            let (mut head, _) = tools_call().into_parts();
            head.headers.clone_from(request.headers());
            head.headers.insert("mcp-session-id", "s".parse().unwrap());
            head.headers.insert("last-event-id", "1".parse().unwrap());
            let body = if kept {
                r#"{"jsonrpc":"2.0","id":1,"method":"x"}"#.into()
            } else {
                support::modern_body("tools/call", r#""name":"get_weather","arguments":{}"#)
            };
            let request = Request::from_parts(head, Chunks::one(body));
            let answer = match by {
                "McpLayer" => send(McpLayer::new(info()).layer(inner), request).await,
                "EraResolver" => send(EraResolverLayer::new().layer(inner), request).await,
                "Envelope" => send(EnvelopeLayer::new(info()).layer(inner), request).await,
                _ => send(MirrorHeaderValidatorLayer::new().layer(inner), request).await,
            };
            let seen = seen.lock().unwrap();
            let reached = &seen[0].head.headers;
            assert_eq!(reached.contains_key("mcp-session-id"), kept, "{by}");
            assert_eq!(reached.contains_key("last-event-id"), kept, "{by}");
            assert_eq!(
                answer.head.headers.contains_key("mcp-session-id"),
                kept,
                "{by}"
            );
        }
    }
}

// rule E8
#[tokio::test]
async fn each_session_header_is_taken_off_alone_and_when_it_is_added_between_two_layers() {
    for name in ["mcp-session-id", "last-event-id"] {
        let add = move |headers: &mut http::HeaderMap| {
            headers.insert(name, "1".parse().unwrap());
        };
        let inner = plain();
        let seen = inner.seen();
        let mut request = tools_call();
        add(request.headers_mut());
        send(McpLayer::new(info()).layer(inner), request).await;
        assert!(!seen.lock().unwrap()[0].head.headers.contains_key(name));

        let inner = plain();
        let seen = inner.seen();
        let stack = tower::ServiceBuilder::new()
            .layer(EraResolverLayer::new())
            .map_request(move |mut request: Request<_>| {
                add(request.headers_mut());
                request
            })
            .layer(EnvelopeLayer::new(info()))
            .service(inner);
        send(stack, tools_call()).await;
        assert!(!seen.lock().unwrap()[0].head.headers.contains_key(name));
    }
}

#[tokio::test]
async fn the_envelope_alone_hands_on_what_it_cannot_read() {
    let text = support::modern_body("tools/call", r#""name":"get_weather""#);
    let long = Bytes::from(vec![b' '; 5 << 20]);
    let inner = plain();
    let seen = inner.seen();
    let mut request = tools_call();
    *request.body_mut() = Chunks::of([Step::Data(text.clone().into()), Step::Data(long)]);
    let answer = send(EnvelopeLayer::new(info()).layer(inner), request).await;
    assert_eq!(answer.status(), 200);
    assert_eq!(seen.lock().unwrap()[0].body.len(), text.len() + (5 << 20));

    let broken = service_fn(|request: Request<RequestBody<Chunks>>| async move {
        let mut body = request.into_body();
        let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
        assert!(
            body.frame().await.unwrap().is_err(),
            "the failure is handed on"
        );
        assert!(body.frame().await.is_none());
        Ok::<_, Infallible>(Response::new(Full::from(first)))
    });
    let mut request = tools_call();
    *request.body_mut() = Chunks::of([Step::Data("start".into()), Step::Fail]);
    let answer = send(EnvelopeLayer::new(info()).layer(broken), request).await;
    assert_eq!(answer.body, "start");
}

#[tokio::test]
async fn trailers_and_every_byte_reach_the_inner_service() {
    let text = support::modern_body(
        "tools/call",
        r#""name":"get_weather","arguments":{"a":"\ud83d \u00e9 1.0"}"#,
    );
    for size in [1, 3, 50, 10_000] {
        let mut trailers = http::HeaderMap::new();
        trailers.insert("x-sum", "1".parse().unwrap());
        let pieces = text
            .as_bytes()
            .chunks(size)
            .map(Bytes::copy_from_slice)
            .map(Step::Data);
        let mut request = tools_call();
        *request.body_mut() = Chunks::of(pieces.chain([Step::Trailers(trailers)]));
        let inner = plain();
        let seen = inner.seen();
        let answer = send(McpLayer::new(info()).layer(inner), request).await;
        assert_eq!(answer.status(), 200);
        let seen = seen.lock().unwrap();
        assert_eq!(seen[0].body, text);
        assert_eq!(seen[0].trailers.as_ref().unwrap()["x-sum"], "1");
    }
}

#[test]
fn everything_can_be_cloned_shared_and_shown() {
    fn layer<T: Clone + Debug + Send + Sync + 'static>(_: &T) {}
    fn future<F: Future + Debug + Send>(_: &F) {}
    fn body<B: Body + Debug + Send + Sync + 'static>() {}
    body::<RequestBody<Full<Bytes>>>();
    body::<ResponseBody<Full<Bytes>>>();
    layer(&OriginGuardLayer::new());
    layer(&EraResolverLayer::new());
    layer(&MirrorHeaderValidatorLayer::new());
    layer(&EnvelopeLayer::new(info()));
    layer(&McpLayer::new(info()));
    let mut stack = McpLayer::new(info()).layer(plain());
    layer(&stack);
    let mut cx = Context::from_waker(Waker::noop());
    let _ = Service::<Request<Chunks>>::poll_ready(&mut stack, &mut cx);
    future(&stack.call(tools_call()));
}

#[tokio::test]
async fn boxes_take_the_stack() {
    use tower::util::{BoxCloneService, BoxCloneSyncService};
    let stack = McpLayer::new(info()).layer(plain());
    let boxed = BoxCloneSyncService::new(stack.clone());
    assert_eq!(
        boxed.oneshot(tools_call()).await.unwrap().status(),
        StatusCode::OK
    );
    let boxed = BoxCloneService::new(stack);
    assert_eq!(
        boxed.oneshot(tools_call()).await.unwrap().status(),
        StatusCode::OK
    );
}

#[tokio::test]
async fn layers_of_tower_http_fit_on_both_sides() {
    use tower_http::{
        compression::CompressionLayer, cors::CorsLayer, limit::RequestBodyLimitLayer,
        timeout::RequestBodyTimeoutLayer, trace::TraceLayer,
    };
    let outside = ServiceBuilder::new()
        .layer(TraceLayer::new_for_http())
        .layer(CorsLayer::permissive())
        .layer(CompressionLayer::new())
        .layer(RequestBodyTimeoutLayer::new(Duration::from_secs(1)))
        .layer(RequestBodyLimitLayer::new(1 << 20))
        .layer(McpLayer::new(info()))
        .service_fn(generic);
    assert_eq!(
        outside.oneshot(tools_call()).await.unwrap().status(),
        StatusCode::OK
    );
    let inside = ServiceBuilder::new()
        .layer(McpLayer::new(info()))
        .layer(TraceLayer::new_for_http())
        .layer(CorsLayer::permissive())
        .layer(RequestBodyLimitLayer::new(1 << 20))
        .service_fn(generic);
    assert_eq!(
        inside.oneshot(tools_call()).await.unwrap().status(),
        StatusCode::OK
    );
}

#[tokio::test]
async fn layers_of_tower_fit_inside() {
    use tower::{
        buffer::BufferLayer, limit::ConcurrencyLimitLayer, load_shed::LoadShedLayer,
        timeout::TimeoutLayer,
    };
    let service = ServiceBuilder::new()
        .layer(McpLayer::new(info()))
        .layer(BufferLayer::new(8))
        .layer(LoadShedLayer::new())
        .layer(ConcurrencyLimitLayer::new(2))
        .layer(TimeoutLayer::new(Duration::from_secs(1)))
        .service_fn(generic);
    for _ in 0..3 {
        assert_eq!(
            service
                .clone()
                .oneshot(tools_call())
                .await
                .unwrap()
                .status(),
            StatusCode::OK
        );
    }
}

#[tokio::test]
async fn a_streamed_answer_streams() {
    let (mut sender, body) = Channel::<Bytes>::new(1);
    let body = Arc::new(Mutex::new(Some(body)));
    let service =
        McpLayer::new(info()).layer(service_fn(move |_: Request<RequestBody<Chunks>>| {
            let body = body.lock().unwrap().take().unwrap();
            async move { Ok::<_, Infallible>(Response::new(body)) }
        }));
    let mut body = service.oneshot(tools_call()).await.unwrap().into_body();
    for event in ["a", "b"] {
        sender.send_data(event.into()).await.unwrap();
        assert_eq!(
            body.frame().await.unwrap().unwrap().into_data().unwrap(),
            event
        );
    }
    drop(body);
    assert!(
        sender.send_data("c".into()).await.is_err(),
        "the producer learns that nobody reads"
    );
}
