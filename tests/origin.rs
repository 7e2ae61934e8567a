//! What the origin guard lets through and what it refuses.
#![allow(clippy::unwrap_used)] // clippy knows only functions marked as tests to be tests

use std::{
    convert::Infallible,
    future::{Ready, poll_fn, ready},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body::{Body, Frame};
use http_body_util::{BodyExt, Full};
use mcp_layers::{
    OriginGuardLayer, Rejection, RejectionKind, ResponseBody,
    origin::{InvalidEntryKind, OriginGuard, OriginHandle, Scheme},
};
use tower::{Layer, Service, ServiceExt};

/// A request body that must not be polled.
#[derive(Debug)]
struct Untouchable;

impl Body for Untouchable {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        panic!("the guard polled the request body");
    }
}

/// An inner service that counts its calls, and panics when it is called on an instance that was
/// not polled ready. Cloning resets readiness, as it does for `ConcurrencyLimit` and `Buffer`.
#[derive(Debug, Default)]
struct Probe {
    ready: bool,
    calls: Arc<AtomicUsize>,
}

impl Clone for Probe {
    fn clone(&self) -> Self {
        Self {
            ready: false,
            calls: Arc::clone(&self.calls),
        }
    }
}

impl<B> Service<Request<B>> for Probe {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<B>) -> Self::Future {
        assert!(
            std::mem::take(&mut self.ready),
            "called without having been polled ready"
        );
        self.calls.fetch_add(1, Ordering::Relaxed);
        ready(Ok(Response::new(Full::from("inner"))))
    }
}

