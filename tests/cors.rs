//! What the origin guard tells browsers: who may read an answer, and what a page may ask for.
#![allow(clippy::unwrap_used)] // clippy knows only functions marked as tests to be tests

mod support;

use std::{
    convert::Infallible,
    future::ready,
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use http::{HeaderName, Method, Request, Response, StatusCode};
use mcp_layers::{Eras, McpLayer, OriginGuardLayer, Rejection, ServerInfo};
use support::{Answer, Chunks, Step, inner, modern, modern_body, plain, send, tools_call};
use tower::{Layer, Service, ServiceExt, layer::layer_fn, service_fn};

const APP: &str = "https://app.example";

fn guard(entries: &str) -> OriginGuardLayer {
    entries
        .split_whitespace()
        .fold(OriginGuardLayer::new(), |guard, entry| {
            guard.allow_origin(entry).unwrap()
        })
}

fn info() -> ServerInfo {
    ServerInfo::new("test", "1")
}

fn request(method: Method, headers: &[(&str, &str)]) -> Request<Chunks> {
    let mut request = Request::builder().method(method).uri("/mcp");
    for (name, value) in [("host", "localhost")].iter().chain(headers) {
        request = request.header(*name, *value);
    }
    request.body(Chunks::default()).unwrap()
}

fn post_from(origin: &str) -> Request<Chunks> {
    request(Method::POST, &[("origin", origin)])
}

fn preflight(origin: &str, more: &[(&str, &str)]) -> Request<Chunks> {
    let headers = [
        ("origin", origin),
        ("access-control-request-method", "POST"),
    ];
    request(Method::OPTIONS, &[&headers, more].concat())
}

/// Sends a request through the guard to a service that answers with these headers.
async fn answer(
    guard: &OriginGuardLayer,
    request: Request<Chunks>,
    headers: &[(&'static str, &'static str)],
) -> Answer {
    let headers = headers.to_vec();
    let service = inner(move || {
        let mut response = Response::builder();
        for (name, value) in &headers {
            response = response.header(*name, *value);
        }
        response.body(Chunks::one("inner")).unwrap()
    });
    send(guard.layer(service), request).await
}

/// The values of a header, a line each.
fn lines<'a>(answer: &'a Answer, name: &str) -> Vec<&'a str> {
    let values = answer.head.headers.get_all(name);
    values.iter().map(|it| it.to_str().unwrap()).collect()
}

fn line<'a>(answer: &'a Answer, name: &str) -> Option<&'a str> {
    let lines = lines(answer, name);
    assert!(lines.len() < 2, "{name}: {lines:?}");
    lines.first().copied()
}

/// All headers, a line each.
fn head(answer: &Answer) -> Vec<(&str, &str)> {
    let headers = answer.head.headers.iter();
    let mut head: Vec<_> = headers
        .map(|(name, value)| (name.as_str(), value.to_str().unwrap()))
        .collect();
    head.sort_unstable();
    head
}

// rule O7
#[tokio::test]
async fn the_origin_is_allowed_as_it_was_sent() {
    for (entries, origin) in [
        (APP, APP),
        ("https://app.example:443", "https://app.example"),
        ("https://app.example", "HTTPS://App.Example:443"),
        ("https://*.example.com", "https://a.b.example.com"),
        ("vscode-webview://*", "vscode-webview://1F0c"),
        ("", "http://localhost"),
        ("", "https://localhost:443"),
        ("null", "null"),
        ("*", APP),
        ("*", "null"),
    ] {
        for method in [Method::POST, Method::GET, Method::HEAD, Method::DELETE] {
            let request = request(method.clone(), &[("origin", origin)]);
            let answer = answer(&guard(entries), request, &[]).await;
            let expected = [
                ("access-control-allow-origin", origin),
                (
                    "access-control-expose-headers",
                    "Mcp-Session-Id, WWW-Authenticate",
                ),
                ("vary", "Origin"),
            ];
            assert_eq!(head(&answer), expected, "{entries}, {method}");
        }
    }
}