/// Sends a request through the guard, and checks what holds for every answer.
async fn send(
    layer: &OriginGuardLayer,
    method: &Method,
    uri: &str,
    headers: &[(&'static str, &[u8])],
) -> Response<ResponseBody<Full<Bytes>>> {
    let probe = Probe::default();
    let mut request = Request::new(Untouchable);
    *request.method_mut() = method.clone();
    *request.uri_mut() = uri.parse::<Uri>().unwrap();
    for (name, value) in headers {
        let value = HeaderValue::from_bytes(value).unwrap();
        request.headers_mut().append(*name, value);
    }
    let response = layer.layer(probe.clone()).oneshot(request).await.unwrap();

    let refused = Rejection::get(response.extensions()).is_some();
    let status = if refused {
        StatusCode::FORBIDDEN
    } else {
        StatusCode::OK
    };
    assert_eq!(response.status(), status);
    let calls = probe.calls.load(Ordering::Relaxed);
    assert_eq!(calls, usize::from(!refused), "calls of the inner service");
    response
}

async fn kind(
    layer: &OriginGuardLayer,
    method: &Method,
    uri: &str,
    headers: &[(&'static str, &[u8])],
) -> Option<RejectionKind> {
    let response = send(layer, method, uri, headers).await;
    Rejection::get(response.extensions()).map(Rejection::kind)
}

const HOST: Option<RejectionKind> = Some(RejectionKind::ForbiddenHost);
const ORIGIN: Option<RejectionKind> = Some(RejectionKind::ForbiddenOrigin);

/// No such header.
const NONE: &str = "(none)";
const PASSES: bool = true;
const REFUSED: bool = false;

/// A guard from a list of settings: `host=…`, `scheme=…`, and entries of the list of origins.
fn guard(settings: &str) -> OriginGuardLayer {
    settings
        .split_whitespace()
        .fold(OriginGuardLayer::new(), |guard, setting| {
            match setting.split_once('=') {
                Some(("host", host)) => guard.allow_host(host).unwrap(),
                Some(("scheme", "http")) => guard.public_scheme(Scheme::Http),
                Some(("scheme", "https")) => guard.public_scheme(Scheme::Https),
                _ => guard.allow_origin(setting).unwrap(),
            }
        })
}

/// Settings, `Host`, `Origin`, and whether a POST passes.
#[rustfmt::skip]
const CASES: &[(&str, &str, &str, bool)] = &[
    // rule O1: no Origin
    ("", "localhost", NONE, PASSES),
    ("", "evil.example", NONE, PASSES),
    ("", NONE, NONE, PASSES),
    ("", "", NONE, PASSES),
    ("", "not a host", NONE, PASSES),

    // rule O1: unparsable
    ("", "localhost", "", REFUSED),
    ("*", "localhost", "", REFUSED),
    ("*", "localhost", "localhost", REFUSED),
    ("*", "localhost", "//localhost", REFUSED),
    ("*", "localhost", "http:localhost", REFUSED),
    ("*", "localhost", "http:/localhost", REFUSED),
    ("*", "localhost", "http://", REFUSED),
    ("*", "localhost", "://localhost", REFUSED),
    ("*", "localhost", "1http://localhost", REFUSED),
    ("*", "localhost", "ht_tp://localhost", REFUSED),
    ("*", "localhost", "app://", REFUSED),
    ("*", "localhost", "Null", REFUSED),
    ("*", "localhost", "null ", REFUSED),
    ("*", "localhost", "http://lo\u{e9}alhost", REFUSED),
    ("*", "localhost", "app://\u{e9}", REFUSED),
    ("*", "localhost", "http://localhost\t", REFUSED),
    ("*", "localhost", " http://localhost", REFUSED),
    ("*", "localhost", "http://localhost ", REFUSED),
    ("*", "localhost", "http://local host", REFUSED),
    ("*", "localhost", "http://localhost http://localhost", REFUSED),
    ("*", "localhost", "http://localhost, http://localhost", REFUSED),
    ("*", "localhost", "http://localhost,http://localhost", REFUSED),

    // rule O2: nothing but scheme, host and port
    ("", "localhost", "http://localhost/", REFUSED),
    ("*", "localhost", "http://localhost/", REFUSED),
    ("*", "localhost", "http://localhost/mcp", REFUSED),
    ("*", "localhost", "http://localhost?", REFUSED),
    ("*", "localhost", "http://localhost#", REFUSED),
    ("*", "localhost", "http://localhost\\", REFUSED),
    ("*", "localhost", "http://@localhost", REFUSED),
    ("*", "localhost", "http://user@localhost", REFUSED),
    ("*", "localhost", "http://user:password@localhost", REFUSED),
    ("*", "localhost", "http://evil.example@localhost", REFUSED),
    ("*", "localhost", "http://evil.example\\@localhost", REFUSED),
    ("*", "localhost", "http://localhost%00", REFUSED),
    ("*", "localhost", "http://localhost%2eevil.example", REFUSED),
    ("*", "localhost", "http://.", REFUSED),
    ("*", "localhost", "http://.localhost", REFUSED),
    ("*", "localhost", "http://a..localhost", REFUSED),
    ("*", "localhost", "http://localhost..", REFUSED),
    ("*", "localhost", "http://*", REFUSED),
    ("*", "localhost", "http://a_b.example", PASSES),
    ("*", "localhost", "http://-a-.example", PASSES),

    // rule O2: ports
    ("*", "localhost", "http://localhost:", REFUSED),
    ("*", "localhost", "http://localhost:0", PASSES),
    ("*", "localhost", "http://localhost:65535", PASSES),
    ("*", "localhost", "http://localhost:65536", REFUSED),
    ("*", "localhost", "http://localhost:99999", REFUSED),
    ("*", "localhost", "http://localhost:000080", REFUSED),
    ("*", "localhost", "http://localhost:+80", REFUSED),
    ("*", "localhost", "http://localhost:-1", REFUSED),
    ("*", "localhost", "http://localhost:80:80", REFUSED),
    ("*", "localhost", "http://localhost:*", REFUSED),
    ("*", "localhost", "http://localhost:8o", REFUSED),
    ("*", "localhost", "http://:80", REFUSED),
    ("https://a.example:443", "localhost", "https://a.example", PASSES),
    ("https://a.example", "localhost", "https://a.example:443", PASSES),
    ("https://a.example", "localhost", "https://a.example:00443", PASSES),
    ("https://a.example:80", "localhost", "https://a.example", REFUSED),
    ("https://a.example", "localhost", "https://a.example:80", REFUSED),
    ("http://a.example:80", "localhost", "http://a.example", PASSES),
    ("http://a.example:443", "localhost", "http://a.example", REFUSED),
    ("http://a.example:443", "localhost", "https://a.example", REFUSED),

    // rule O2: IPv6 is compared as an address
    ("http://[::1]:3000", "a.example", "http://[0:0:0:0:0:0:0:1]:3000", PASSES),
    ("http://[0:0:0:0:0:0:0:1]:3000", "a.example", "http://[::1]:3000", PASSES),
    ("http://[::FFFF:7F00:1]", "a.example", "http://[::ffff:127.0.0.1]", PASSES),
    ("http://127.0.0.1", "a.example", "http://[::ffff:127.0.0.1]", REFUSED),
    ("http://[::1]", "a.example", "http://[::2]", REFUSED),
    ("*", "localhost", "http://[::1", REFUSED),
    ("*", "localhost", "http://::1", REFUSED),
    ("*", "localhost", "http://::1]", REFUSED),
    ("*", "localhost", "http://[::1]]", REFUSED),
    ("*", "localhost", "http://[::1]80", REFUSED),
    ("*", "localhost", "http://[::1]:", REFUSED),
    ("*", "localhost", "http://[::1%25eth0]", REFUSED),
    ("*", "localhost", "http://[fe80::1%eth0]", REFUSED),
    ("*", "localhost", "http://[localhost]", REFUSED),
    ("*", "localhost", "http://[127.0.0.1]", REFUSED),
    ("*", "localhost", "http://[v1.a]", REFUSED),
    ("*", "localhost", "http://[]", REFUSED),

    // rule O2: other schemes
    ("app://obsidian.md", "localhost", "app://obsidian.md", PASSES),
    ("app://obsidian.md", "localhost", "app://Obsidian.md", REFUSED),
    ("app://obsidian.md", "localhost", "app://obsidian.md:1", REFUSED),
    ("app://obsidian.md", "localhost", "null", REFUSED),
    ("app://obsidian.md", "localhost", "http://obsidian.md", REFUSED),
    ("app://localhost", "localhost", "http://localhost", PASSES),
    ("app://a:b,c!", "localhost", "app://a:b,c!", PASSES),
    ("App://a/", "localhost", "app://a", PASSES),
    ("app://a", "localhost", "app://a/", REFUSED),
    ("app://a", "localhost", "app://u@a", REFUSED),
    ("app://a", "localhost", "apps://a", REFUSED),
    ("", "localhost", "app://localhost", REFUSED),
    ("chrome-extension://aaaa", "localhost", "chrome-extension://aaaa", PASSES),
    ("chrome-extension://aaaa", "localhost", "chrome-extension://bbbb", REFUSED),
    ("ms+x.y-1://a", "localhost", "ms+x.y-1://a", PASSES),

    // rule O3: exact
    ("https://app.example", "localhost", "https://app.example", PASSES),
    ("https://app.example/", "localhost", "https://app.example", PASSES),
    ("HTTPS://App.Example", "localhost", "https://app.example", PASSES),
    ("https://app.example", "localhost", "HTTPS://APP.EXAMPLE", PASSES),
    ("https://app.example", "localhost", "http://app.example", REFUSED),
    ("https://app.example", "localhost", "https://app.example:8443", REFUSED),
    ("https://app.example", "localhost", "https://app.example.evil.example", REFUSED),
    ("https://app.example", "localhost", "https://evil.app.example", REFUSED),
    ("https://app.example", "localhost", "https://evil-app.example", REFUSED),
    ("https://app.example", "localhost", "https://app-example", REFUSED),
    ("https://app.example", "localhost", "https://app.exampl", REFUSED),
    ("https://app.example", "localhost", "https://app.example.", REFUSED),
    ("https://app.example.", "localhost", "https://app.example.", PASSES),
    ("https://app.example.", "localhost", "https://app.example", REFUSED),
    ("https://app.example", "localhost", "null", REFUSED),
    ("https://app.example", "evil.example", "https://app.example", PASSES),
    ("https://app.example", NONE, "https://app.example", PASSES),
    ("https://a.example https://b.example", "localhost", "https://b.example", PASSES),
    ("https://xn--bcher-kva.example", "localhost", "https://xn--bcher-kva.example", PASSES),
    ("https://xn--bcher-kva.example", "localhost", "https://XN--BCHER-KVA.example", PASSES),
    ("https://xn--bcher-kva.example", "localhost", "https://b\u{fc}cher.example", REFUSED),
    ("http://0.0.0.0:3000", "localhost", "http://0.0.0.0:3000", PASSES),

    // rule O3: any port
    ("http://localhost:*", "a.example", "http://localhost", PASSES),
    ("http://localhost:*", "a.example", "http://localhost:1", PASSES),
    ("http://localhost:*/", "a.example", "http://localhost:65535", PASSES),
    ("http://localhost:*", "a.example", "https://localhost:1", REFUSED),
    ("http://localhost:*", "a.example", "http://localhost:", REFUSED),
    ("http://localhost:*", "a.example", "http://localhost.evil.example", REFUSED),
    ("http://localhost:*", "a.example", "http://localhost.evil.example:80", REFUSED),
    ("http://localhost:*", "a.example", "http://evil-localhost", REFUSED),
    ("http://localhost:*", "a.example", "http://notlocalhost", REFUSED),
    ("http://localhost:*", "a.example", "http://evil.localhost", REFUSED),
    ("http://localhost:*", "a.example", "http://localhost.", REFUSED),
    ("http://localhost:*", "a.example", "http://localhost:80@evil.example", REFUSED),
    ("http://[::1]:*", "a.example", "http://[::1]:5173", PASSES),
    ("http://127.0.0.1:*", "a.example", "http://127.0.0.1:5173", PASSES),
    ("http://127.0.0.1:*", "a.example", "http://127.0.0.2:5173", REFUSED),
    ("http://127.0.0.1:*", "a.example", "http://127.0.0.1.evil.example", REFUSED),

    // rule O3: sub-names
    ("https://*.example.com", "localhost", "https://a.example.com", PASSES),
    ("https://*.example.com", "localhost", "https://a.b.Example.com", PASSES),
    ("https://*.Example.com/", "localhost", "https://a.example.com:443", PASSES),
    ("https://*.example.com", "localhost", "https://example.com", REFUSED),
    ("https://*.example.com", "localhost", "https://.example.com", REFUSED),
    ("https://*.example.com", "localhost", "https://notexample.com", REFUSED),
    ("https://*.example.com", "localhost", "https://a-example.com", REFUSED),
    ("https://*.example.com", "localhost", "https://a.example.com.evil.example", REFUSED),
    ("https://*.example.com", "localhost", "https://a.example.com.", REFUSED),
    ("https://*.example.com", "localhost", "https://a.example.com:8443", REFUSED),
    ("https://*.example.com", "localhost", "http://a.example.com", REFUSED),
    ("https://*.example.com", "localhost", "https://*.example.com", REFUSED),
    ("https://*.example.com:8443", "localhost", "https://a.example.com:8443", PASSES),
    ("https://*.example.com:8443", "localhost", "https://a.example.com", REFUSED),
    ("https://*.example.com:*", "localhost", "https://a.example.com:1", PASSES),
    ("https://*.example.com:*", "localhost", "https://a.example.com", PASSES),
    ("https://*.example.com:*", "localhost", "https://example.com:1", REFUSED),
    ("http://*.localhost:6274", "a.example", "http://mcp.localhost:6274", PASSES),

    // rule O3: every origin of another scheme
    ("vscode-webview://*", "localhost", "vscode-webview://1f0c9d7e-aaaa-4bbb-8ccc-1234567890ab", PASSES),
    ("VSCode-Webview://*", "localhost", "vscode-webview://1", PASSES),
    ("vscode-webview://*", "localhost", "vscode-webviews://1", REFUSED),
    ("vscode-webview://*", "localhost", "vscode-webview://", REFUSED),
    ("vscode-webview://*", "localhost", "vscode-webview://1/2", REFUSED),
    ("vscode-webview://*", "localhost", "https://1", REFUSED),
    ("vscode-webview://*", "localhost", "null", REFUSED),

    // rule O3: null and every origin
    ("", "localhost", "null", REFUSED),
    ("null", "localhost", "null", PASSES),
    ("NULL", "localhost", "null", PASSES),
    ("null", "localhost", "https://a.example", REFUSED),
    ("*", "localhost", "null", PASSES),
    ("*", "evil.example", "http://evil.example", PASSES),
    ("*", "localhost", "app://a", PASSES),
    ("", "null", "null", REFUSED),
    ("host=null", "null", "null", REFUSED),

    // rule O4: same origin, under a loopback name
    ("", "localhost", "http://localhost", PASSES),
    ("", "localhost:8080", "http://localhost:8080", PASSES),
    ("", "LocalHost:8080", "http://localhost:8080", PASSES),
    ("", "localhost:8080", "http://localhost:8081", REFUSED),
    ("", "localhost:8080", "http://localhost", REFUSED),
    ("", "localhost", "http://localhost:8080", REFUSED),
    ("", "localhost:80", "http://localhost", PASSES),
    ("", "localhost", "http://localhost:80", PASSES),
    ("", "localhost", "https://localhost", PASSES),
    ("", "localhost:443", "https://localhost", PASSES),
    ("", "localhost:443", "http://localhost", REFUSED),
    ("", "app.localhost:1", "http://app.localhost:1", PASSES),
    ("", "localhost", "http://app.localhost", REFUSED),
    ("", "localhost:8080", "http://127.0.0.1:8080", REFUSED),
    ("", "127.0.0.1:8080", "http://127.0.0.1:8080", PASSES),
    ("", "127.255.255.254", "http://127.255.255.254", PASSES),
    ("", "128.0.0.1", "http://128.0.0.1", REFUSED),
    ("", "10.0.0.1", "http://10.0.0.1", REFUSED),
    ("", "127.1", "http://127.1", REFUSED),
    ("", "127.0.0.01", "http://127.0.0.01", REFUSED),
    ("", "127.0.0.1.", "http://127.0.0.1.", REFUSED),
    ("", "2130706433", "http://2130706433", REFUSED),
    ("", "0x7f000001", "http://0x7f000001", REFUSED),
    ("", "0.0.0.0:8080", "http://0.0.0.0:8080", REFUSED),
    ("", "[::]:8080", "http://[::]:8080", REFUSED),
    ("", "[::1]:8080", "http://[::1]:8080", PASSES),
    ("", "[0:0:0:0:0:0:0:1]:8080", "http://[::1]:8080", PASSES),
    ("", "[::ffff:127.0.0.1]", "http://[::ffff:127.0.0.1]", REFUSED),
    ("", "[::1%25lo]", "http://[::1]", REFUSED),
    ("", "[::1].evil.example", "http://[::1].evil.example", REFUSED),
    ("", "::1", "http://[::1]", REFUSED),
    ("", "localhost.", "http://localhost.", REFUSED),
    ("", "localhost.", "http://localhost", REFUSED),
    ("", "localhost.evil.example", "http://localhost.evil.example", REFUSED),
    ("", "evil-localhost", "http://evil-localhost", REFUSED),
    ("", "notlocalhost", "http://notlocalhost", REFUSED),
    ("", "127.0.0.1.evil.example", "http://127.0.0.1.evil.example", REFUSED),
    ("", "evil.example:8080", "http://evil.example:8080", REFUSED),
    ("", "evil.example", "http://localhost", REFUSED),
    ("", "localhost", "http://evil.example", REFUSED),
    ("", NONE, "http://localhost", REFUSED),
    ("", "", "http://localhost", REFUSED),
    ("", "localhost:", "http://localhost", REFUSED),
    ("", "localhost:99999", "http://localhost", REFUSED),
    ("", "user@localhost", "http://localhost", REFUSED),
    ("", "localhost/", "http://localhost", REFUSED),
    ("", "localhost ", "http://localhost", REFUSED),
    ("", "localhost\t", "http://localhost", REFUSED),
    ("", "localhost, localhost", "http://localhost", REFUSED),
    ("", "loc\u{e0}lhost", "http://localhost", REFUSED),

    // rule O4: same origin, under a listed name
    ("host=app.example", "app.example", "https://app.example", PASSES),
    ("host=app.example", "app.example", "http://app.example", PASSES),
    ("host=App.Example", "app.example", "https://APP.example", PASSES),
    ("host=app.example", "app.example:8443", "https://app.example:8443", PASSES),
    ("host=app.example", "app.example", "https://other.example", REFUSED),
    ("host=app.example", "a.app.example", "https://a.app.example", REFUSED),
    ("host=app.example", "app.example.", "https://app.example.", REFUSED),
    ("host=app.example.", "app.example.", "https://app.example.", PASSES),
    ("host=app.example:8443", "app.example:8443", "https://app.example:8443", PASSES),
    ("host=app.example:8443", "app.example", "https://app.example", REFUSED),
    ("host=app.example:443", "app.example", "https://app.example", PASSES),
    ("host=app.example:80", "app.example", "http://app.example", PASSES),
    ("host=app.example:443", "app.example:443", "https://app.example", PASSES),
    ("host=app.example:443", "app.example:80", "http://app.example", REFUSED),
    ("host=[::2]", "[0::2]:1", "http://[::2]:1", PASSES),
    ("host=10.0.0.1", "10.0.0.1:1", "http://10.0.0.1:1", PASSES),
    ("host=app.example scheme=https", "app.example", "https://app.example", PASSES),
    ("host=app.example scheme=https", "app.example", "http://app.example", REFUSED),
    ("host=app.example scheme=http", "app.example", "https://app.example", REFUSED),
    ("scheme=https", "localhost:1", "http://localhost:1", REFUSED),
    ("scheme=https http://a.example", "localhost:1", "http://a.example", PASSES),
];

fn host_and_origin<'a>(host: &'a str, origin: &'a str) -> Vec<(&'static str, &'a [u8])> {
    [("host", host), ("origin", origin)]
        .into_iter()
        .filter(|(_, value)| *value != NONE)
        .map(|(name, value)| (name, value.as_bytes()))
        .collect()
}

#[tokio::test]
async fn posts_pass_as_the_table_says() {
    assert!(CASES.len() >= 150);
    for &(settings, host, origin, passes) in CASES {
        let headers = host_and_origin(host, origin);
        let kind = kind(&guard(settings), &Method::POST, "/mcp", &headers).await;
        assert_eq!(
            kind.is_none(),
            passes,
            "guard [{settings}], Host {host:?}, Origin {origin:?}: {kind:?}"
        );
    }
}

#[tokio::test]
async fn requests_with_an_origin_are_judged_alike_whatever_the_method() {
    let methods = ["GET", "HEAD", "DELETE", "OPTIONS", "PUT", "PATCH", "QUERY"];
    for method in methods.map(|it| Method::from_bytes(it.as_bytes()).unwrap()) {
        for &(settings, host, origin, passes) in CASES.iter().filter(|case| case.2 != NONE) {
            let headers = host_and_origin(host, origin);
            let kind = kind(&guard(settings), &method, "/mcp", &headers).await;
            assert_eq!(
                kind.is_none(),
                passes,
                "{method}, guard [{settings}], Host {host:?}, Origin {origin:?}: {kind:?}"
            );
        }
    }
}

// rule O3
#[rustfmt::skip]
#[test]
fn origins_that_could_never_match_are_errors() {
    use InvalidEntryKind as Kind;
    for (entry, kind) in [
        ("", Kind::Empty),
        ("http://", Kind::Empty),
        ("app://", Kind::Empty),
        ("https://:443", Kind::Empty),
        ("https://*.", Kind::Empty),
        ("app.example", Kind::Scheme),
        ("app.example:443", Kind::Scheme),
        ("//app.example", Kind::Scheme),
        ("https:app.example", Kind::Scheme),
        ("https:/app.example", Kind::Scheme),
        (" https://app.example", Kind::Scheme),
        ("://app.example", Kind::Scheme),
        ("*://app.example", Kind::Scheme),
        ("1a://app.example", Kind::Scheme),
        ("b\u{fc}://app.example", Kind::Scheme),
        ("**", Kind::Scheme),
        ("null/", Kind::Scheme),
        ("*/", Kind::Scheme),
        ("/", Kind::Empty),
        ("https://app.example/mcp", Kind::Path),
        ("https://app.example//", Kind::Path),
        ("https://app.example?", Kind::Path),
        ("https://app.example#a", Kind::Path),
        ("https://app.example\\", Kind::Path),
        ("https://user@app.example/mcp", Kind::Path),
        ("https:///", Kind::Path),
        ("app://a/b", Kind::Path),
        ("https://user@app.example", Kind::Userinfo),
        ("https://user:password@app.example", Kind::Userinfo),
        ("app://user@a", Kind::Userinfo),
        ("https://b\u{fc}cher.example", Kind::NotAscii),
        ("https://*.b\u{fc}cher.example", Kind::NotAscii),
        ("app://b\u{fc}cher", Kind::NotAscii),
        ("https://app.example ", Kind::Host),
        ("https://app example", Kind::Host),
        ("https://app.example\0", Kind::Host),
        ("https://app..example", Kind::Host),
        ("https://.app.example", Kind::Host),
        ("https://app%2eexample", Kind::Host),
        ("https://a.example,https", Kind::Host),
        ("https://::1", Kind::Host),
        ("https://[::1", Kind::Host),
        ("https://[::1%eth0]", Kind::Host),
        ("https://[::1].evil.example", Kind::Host),
        ("https://[]", Kind::Host),
        ("https://a:1:2", Kind::Host),
        ("https://a:1:*", Kind::Host),
        ("http://127.1", Kind::Host),
        ("http://127.1:*", Kind::Host),
        ("http://2130706433", Kind::Host),
        ("http://0x7f.0.0.1", Kind::Host),
        ("http://0x7f000001", Kind::Host),
        ("http://127.0.0.256", Kind::Host),
        ("http://127.0.0.1.", Kind::Host),
        ("app://a b", Kind::Host),
        ("app://a\tb", Kind::Host),
        ("https://app.example:", Kind::Port),
        ("https://app.example:65536", Kind::Port),
        ("https://app.example:000443", Kind::Port),
        ("https://app.example:+443", Kind::Port),
        ("https://app.example:https", Kind::Port),
        ("https://*.app.example:99999", Kind::Port),
        ("https://[::1]:", Kind::Port),
        ("https://*", Kind::Wildcard),
        ("http://*:*", Kind::Wildcard),
        ("http://*:80", Kind::Wildcard),
        ("https://a*.example", Kind::Wildcard),
        ("https://a.*.example", Kind::Wildcard),
        ("https://*.*.example", Kind::Wildcard),
        ("https://app.example:80*", Kind::Wildcard),
        ("https://*.127.0.0.1", Kind::Wildcard),
        ("https://*.[::1]", Kind::Wildcard),
        ("app://*.a", Kind::Wildcard),
        ("app://a:*", Kind::Wildcard),
    ] {
        let error = OriginGuardLayer::new().allow_origin(entry).map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), kind, "{entry:?}");
        let text = error.to_string();
        assert!(text.contains(&format!("{entry:?}")), "{text}");
        assert!(text.contains("scheme://"), "{text}");
    }
}

// rule O4
#[rustfmt::skip]
#[test]
fn hosts_that_no_client_could_name_are_errors() {
    use InvalidEntryKind as Kind;
    for (entry, kind) in [
        ("", Kind::Empty),
        (":80", Kind::Empty),
        ("https://app.example", Kind::Scheme),
        ("app.example/", Kind::Path),
        ("app.example?", Kind::Path),
        ("user@app.example", Kind::Userinfo),
        ("b\u{fc}cher.example", Kind::NotAscii),
        ("app example", Kind::Host),
        ("app.example,b.example", Kind::Host),
        ("a..example", Kind::Host),
        ("::1", Kind::Host),
        ("[::1", Kind::Host),
        ("fe80::1", Kind::Host),
        ("127.1", Kind::Host),
        ("app.example:", Kind::Port),
        ("app.example:70000", Kind::Port),
        ("*", Kind::Wildcard),
        ("*.app.example", Kind::Wildcard),
        ("app.example:*", Kind::Wildcard),
        ("0.0.0.0", Kind::Unspecified),
        ("0.0.0.0:8080", Kind::Unspecified),
        ("[::]", Kind::Unspecified),
        ("[::0]:8080", Kind::Unspecified),
    ] {
        let error = OriginGuardLayer::new().allow_host(entry).map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), kind, "{entry:?}");
        let text = error.to_string();
        assert!(text.contains(&format!("{entry:?}")), "{text}");
        if kind != Kind::Wildcard {
            assert!(text.contains("host[:port]"), "{text}");
        }
    }
}

#[test]
fn errors_name_the_remedy() {
    for (entry, text) in [
        (
            "https://a.example/mcp",
            r#"invalid origin "https://a.example/mcp": there is a path, query or fragment; write only scheme://host[:port]"#,
        ),
        (
            "https://\u{fc}.example",
            "invalid origin \"https://\u{fc}.example\": the host is not ASCII; write it in punycode, as browsers send it: scheme://host[:port]",
        ),
    ] {
        let error = OriginGuardLayer::new().allow_origin(entry).unwrap_err();
        assert_eq!(error.to_string(), text);
    }
}

// rule O3
#[tokio::test]
async fn predicates_admit_well_formed_origins_only() {
    let guard = OriginGuardLayer::new().allow_origin_if(|origin| {
        assert_ne!(origin.as_str(), "null");
        origin.scheme() != "https" || origin.port() == Some(8443) && origin.host() == "a.example"
    });
    for (origin, expected) in [
        ("https://a.example:8443", None),
        ("https://a.example", ORIGIN),
        ("https://b.example:8443", ORIGIN),
        ("app://a.example", None),
        ("app://a/b", ORIGIN),
        ("null", ORIGIN),
        ("", ORIGIN),
    ] {
        let headers = host_and_origin("localhost", origin);
        let kind = kind(&guard, &Method::POST, "/mcp", &headers).await;
        assert_eq!(kind, expected, "{origin}");
    }
}