// rule O7
#[tokio::test]
async fn what_the_inner_service_says_about_origins_is_replaced() {
    for said in [
        &[("access-control-allow-origin", "*")][..],
        &[("access-control-allow-origin", APP)],
        &[
            ("access-control-allow-origin", "https://other.example"),
            ("access-control-allow-origin", APP),
            ("access-control-allow-credentials", "true"),
        ],
    ] {
        let answer = answer(&guard(APP), post_from(APP), said).await;
        assert_eq!(
            lines(&answer, "access-control-allow-origin"),
            [APP],
            "{said:?}"
        );
        assert_eq!(line(&answer, "access-control-allow-credentials"), None);
    }
}

// rule O7
#[tokio::test]
async fn without_an_origin_only_vary_is_added() {
    let said = [
        ("access-control-allow-credentials", "true"),
        ("access-control-allow-origin", "*"),
        ("access-control-expose-headers", "x-a"),
    ];
    for method in [Method::POST, Method::GET, Method::HEAD, Method::OPTIONS] {
        let answer = answer(&guard("*"), request(method, &[]), &said).await;
        assert_eq!(head(&answer), [&said[..], &[("vary", "Origin")]].concat());
    }
}

// rule O7
#[tokio::test]
async fn vary_gains_origin_and_loses_nothing() {
    for (there, expected) in [
        (&[][..], &["Origin"][..]),
        (&["Origin"], &["Origin"]),
        (&["origin"], &["origin"]),
        (&["*"], &["*"]),
        (&["Accept-Encoding, *"], &["Accept-Encoding, *"]),
        (&["Accept-Encoding"], &["Accept-Encoding, Origin"]),
        (&["Accept-Encoding ,ORIGIN"], &["Accept-Encoding ,ORIGIN"]),
        (
            &["Accept", "Accept-Encoding"],
            &["Accept, Accept-Encoding, Origin"],
        ),
        (&["Accept", "Origin"], &["Accept", "Origin"]),
        (&["X-Origin, Origins"], &["X-Origin, Origins, Origin"]),
        (&["", "Accept"], &["Accept, Origin"]),
        (&[""], &["Origin"]),
    ] {
        let said: Vec<_> = there.iter().map(|line| ("vary", *line)).collect();
        for request in [post_from(APP), request(Method::POST, &[])] {
            let answer = answer(&guard(APP), request, &said).await;
            assert_eq!(lines(&answer, "vary"), expected, "{there:?}");
        }
    }
}

// rule O7
#[tokio::test]
async fn headers_that_the_inner_service_exposes_stay_exposed() {
    for (there, expected) in [
        (&[][..], &["Mcp-Session-Id, WWW-Authenticate"][..]),
        (&["X-A"], &["X-A, Mcp-Session-Id, WWW-Authenticate"]),
        (
            &["X-A", "X-B"],
            &["X-A, X-B, Mcp-Session-Id, WWW-Authenticate"],
        ),
        (&["mcp-session-id"], &["mcp-session-id, WWW-Authenticate"]),
        (
            &["www-authenticate,MCP-SESSION-ID"],
            &["www-authenticate,MCP-SESSION-ID"],
        ),
        // In credentials mode `*` is the name of a header.
        (&["*"], &["*, Mcp-Session-Id, WWW-Authenticate"]),
    ] {
        let said: Vec<_> = there
            .iter()
            .map(|line| ("access-control-expose-headers", *line))
            .collect();
        let answer = answer(&guard(APP), post_from(APP), &said).await;
        assert_eq!(lines(&answer, "access-control-expose-headers"), expected);
    }
}