// rule O4
#[tokio::test]
async fn gets_without_origin_need_a_known_host() {
    let guard = guard("host=app.example *");
    for (host, expected) in [
        ("localhost:8080", None),
        ("a.localhost", None),
        ("127.0.0.1", None),
        ("[::1]:8080", None),
        ("app.example", None),
        ("evil.example:8080", HOST),
        ("localhost.evil.example", HOST),
        ("0.0.0.0", HOST),
        ("not a host", HOST),
        ("", HOST),
        (NONE, HOST),
    ] {
        let headers = host_and_origin(host, NONE);
        for method in [Method::GET, Method::HEAD] {
            let kind = kind(&guard, &method, "/mcp", &headers).await;
            assert_eq!(kind, expected, "{method} {host}");
        }
        for method in [Method::POST, Method::DELETE, Method::OPTIONS, Method::PUT] {
            let kind = kind(&guard, &method, "/mcp", &headers).await;
            assert_eq!(kind, None, "{method} {host}");
        }
    }
}

// rule O4
#[tokio::test]
async fn unknown_hosts_are_refused_on_every_request_when_told_so() {
    let strict = guard("https://a.example *").require_known_host(true);
    for method in [Method::GET, Method::POST, Method::DELETE, Method::OPTIONS] {
        for (host, origin, expected) in [
            ("localhost", NONE, None),
            ("localhost", "https://a.example", None),
            ("evil.example", NONE, HOST),
            ("evil.example", "https://a.example", HOST),
            ("evil.example", "null", HOST),
            ("", NONE, HOST),
            (NONE, NONE, HOST),
        ] {
            let headers = host_and_origin(host, origin);
            let kind = kind(&strict, &method, "/mcp", &headers).await;
            assert_eq!(kind, expected, "{method} {host} {origin}");
        }
    }
    let lenient = strict.require_known_host(false);
    let headers = host_and_origin("evil.example", NONE);
    assert_eq!(kind(&lenient, &Method::POST, "/mcp", &headers).await, None);
}