// rule O7
#[tokio::test]
async fn everything_else_of_an_answer_passes_as_it_is() {
    let service = inner(|| {
        Response::builder()
            .status(299)
            .header("x-b", &b"\xff"[..])
            .header("set-cookie", "a")
            .header("x-empty", "")
            .header("set-cookie", "b")
            .body(Chunks::of(["a", "", "b"].map(|it| Step::Data(it.into()))))
            .unwrap()
    });
    let answer = send(guard(APP).layer(service), post_from(APP)).await;
    let headers = answer.head.headers.iter();
    let names: Vec<_> = headers.map(|(name, _)| name.as_str()).collect();
    let ours = [
        "vary",
        "access-control-allow-origin",
        "access-control-expose-headers",
    ];
    let theirs = ["x-b", "set-cookie", "set-cookie", "x-empty"];
    assert_eq!(names, [&theirs[..], &ours].concat());
    assert_eq!(answer.head.headers["x-b"], &b"\xff"[..]);
    assert_eq!(lines(&answer, "set-cookie"), ["a", "b"]);
    assert_eq!(
        (answer.status().as_u16(), &answer.body[..]),
        (299, &b"ab"[..])
    );
}

/// An authentication that counts its calls and knows one token.
#[derive(Clone)]
struct Authenticate<S> {
    inner: S,
    calls: Arc<AtomicUsize>,
}

impl<S, B> Service<Request<Chunks>> for Authenticate<S>
where
    S: Service<Request<Chunks>, Response = Response<B>, Error = Infallible>,
    S::Future: 'static,
    B: Default + 'static,
{
    type Response = Response<B>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<B>, Infallible>>>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Chunks>) -> Self::Future {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let token = request.headers().get("authorization");
        if token.is_some_and(|token| token == "Bearer secret") {
            return Box::pin(self.inner.call(request));
        }
        let challenge = Response::builder()
            .status(StatusCode::UNAUTHORIZED)
            .header("www-authenticate", "Bearer")
            .body(B::default())
            .unwrap();
        Box::pin(ready(Ok(challenge)))
    }
}

/// Sends a request through all layers, and says how often the authentication was called.
async fn authenticated(request: Request<Chunks>) -> (Answer, usize) {
    let calls = Arc::new(AtomicUsize::new(0));
    let mcp = McpLayer::new(info())
        .origin(guard(APP))
        .authenticate(layer_fn(|inner| Authenticate {
            inner,
            calls: Arc::clone(&calls),
        }));
    let answer = send(mcp.layer(plain()), request).await;
    (answer, calls.load(Ordering::SeqCst))
}

fn from_app(mut request: Request<Chunks>) -> Request<Chunks> {
    request.headers_mut().insert("origin", APP.parse().unwrap());
    request
}

// rule O7
#[tokio::test]
async fn refusals_of_inner_layers_can_be_read() {
    let mcp = McpLayer::new(info()).origin(guard(APP)).body_limit(2000);
    let mut mismatch = tools_call();
    mismatch
        .headers_mut()
        .insert("mcp-name", "other".parse().unwrap());
    for (status, request) in [
        (400, mismatch),
        (400, modern("tools/list", "{")),
        (404, modern("ping", modern_body("ping", ""))),
        (405, request(Method::GET, &[])),
        (413, modern("tools/list", vec![b' '; 2001])),
    ] {
        let answer = send(mcp.layer(plain()), from_app(request)).await;
        assert_eq!(answer.status(), status);
        assert!(Rejection::get(&answer.head.extensions).is_some());
        assert_eq!(
            line(&answer, "access-control-allow-origin"),
            Some(APP),
            "{status}"
        );
        assert_eq!(line(&answer, "vary"), Some("Origin"), "{status}");
    }
}

// rule O7
#[tokio::test]
async fn a_challenge_of_the_authentication_can_be_read() {
    let (answer, calls) = authenticated(from_app(tools_call())).await;
    assert_eq!(answer.status(), 401);
    let expected = [
        ("access-control-allow-origin", APP),
        (
            "access-control-expose-headers",
            "Mcp-Session-Id, WWW-Authenticate",
        ),
        ("vary", "Origin"),
        ("www-authenticate", "Bearer"),
    ];
    assert_eq!(head(&answer), expected);
    assert_eq!(calls, 1);
}

// rule O8
#[tokio::test]
async fn a_preflight_never_meets_the_authentication() {
    for (origin, status) in [(APP, 204), ("https://evil.example", 403)] {
        let (answer, calls) = authenticated(preflight(origin, &[])).await;
        assert_eq!((answer.status().as_u16(), calls), (status, 0), "{origin}");
    }
    let mut request = from_app(tools_call());
    let token = "Bearer secret".parse().unwrap();
    request.headers_mut().insert("authorization", token);
    let (answer, calls) = authenticated(request).await;
    assert_eq!((answer.status().as_u16(), calls), (200, 1));
    assert_eq!(line(&answer, "access-control-allow-origin"), Some(APP));
}

#[tokio::test]
async fn an_error_of_the_inner_service_passes_as_it_is() {
    let service = service_fn(|_: Request<Chunks>| async { Err::<Response<Chunks>, _>("broken") });
    let error = guard(APP).layer(service).oneshot(post_from(APP)).await;
    assert_eq!(error.unwrap_err(), "broken");
}

const ALLOWED: &str = "mcp-protocol-version, mcp-method, mcp-name, mcp-session-id, last-event-id, \
     authorization, content-type, accept, traceparent, tracestate, baggage";

// rule O8
#[tokio::test]
async fn a_preflight_is_answered_with_what_a_client_of_mcp_needs() {
    let service = plain();
    let seen = service.seen();
    let answer = send(guard(APP).layer(service), preflight(APP, &[])).await;
    assert_eq!(answer.status(), StatusCode::NO_CONTENT);
    assert!(answer.body.is_empty());
    assert!(Rejection::get(&answer.head.extensions).is_none());
    let expected = [
        ("access-control-allow-headers", ALLOWED),
        ("access-control-allow-methods", "POST"),
        ("access-control-allow-origin", APP),
        ("access-control-max-age", "7200"),
        ("vary", "Origin, Access-Control-Request-Headers"),
    ];
    assert_eq!(head(&answer), expected);
    assert!(seen.lock().unwrap().is_empty());
}

// rule O8
#[tokio::test]
async fn options_that_are_no_preflight_belong_to_the_inner_service() {
    let method = ("access-control-request-method", "POST");
    for request in [
        request(Method::OPTIONS, &[]),
        request(Method::OPTIONS, &[method]),
        request(Method::OPTIONS, &[("origin", APP)]),
        request(Method::POST, &[("origin", APP), method]),
        request(Method::GET, &[("origin", APP), method]),
    ] {
        let answer = answer(&guard(APP), request, &[("allow", "POST, OPTIONS")]).await;
        assert_eq!(&answer.body[..], b"inner");
        assert_eq!(line(&answer, "allow"), Some("POST, OPTIONS"));
        assert_eq!(line(&answer, "access-control-allow-methods"), None);
    }
}

// rules O6, O8
#[tokio::test]
async fn a_refused_preflight_says_nothing_but_that_it_varies() {
    let wide = guard(APP)
        .allow_credentials(true)
        .allow_private_network(true);
    let more = [("access-control-request-private-network", "true")];
    for origin in ["https://evil.example", "null", "", "https://app.example/"] {
        for method in ["POST", "DELETE", ""] {
            let mut request = preflight(origin, &more);
            let headers = request.headers_mut();
            headers.insert("access-control-request-method", method.parse().unwrap());
            let answer = answer(&wide, request, &[]).await;
            assert_eq!(answer.status(), 403);
            let expected = [("content-type", "application/json"), ("vary", "Origin")];
            assert_eq!(head(&answer), expected, "{origin}");
        }
    }
}