// rule O4
#[tokio::test]
async fn the_authority_of_the_uri_stands_in_for_host() {
    for (uri, origin, expected) in [
        ("https://localhost/mcp", "https://localhost", None),
        ("http://localhost:8080/mcp", "http://localhost:8080", None),
        ("http://localhost:8080/mcp", "http://localhost", ORIGIN),
        ("https://evil.example/mcp", "https://evil.example", HOST),
        ("https://evil.example/mcp", NONE, HOST),
        ("https://localhost/mcp", NONE, None),
        ("http://u@localhost/mcp", "http://localhost", ORIGIN),
        ("http://localhost:99999/mcp", "http://localhost", ORIGIN),
        ("http://[::1]:8080/mcp", "http://[::1]:8080", None),
    ] {
        let headers = host_and_origin(NONE, origin);
        let kind = kind(&guard(""), &Method::GET, uri, &headers).await;
        assert_eq!(kind, expected, "{uri} {origin}");
    }
}

// rule O4
#[tokio::test]
async fn a_host_that_contradicts_the_uri_is_refused() {
    for (uri, host, expected) in [
        ("http://localhost:8080/mcp", "localhost:8080", None),
        ("http://localhost/mcp", "LOCALHOST:80", None),
        ("http://localhost:80/mcp", "localhost", None),
        ("https://localhost:443/mcp", "localhost", None),
        ("https://[::1]/mcp", "[0:0:0:0:0:0:0:1]:443", None),
        ("https://localhost:80/mcp", "localhost", HOST),
        ("http://localhost/mcp", "localhost:8080", HOST),
        ("http://localhost/mcp", "localhost.", HOST),
        ("http://localhost/mcp", "127.0.0.1", HOST),
        ("http://localhost/mcp", "evil.example", HOST),
        ("http://evil.example/mcp", "localhost", HOST),
        ("http://localhost/mcp", "", HOST),
        ("http://localhost/mcp", "local host", HOST),
        ("http://localhost:99999/mcp", "localhost", HOST),
        ("http://localhost:99999/mcp", "localhost:99998", HOST),
    ] {
        for method in [Method::POST, Method::GET, Method::OPTIONS] {
            for origin in [NONE, "https://a.example"] {
                let headers = host_and_origin(host, origin);
                let kind = kind(&guard("https://a.example *"), &method, uri, &headers).await;
                assert_eq!(kind, expected, "{method} {uri} {host} {origin}");
            }
        }
    }
}