// rules O8, E7
#[tokio::test]
async fn get_and_delete_are_allowed_where_the_endpoint_serves_them() {
    let streams = "POST, GET, DELETE";
    let alone = |guard: OriginGuardLayer| async move {
        let answer = send(guard.layer(plain()), preflight(APP, &[])).await;
        line(&answer, "access-control-allow-methods").map(str::to_owned)
    };
    assert_eq!(alone(guard(APP)).await.unwrap(), "POST");
    assert_eq!(
        alone(guard(APP).legacy_streams(true)).await.unwrap(),
        streams
    );
    let off = guard(APP).legacy_streams(true).legacy_streams(false);
    assert_eq!(alone(off).await.unwrap(), "POST");

    let mcp = || McpLayer::new(info());
    let on = guard(APP).legacy_streams(true);
    for (layer, methods) in [
        (mcp().origin(guard(APP)), "POST"),
        (mcp().origin(on.clone()), "POST"),
        (mcp().origin(guard(APP)).legacy_streams(true), streams),
        (mcp().legacy_streams(true).origin(guard(APP)), streams),
        (
            mcp()
                .origin(guard(APP))
                .legacy_streams(true)
                .eras(Eras::ModernOnly),
            "POST",
        ),
        (
            mcp().origin(on).eras(Eras::LegacyOnly).legacy_streams(true),
            streams,
        ),
    ] {
        let answer = send(layer.layer(plain()), preflight(APP, &[])).await;
        assert_eq!(line(&answer, "access-control-allow-methods"), Some(methods));
    }
}

// rules O8, E7
#[tokio::test]
async fn a_replaced_policy_does_not_change_which_methods_are_served() {
    let (layer, handle) = guard(APP).with_handle();
    let streams = McpLayer::new(info())
        .origin(layer.clone())
        .legacy_streams(true);
    let other = "https://b.example";
    handle.replace(guard(other).legacy_streams(true));
    let post = send(layer.layer(plain()), preflight(other, &[])).await;
    let methods = line(&post, "access-control-allow-methods");
    assert_eq!(methods, Some("POST"));

    handle.replace(guard(other).legacy_streams(false));
    let all = send(streams.layer(plain()), preflight(other, &[])).await;
    let methods = line(&all, "access-control-allow-methods");
    assert_eq!(methods, Some("POST, GET, DELETE"));
}

/// The allowed headers of a preflight that asks for these, a line each.
async fn allowed(guard: &OriginGuardLayer, requested: &[&str]) -> String {
    let requested: Vec<_> = requested
        .iter()
        .map(|line| ("access-control-request-headers", *line))
        .collect();
    let answer = answer(guard, preflight(APP, &requested), &[]).await;
    line(&answer, "access-control-allow-headers")
        .unwrap()
        .to_owned()
}

// rule O8
#[rustfmt::skip] // a table
#[tokio::test]
async fn of_the_requested_headers_only_parameters_are_echoed() {
    for (requested, echoed) in [
        (&[][..], ""),
        (&[""], ""),
        (&["content-type,mcp-method,x-a"], ""),
        (&["*"], ""),
        (&["mcp-param-region"], ", mcp-param-region"),
        (&["Mcp-Param-Region"], ", Mcp-Param-Region"),
        (&["content-type,mcp-param-a,mcp-param-b,x-a"], ", mcp-param-a, mcp-param-b"),
        (&[" mcp-param-a\t,,\t mcp-param-b ,"], ", mcp-param-a, mcp-param-b"),
        (&["mcp-param-a", "x-a", "mcp-param-b"], ", mcp-param-a, mcp-param-b"),
        (&["mcp-param-a,mcp-param-a"], ", mcp-param-a, mcp-param-a"),
        (&["mcp-param-!#$%&'*+.^_`|~0Z"], ", mcp-param-!#$%&'*+.^_`|~0Z"),
        (&["mcp-param-", "mcp-param", "mcp-para", "m"], ""),
        (&["x-mcp-param-a,mcp_param_a,mcp-params-a"], ""),
        (&["mcp-param-a b,mcp-param-a;b,mcp-param-a:b,mcp-param-\"a\",mcp-param-a/b"], ""),
        (&["mcp-param-\u{e9},mcp-param-ok"], ", mcp-param-ok"),
        (&["mcp-param-a\tb"], ""),
    ] {
        assert_eq!(allowed(&guard(APP), requested).await, format!("{ALLOWED}{echoed}"), "{requested:?}");
    }
}