// rule O4
#[tokio::test]
async fn an_unparsable_host_that_the_uri_repeats_is_unknown() {
    let headers = host_and_origin("localhost:99999", NONE);
    let uri = "http://localhost:99999/mcp";
    assert_eq!(kind(&guard(""), &Method::POST, uri, &headers).await, None);
    assert_eq!(kind(&guard(""), &Method::GET, uri, &headers).await, HOST);
}

// rules O1, O4
#[tokio::test]
async fn a_repeated_host_or_origin_is_refused() {
    let guard = guard("https://a.example *");
    for method in [Method::POST, Method::GET, Method::DELETE, Method::OPTIONS] {
        for second in ["localhost", "evil.example", ""] {
            let headers: &[(_, &[u8])] = &[("host", b"localhost"), ("host", second.as_bytes())];
            let kind = kind(&guard, &method, "/mcp", headers).await;
            assert_eq!(kind, HOST, "{method} {second}");
        }
        for second in ["https://a.example", "null", ""] {
            let headers: &[(_, &[u8])] = &[
                ("host", b"localhost"),
                ("origin", b"https://a.example"),
                ("origin", second.as_bytes()),
            ];
            let kind = kind(&guard, &method, "/mcp", headers).await;
            assert_eq!(kind, ORIGIN, "{method} {second}");
        }
    }
}

// rule O5
#[tokio::test]
async fn a_forwarded_host_counts_only_when_trusted_and_single() {
    let trusting = guard("host=app.example").dangerously_trust_forwarded_host(true);
    // Host, X-Forwarded-Host, Origin, what happens with trust and without.
    #[rustfmt::skip]
    let cases: &[(&str, &[&str], &str, _, _)] = &[
        ("proxy:1", &["app.example"], "https://app.example", None, ORIGIN),
        ("proxy:1", &["app.example:443"], "https://app.example", None, ORIGIN),
        ("proxy:1", &["app.example"], NONE, None, HOST),
        ("proxy:1", &["app.example"], "https://evil.example", ORIGIN, ORIGIN),
        ("proxy:1", &["evil.example"], "https://evil.example", HOST, ORIGIN),
        ("evil.example", &["localhost"], "http://evil.example", ORIGIN, HOST),
        ("evil.example", &["localhost"], NONE, None, HOST),
        ("localhost:1", &["evil.example"], NONE, HOST, None),
        ("localhost:1", &["app.example, app.example"], NONE, HOST, None),
        ("localhost:1", &["app.example,evil.example"], NONE, HOST, None),
        ("localhost:1", &["app.example", "app.example"], NONE, HOST, None),
        ("localhost:1", &["app.example", "evil.example"], NONE, HOST, None),
        ("localhost:1", &[""], NONE, HOST, None),
        ("localhost:1", &["https://app.example"], NONE, HOST, None),
        ("localhost:1", &["app.example", "a"], "http://localhost:1", ORIGIN, None),
        ("localhost:1", &[], "http://localhost:1", None, None),
        (NONE, &["app.example"], NONE, None, HOST),
    ];
    for &(host, forwarded, origin, trusted, untrusted) in cases {
        let mut headers = host_and_origin(host, origin);
        headers.extend(
            forwarded
                .iter()
                .map(|it| ("x-forwarded-host", it.as_bytes())),
        );
        for (guard, expected) in [
            (trusting.clone(), trusted),
            (
                trusting.clone().dangerously_trust_forwarded_host(false),
                untrusted,
            ),
            (guard("host=app.example"), untrusted),
        ] {
            let kind = kind(&guard, &Method::GET, "/mcp", &headers).await;
            assert_eq!(kind, expected, "{host} {forwarded:?} {origin}");
        }
    }
}

// rules O4, O5
#[tokio::test]
async fn a_forwarded_host_does_not_mend_a_repeated_or_contradicting_one() {
    let guard = guard("").dangerously_trust_forwarded_host(true);
    let repeated: &[(_, &[u8])] = &[
        ("host", b"localhost"),
        ("host", b"localhost"),
        ("x-forwarded-host", b"localhost"),
    ];
    assert_eq!(kind(&guard, &Method::POST, "/mcp", repeated).await, HOST);
    let contradicting: &[(_, &[u8])] =
        &[("host", b"localhost"), ("x-forwarded-host", b"localhost")];
    let uri = "http://evil.example/mcp";
    assert_eq!(kind(&guard, &Method::POST, uri, contradicting).await, HOST);
}

// rule O6
#[tokio::test]
async fn refusals_name_what_was_refused_and_the_remedy() {
    let long = format!("https://{}.example", "a".repeat(200));
    #[rustfmt::skip]
    let cases: &[(&str, &str, &[&str])] = &[
        ("localhost", "https://evil.example", &["`https://evil.example`", "OriginGuardLayer::allow_origin"]),
        ("localhost", "null", &["`null`", "OriginGuardLayer::allow_origin"]),
        ("evil.example", "https://evil.example", &["`evil.example`", "OriginGuardLayer::allow_host"]),
        ("evil.example", NONE, &["`evil.example`", "OriginGuardLayer::allow_host"]),
        (NONE, NONE, &["`Host`"]),
        ("a b", NONE, &["`a b`", "host[:port]"]),
        ("localhost", "http://a/", &["`http://a/`", "scheme://host[:port]"]),
        ("localhost", "http://\u{e9}", &["`http://\\xc3\\xa9`"]),
        ("localhost", &long, &[&long[..100]]),
    ];
    for (host, origin, parts) in cases {
        let headers = host_and_origin(host, origin);
        let response = send(&guard(""), &Method::GET, "/mcp", &headers).await;
        assert_eq!(response.headers()["content-type"], "application/json");
        assert_eq!(response.headers()["vary"], "Origin");
        assert_eq!(response.headers().len(), 2, "{:?}", response.headers());
        let message = Rejection::get(response.extensions()).unwrap().to_string();

        let body = response.into_body().collect().await.unwrap().to_bytes();
        assert!(!body.contains(&b'\n'));
        let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(
            body,
            serde_json::json!({ "jsonrpc": "2.0", "error": { "code": -32600, "message": message } })
        );
        for part in *parts {
            assert!(message.contains(part), "{message}");
        }
        assert!(!message.contains(&"a".repeat(100)), "{message}");
    }
}