// rule O8
#[tokio::test]
async fn an_answer_to_a_preflight_is_bounded() {
    let names = |count: usize| {
        let names: Vec<_> = (0..count).map(|it| format!("mcp-param-{it:06}")).collect();
        names.join(",")
    };
    // 227 names of 16 bytes and a separator of 2 each are 4,086 bytes less the first separator.
    for (count, echoed) in [(1, 1), (227, 227), (228, 227), (20_000, 227)] {
        let line = allowed(&guard(APP), &[&names(count)]).await;
        assert_eq!(line.matches("mcp-param-").count(), echoed, "{count}");
        assert!(line.len() <= ALLOWED.len() + 2 + 4096);
    }
    let long = format!("mcp-param-{}", "a".repeat(10_000));
    assert_eq!(allowed(&guard(APP), &[&long]).await, ALLOWED);
    let lines = vec!["mcp-param-aaaaaaaaaa"; 1000];
    let line = allowed(&guard(APP), &lines).await;
    assert!(line.len() <= ALLOWED.len() + 2 + 4096);
}

// rule O8
#[tokio::test]
async fn headers_that_the_operator_adds_are_allowed_once() {
    let guard = guard(APP)
        .allow_header(HeaderName::from_static("x-api-key"))
        .allow_header(HeaderName::from_static("authorization"))
        .allow_header(HeaderName::from_bytes(b"X-API-Key").unwrap())
        .allow_header(HeaderName::from_static("x-b"));
    let expected = format!("{ALLOWED}, x-api-key, x-b");
    assert_eq!(allowed(&guard, &[]).await, expected);
    let expected = format!("{expected}, mcp-param-a");
    assert_eq!(allowed(&guard, &["mcp-param-a,x-c"]).await, expected);
}

// rule O8
#[tokio::test]
async fn browsers_keep_a_preflight_for_as_long_as_the_operator_says() {
    for (age, seconds) in [
        (Duration::ZERO, "0"),
        (Duration::from_millis(1999), "1"),
        (Duration::from_secs(86_400), "86400"),
        (Duration::MAX, "18446744073709551615"),
    ] {
        let guard = guard(APP).preflight_max_age(age);
        let answer = answer(&guard, preflight(APP, &[]), &[]).await;
        assert_eq!(line(&answer, "access-control-max-age"), Some(seconds));
    }
}

/// Whether the answers to a POST and to its preflight allow credentials.
async fn credentials(guard: &OriginGuardLayer, origin: &str) -> bool {
    let said = [("access-control-allow-credentials", "true")];
    let allows = |answer: &Answer| line(answer, "access-control-allow-credentials") == Some("true");
    let post = answer(guard, post_from(origin), &said).await;
    let preflight = answer(guard, preflight(origin, &[]), &said).await;
    assert_eq!(line(&post, "access-control-allow-origin"), Some(origin));
    assert_eq!(
        line(&preflight, "access-control-allow-origin"),
        Some(origin)
    );
    assert_eq!(allows(&post), allows(&preflight), "{origin}");
    allows(&post)
}

// rule O7
#[tokio::test]
async fn credentials_are_allowed_to_pages_that_are_known_by_name() {
    for (entries, origin, expected) in [
        (APP, APP, true),
        ("https://*.example.com", "https://a.example.com", true),
        ("app://*", "app://a", true),
        ("", "http://localhost", true),
        ("* https://app.example", APP, true),
        ("*", "http://localhost", true),
        ("*", APP, false),
        ("* null", "null", false),
        ("null", "null", false),
        ("*", "null", false),
    ] {
        assert!(!credentials(&guard(entries), origin).await, "{entries}");
        let on = guard(entries).allow_credentials(true);
        assert_eq!(
            credentials(&on, origin).await,
            expected,
            "{entries}, {origin}"
        );
        let off = on.allow_credentials(false);
        assert!(!credentials(&off, origin).await, "{entries}");
    }
    let last = OriginGuardLayer::new().allow_credentials(true);
    let last = last.allow_origin("*").unwrap();
    assert!(!credentials(&last, APP).await);
    let predicate = OriginGuardLayer::new()
        .allow_origin_if(|origin| origin.host() == "app.example")
        .allow_credentials(true);
    assert!(credentials(&predicate, APP).await);
}