// rule O6
#[tokio::test]
async fn refusals_of_head_have_no_body() {
    for (origin, host) in [
        ("https://evil.example", "localhost"),
        (NONE, "evil.example"),
    ] {
        let headers = host_and_origin(host, origin);
        let response = send(&guard(""), &Method::HEAD, "/mcp", &headers).await;
        assert_eq!(response.headers()["vary"], "Origin");
        let body = response.into_body().collect().await.unwrap();
        assert!(body.to_bytes().is_empty());
    }
}

#[tokio::test]
async fn one_instance_serves_many_requests() {
    let probe = Probe::default();
    let mut service = OriginGuardLayer::new().layer(probe.clone());
    for origin in ["http://localhost", "https://evil.example"].repeat(3) {
        let request = Request::post("/mcp")
            .header("host", "localhost")
            .header("origin", origin)
            .body(Untouchable)
            .unwrap();
        poll_fn(|cx| Service::<Request<Untouchable>>::poll_ready(&mut service, cx))
            .await
            .unwrap();
        let response = service.call(request).await.unwrap();
        assert_eq!(
            response.status() == StatusCode::OK,
            origin == "http://localhost"
        );
    }
    assert_eq!(probe.calls.load(Ordering::Relaxed), 3);
    assert!(!service.get_ref().clone().ready);
    service.get_mut().ready = false;
    assert_eq!(service.into_inner().calls.load(Ordering::Relaxed), 3);
}

#[tokio::test]
async fn a_setting_made_later_leaves_earlier_guards_alone() {
    let strict = OriginGuardLayer::new();
    let service = strict.layer(Probe::default());
    let lenient = strict.clone().allow_origin("https://a.example").unwrap();
    let headers = host_and_origin("localhost", "https://a.example");
    assert_eq!(kind(&lenient, &Method::POST, "/mcp", &headers).await, None);
    assert_eq!(kind(&strict, &Method::POST, "/mcp", &headers).await, ORIGIN);
    let request = Request::post("/mcp")
        .header("origin", "https://a.example")
        .body(Untouchable)
        .unwrap();
    let response = service.oneshot(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::FORBIDDEN);
}

/// Sends a POST of `https://a.example` to a service as it is.
async fn status_of_a(service: &OriginGuard<Probe>) -> StatusCode {
    let request = Request::post("/mcp")
        .header("host", "localhost")
        .header("origin", "https://a.example")
        .body(Untouchable)
        .unwrap();
    service.clone().oneshot(request).await.unwrap().status()
}

#[tokio::test]
async fn a_handle_replaces_the_policy_of_all_services_of_its_layer() {
    let (layer, handle) = guard("").with_handle();
    let before = layer.layer(Probe::default());
    let cloned = layer.clone().layer(Probe::default());
    assert_eq!(status_of_a(&before).await, StatusCode::FORBIDDEN);

    handle.replace(guard("https://a.example"));
    let after = layer.layer(Probe::default());
    for service in [&before, &cloned, &after] {
        assert_eq!(status_of_a(service).await, StatusCode::OK);
    }

    handle.clone().replace(guard("https://b.example"));
    for service in [&before, &cloned, &after] {
        assert_eq!(status_of_a(service).await, StatusCode::FORBIDDEN);
    }
}

#[tokio::test]
async fn a_handle_leaves_other_guards_alone() {
    let fixed = guard("");
    let (_, handle) = fixed.clone().with_handle();
    handle.replace(guard("https://a.example"));
    let service = fixed.layer(Probe::default());
    assert_eq!(status_of_a(&service).await, StatusCode::FORBIDDEN);

    // What it was replaced with goes its own way.
    let (layer, handle) = guard("").with_handle();
    let (other, other_handle) = guard("https://a.example").with_handle();
    handle.replace(other);
    other_handle.replace(guard(""));
    let service = layer.layer(Probe::default());
    assert_eq!(status_of_a(&service).await, StatusCode::OK);
}

#[tokio::test]
async fn a_setting_made_on_a_layer_with_a_handle_is_made_for_all() {
    let (layer, handle) = guard("").with_handle();
    let service = layer.layer(Probe::default());
    let (layer, same) = layer
        .allow_origin("https://a.example")
        .unwrap()
        .with_handle();
    assert_eq!(status_of_a(&service).await, StatusCode::OK);

    layer.allow_origin("https://a.example/mcp").unwrap_err();
    assert_eq!(status_of_a(&service).await, StatusCode::OK);

    same.replace(guard(""));
    assert_eq!(status_of_a(&service).await, StatusCode::FORBIDDEN);
    handle.replace(guard("https://a.example"));
    assert_eq!(status_of_a(&service).await, StatusCode::OK);
}

#[tokio::test]
async fn a_request_is_judged_by_the_policy_that_it_met() {
    let (layer, handle) = guard("").with_handle();
    let service = layer.layer(Probe::default());
    // A predicate that replaces its own policy shows that no lock is held while it runs.
    let from_within = handle.clone();
    handle.replace(guard("").allow_origin_if(move |_| {
        from_within.replace(guard(""));
        true
    }));
    assert_eq!(status_of_a(&service).await, StatusCode::OK);
    assert_eq!(status_of_a(&service).await, StatusCode::FORBIDDEN);
}

#[test]
fn the_guard_can_be_shared_between_threads() {
    fn shareable<T: Clone + std::fmt::Debug + Send + Sync + 'static>() {}
    fn sendable<T: std::fmt::Debug + Send + Sync + 'static>() {}
    shareable::<OriginGuardLayer>();
    shareable::<OriginHandle>();
    shareable::<OriginGuard<Probe>>();
    sendable::<<OriginGuard<Probe> as Service<Request<Untouchable>>>::Future>();
    sendable::<mcp_layers::origin::InvalidOrigin>();
    sendable::<mcp_layers::origin::InvalidHost>();
}