// rule O8
#[tokio::test]
async fn the_private_network_is_open_to_listed_origins_when_switched_on() {
    let allow = "access-control-allow-private-network";
    for (entries, origin, on, asked, expected) in [
        (APP, APP, true, Some("true"), Some("true")),
        (APP, APP, false, Some("true"), None),
        (APP, APP, true, None, None),
        (APP, APP, true, Some("false"), None),
        (
            "* https://app.example",
            APP,
            true,
            Some("true"),
            Some("true"),
        ),
        ("*", APP, true, Some("true"), None),
        ("null", "null", true, Some("true"), None),
        ("", "http://localhost", true, Some("true"), None),
    ] {
        let guard = guard(entries).allow_private_network(on);
        let name = "access-control-request-private-network";
        let asked: Vec<_> = asked.map(|value| (name, value)).into_iter().collect();
        let preflight = answer(&guard, preflight(origin, &asked), &[]).await;
        assert_eq!(preflight.status(), 204);
        assert_eq!(
            line(&preflight, allow),
            expected,
            "{entries}, {on}, {asked:?}"
        );
        let varies = line(&preflight, "vary").unwrap();
        assert_eq!(
            varies.ends_with("Access-Control-Request-Private-Network"),
            on
        );

        let headers = [&[("origin", origin)][..], &asked].concat();
        let post = answer(&guard, request(Method::POST, &headers), &[]).await;
        assert_eq!(line(&post, allow), None);
    }
}

#[tokio::test]
async fn two_origins_are_told_apart_by_one_service() {
    let guard = guard("https://a.example https://b.example").allow_credentials(true);
    let mut service = guard.layer(plain());
    for origin in [
        "https://a.example",
        "https://b.example",
        "https://a.example",
    ] {
        for request in [preflight(origin, &[]), post_from(origin)] {
            let answer = send(&mut service, request).await;
            assert_eq!(line(&answer, "access-control-allow-origin"), Some(origin));
        }
        let refused = send(&mut service, post_from("https://c.example")).await;
        assert_eq!(refused.status(), 403);
    }
}

// No answer is part of one policy and part of another.
#[test]
fn each_request_is_answered_by_one_policy_while_that_is_replaced() {
    let open = || {
        guard(APP)
            .allow_credentials(true)
            .preflight_max_age(Duration::from_secs(1))
            .allow_header(HeaderName::from_static("x-open"))
    };
    let (layer, handle) = open().with_handle();
    let which_policy = || {
        let answer = pin!(answer(&layer, preflight(APP, &[]), &[]));
        let Poll::Ready(answer) = answer.poll(&mut Context::from_waker(Waker::noop())) else {
            panic!("nothing here waits");
        };
        let headers = line(&answer, "access-control-allow-headers");
        let told = (
            answer.status().as_u16(),
            line(&answer, "access-control-allow-credentials"),
            line(&answer, "access-control-max-age"),
            headers.map(|it| it.ends_with("x-open")),
        );
        match told {
            (204, Some("true"), Some("1"), Some(true)) => 0,
            (204, None, Some("7200"), Some(false)) => 1,
            (403, None, None, None) => 2,
            _ => panic!("{told:?}"),
        }
    };
    std::thread::scope(|scope| {
        let senders: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| {
                    let mut seen = [0; 3];
                    for _ in 0..200_000 {
                        seen[which_policy()] += 1;
                        if seen.iter().all(|count| *count >= 100) {
                            return;
                        }
                    }
                    panic!("{seen:?} of each policy");
                })
            })
            .collect();
        while !senders
            .iter()
            .all(std::thread::ScopedJoinHandle::is_finished)
        {
            for policy in [guard(APP), guard("https://b.example"), open()] {
                handle.replace(policy);
                std::thread::yield_now();
            }
        }
    });
}
