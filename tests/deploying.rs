//! The section "Deploying" of the origin guard's documentation, claim by claim.
//!
//! The rows of its tables are read from there and tried, so that no row says what does not hold.
#![allow(clippy::unwrap_used)] // clippy knows only functions marked as tests to be tests

mod support;

use std::collections::BTreeMap;

use axum::{
    Router,
    body::Body,
    extract::Request,
    middleware::{Next, from_fn},
    response::Response,
    routing::{get, post},
};
use http::{HeaderName, Method, StatusCode};
use mcp_layers::{McpLayer, OriginGuardLayer, ServerInfo, origin::Scheme};
use support::{Answer, plain, send};
use tower::{Layer, ServiceBuilder, ServiceExt};

const PAGE: &str = include_str!("../src/origin.rs");

/// A row of a table: column to cell, both without backticks.
type Row = BTreeMap<String, String>;

/// The rows of the only table under a heading.
fn rows(heading: &str) -> Vec<Row> {
    let start = format!("//! ## {heading}\n");
    let (_, section) = PAGE.split_once(&start).expect(heading);
    let lines = section
        .lines()
        .take_while(|line| !line.starts_with("//! #") && line.starts_with("//!"));
    let mut table = lines
        .filter_map(|line| line.strip_prefix("//! | ")?.strip_suffix(" |"))
        .map(|line| line.split(" | ").map(|cell| cell.replace('`', "")));
    let columns: Vec<String> = table.next().expect(heading).collect();
    table
        .map(|cells| {
            let cells: Vec<String> = cells.collect();
            assert_eq!(cells.len(), columns.len(), "{heading}: {cells:?}");
            columns.iter().cloned().zip(cells).collect()
        })
        .collect()
}

/// The guard that the column "settings" describes.
fn guard(settings: &str) -> OriginGuardLayer {
    let mut guard = OriginGuardLayer::new();
    for setting in settings.split("), ").filter(|it| *it != "none") {
        let (name, value) = setting.trim_end_matches(')').split_once('(').unwrap();
        let text = value.trim_matches('"');
        guard = match (name, value) {
            ("allow_origin", _) => guard.allow_origin(text).unwrap(),
            ("allow_host", _) => guard.allow_host(text).unwrap(),
            ("allow_header", r#"HeaderName::from_static("x-api-key""#) => {
                guard.allow_header(HeaderName::from_static("x-api-key"))
            }
            ("allow_credentials", "true") => guard.allow_credentials(true),
            ("legacy_streams", "true") => guard.legacy_streams(true),
            ("public_scheme", "Scheme::Https") => guard.public_scheme(Scheme::Https),
            ("require_known_host", "true") => guard.require_known_host(true),
            ("dangerously_trust_forwarded_host", "true") => {
                guard.dangerously_trust_forwarded_host(true)
            }
            other => panic!("nobody knows {other:?}"),
        };
    }
    guard
}

fn request(method: Method, headers: &[(&str, &str)]) -> Request {
    let mut request = Request::builder().method(method).uri("/mcp");
    for (name, value) in headers {
        if *value != "none" {
            request = request.header(*name, *value);
        }
    }
    request.body(Body::empty()).unwrap()
}

async fn passes(guard: &OriginGuardLayer, method: Method, headers: &[(&str, &str)]) -> bool {
    let request = request(method, headers).map(|_| support::Chunks::default());
    let answer = send(guard.layer(plain()), request).await;
    assert!(matches!(answer.status().as_u16(), 200 | 403));
    answer.status() == 200
}

fn outcome(passes: bool) -> &'static str {
    if passes { "passes" } else { "refused" }
}

/// Sends the request of each row, and compares what becomes of it.
async fn every_row_holds(heading: &str, count: usize) {
    let rows = rows(heading);
    assert_eq!(rows.len(), count, "{heading}");
    for row in rows {
        let guard = guard(row.get("settings").map_or("none", |it| it));
        let method = if row["who asks"].contains("GET") {
            Method::GET
        } else {
            Method::POST
        };
        let headers = [("host", &*row["Host"]), ("origin", &*row["Origin"])];
        let passes = passes(&guard, method, &headers).await;
        assert_eq!(outcome(passes), row["outcome"], "{heading}: {row:?}");
    }
}

#[tokio::test]
async fn on_the_users_own_machine_every_row_holds() {
    every_row_holds("On the user's own machine", 9).await;
}

#[tokio::test]
async fn in_containers_every_row_holds() {
    every_row_holds("Containers", 8).await;
}

#[tokio::test]
async fn same_origin_protects_from_what_the_rows_say_and_not_from_the_rest() {
    every_row_holds("What same-origin protects from, and what not", 9).await;
}

#[tokio::test]
async fn behind_nginx_every_row_holds() {
    let rows = rows("Behind nginx with TLS");
    assert_eq!(rows.len(), 8);
    for row in rows {
        let mut parts = row["Host"].split(", ");
        let mut headers = vec![("host", parts.next().unwrap())];
        let mut origin = "https://mcp.example.com";
        for part in parts {
            match part.split_once(": ") {
                Some(("X-Forwarded-Host", host)) => headers.push(("x-forwarded-host", host)),
                None if part == "page of http" => origin = "http://mcp.example.com",
                _ => panic!("{part}"),
            }
        }
        headers.push(("origin", origin));
        let passes = passes(&guard(&row["settings"]), Method::POST, &headers).await;
        assert_eq!(outcome(passes), row["outcome"], "{row:?}");
    }
}

#[tokio::test]
async fn a_port_of_its_own_belongs_into_the_host_that_a_proxy_keeps() {
    let guard = guard(r#"allow_host("mcp.example.com")"#);
    for (host, origin, expected) in [
        ("mcp.example.com", "https://mcp.example.com:8443", false),
        ("mcp.example.com:8443", "https://mcp.example.com:8443", true),
        ("mcp.example.com:443", "https://mcp.example.com", true),
    ] {
        let headers = [("host", host), ("origin", origin)];
        let passes = passes(&guard, Method::POST, &headers).await;
        assert_eq!(passes, expected, "{host}, {origin}");
    }
}

#[tokio::test]
async fn where_a_proxy_replaces_host_a_get_under_a_rebound_name_passes() {
    let guard = guard(r#"allow_host("mcp.example.com")"#);
    // What arrives for evil.example where nginx is left alone, and where it keeps the name.
    for (host, expected) in [("127.0.0.1:8080", true), ("evil.example", false)] {
        assert_eq!(
            passes(&guard, Method::GET, &[("host", host)]).await,
            expected
        );
    }
}

#[tokio::test]
async fn a_client_that_writes_the_forwarded_host_itself_is_believed_where_that_is_trusted() {
    let headers = [
        ("host", "evil.example"),
        ("x-forwarded-host", "mcp.example.com"),
    ];
    let listed = r#"allow_host("mcp.example.com")"#;
    for (trust, expected) in [
        ("", false),
        (", dangerously_trust_forwarded_host(true)", true),
    ] {
        let guard = guard(&format!("{listed}{trust}"));
        assert_eq!(passes(&guard, Method::GET, &headers).await, expected);
    }
}

#[tokio::test]
async fn an_entry_for_any_port_admits_whatever_else_runs_on_the_machine() {
    let guard = guard(r#"allow_origin("http://localhost:*")"#);
    for port in [80, 1, 3000, 65535] {
        let origin = format!("http://localhost:{port}");
        let headers = [("host", "localhost:8080"), ("origin", &*origin)];
        assert!(passes(&guard, Method::POST, &headers).await, "{origin}");
    }
}

const APP: &str = "https://app.example.com";

/// The answer to a preflight of the listed page.
async fn preflight(guard: &OriginGuardLayer, method: &str, header: &str) -> Answer {
    let headers = [
        ("host", "localhost:8080"),
        ("origin", APP),
        ("access-control-request-method", method),
        ("access-control-request-headers", header),
    ];
    let request = request(Method::OPTIONS, &headers).map(|_| support::Chunks::default());
    send(guard.layer(plain()), request).await
}

fn lists(answer: &Answer, name: &str, member: &str) -> bool {
    answer.head.headers.get_all(name).iter().any(|line| {
        let mut members = line.to_str().unwrap().split(',').map(str::trim);
        members.any(|it| it.eq_ignore_ascii_case(member))
    })
}

#[tokio::test]
async fn what_a_page_of_another_origin_sends_needs_what_its_row_says() {
    let rows = rows("A browser client on another origin");
    assert_eq!(rows.len(), 5);
    for row in rows {
        let (listed, needs) = (format!(r#"allow_origin("{APP}")"#), &*row["needs"]);
        let without = guard(&listed);
        let with = match needs {
            "nothing more" => without.clone(),
            setting => guard(&format!("{listed}, {setting}")),
        };
        let may = async |guard: &OriginGuardLayer| match &*row["what the page sends"] {
            "a token in Authorization" => may_send(guard, "authorization").await,
            "Mcp-Param-Region, or traceparent" => {
                may_send(guard, "mcp-param-region").await && may_send(guard, "traceparent").await
            }
            "X-Api-Key" => may_send(guard, "x-api-key").await,
            "DELETE, to end a session" => {
                let answer = preflight(guard, "DELETE", "mcp-session-id").await;
                lists(&answer, "access-control-allow-methods", "DELETE")
            }
            "cookies" => {
                let answer = preflight(guard, "POST", "content-type").await;
                lists(&answer, "access-control-allow-credentials", "true")
            }
            other => panic!("{other}"),
        };
        assert!(may(&with).await, "{row:?}");
        assert_eq!(may(&without).await, needs == "nothing more", "{row:?}");
    }
}

async fn may_send(guard: &OriginGuardLayer, header: &str) -> bool {
    let answer = preflight(guard, "POST", header).await;
    lists(&answer, "access-control-allow-headers", header)
}

#[tokio::test]
async fn a_listed_page_can_read_all_that_the_server_answers() {
    let mcp = McpLayer::new(ServerInfo::new("test", "1"))
        .origin(OriginGuardLayer::new().allow_origin(APP).unwrap());
    for (method, status) in [(Method::POST, 200), (Method::GET, 405)] {
        let headers = [("host", "localhost:8080"), ("origin", APP)];
        let request = request(method, &headers).map(|_| support::Chunks::default());
        let answer = send(mcp.layer(plain()), request).await;
        assert_eq!(answer.status(), status);
        assert!(lists(&answer, "access-control-allow-origin", APP));
        for name in ["mcp-session-id", "www-authenticate"] {
            assert!(lists(&answer, "access-control-expose-headers", name));
        }
    }
}

#[tokio::test]
async fn webviews_and_extensions_pass_by_their_entry_alone() {
    let rows = rows("Desktop webviews and extensions");
    assert_eq!(rows.len(), 6);
    for row in &rows {
        let origin = row["Origin"].split(", ").next().unwrap();
        let headers = [("host", "localhost:8080"), ("origin", origin)];
        for other in rows.iter().map(|row| &row["entry"]) {
            let guard = guard(&format!(r#"allow_origin("{other}")"#));
            let passes = passes(&guard, Method::POST, &headers).await;
            assert_eq!(passes, *other == row["entry"], "{origin} by {other}");
        }
        assert!(
            !passes(&guard("none"), Method::POST, &headers).await,
            "{origin}"
        );
    }
}

#[tokio::test]
async fn an_entry_for_a_whole_scheme_admits_every_program_that_uses_it() {
    for (entry, origin) in [
        ("vscode-webview://*", "vscode-webview://another"),
        ("moz-extension://*", "moz-extension://another"),
    ] {
        let guard = guard(&format!(r#"allow_origin("{entry}")"#));
        let headers = [("host", "localhost:8080"), ("origin", origin)];
        assert!(passes(&guard, Method::POST, &headers).await, "{origin}");
    }
}

#[test]
fn the_wildcard_address_is_no_name_of_the_server() {
    for host in ["0.0.0.0", "0.0.0.0:8080", "[::]:8080"] {
        let error = OriginGuardLayer::new().allow_host(host).unwrap_err();
        assert!(
            error.to_string().contains("address to listen on"),
            "{error}"
        );
    }
}

/// The router of the section "Where the guard stands".
fn app(guard: OriginGuardLayer) -> Router {
    Router::new()
        .route("/mcp", post(|| async { "mcp" }).layer(guard))
        .route("/health", get(|| async { "well" }))
        .route(
            "/.well-known/oauth-protected-resource",
            get(|| async { "{}" }),
        )
}

async fn status(app: Router, mut request: Request, path: &str) -> StatusCode {
    *request.uri_mut() = path.parse().unwrap();
    app.oneshot(request).await.unwrap().status()
}

// rule O9
#[tokio::test]
async fn health_and_well_known_routes_are_everybodys() {
    for headers in [
        &[][..],
        &[("host", "10.1.2.3:8080")],
        &[("host", "evil.example"), ("origin", "http://evil.example")],
    ] {
        for path in ["/health", "/.well-known/oauth-protected-resource"] {
            let app = app(guard("require_known_host(true)"));
            let status = status(app, request(Method::GET, headers), path).await;
            assert_eq!(status, 200, "{path}, {headers:?}");
        }
        let app = app(guard("require_known_host(true)"));
        let status = status(app, request(Method::POST, headers), "/mcp").await;
        assert_eq!(status, 403, "{headers:?}");
    }
}

fn preflight_of_app() -> Request {
    let headers = [
        ("host", "localhost:8080"),
        ("origin", APP),
        ("access-control-request-method", "POST"),
    ];
    request(Method::OPTIONS, &headers)
}

// rules O8, O9
#[tokio::test]
async fn a_preflight_needs_layer_and_not_route_layer() {
    let guard = || OriginGuardLayer::new().allow_origin(APP).unwrap();
    let handler = || post(|| async { "mcp" });
    for (app, expected) in [
        (app(guard()), 204),
        (Router::new().route("/mcp", handler()).layer(guard()), 204),
        (
            Router::new().route("/mcp", handler().route_layer(guard())),
            405,
        ),
    ] {
        assert_eq!(status(app, preflight_of_app(), "/mcp").await, expected);
    }
}

async fn nobody_is_logged_in(
    _: Request,
    _: Next,
) -> (StatusCode, [(&'static str, &'static str); 1]) {
    (StatusCode::UNAUTHORIZED, [("www-authenticate", "Bearer")])
}

#[tokio::test]
async fn the_guard_stands_outside_of_the_authentication() {
    let guard = OriginGuardLayer::new().allow_origin(APP).unwrap();
    let outside = ServiceBuilder::new()
        .layer(guard.clone())
        .layer(from_fn(nobody_is_logged_in));
    let inside = ServiceBuilder::new()
        .layer(from_fn(nobody_is_logged_in))
        .layer(guard);
    let route = || Router::new().route("/mcp", post(|| async { "mcp" }));
    let post_from = |origin| request(Method::POST, &[("host", "localhost"), ("origin", origin)]);
    let readable = |response: &Response| {
        let headers = response.headers();
        headers.contains_key("access-control-allow-origin")
    };
    for (app, preflight, is_readable, foreign) in [
        (route().layer(outside), 204, true, 403),
        (route().layer(inside), 401, false, 401),
    ] {
        let answer = app.clone().oneshot(preflight_of_app()).await.unwrap();
        assert_eq!(answer.status(), preflight);
        let answer = app.clone().oneshot(post_from(APP)).await.unwrap();
        assert_eq!(
            (answer.status().as_u16(), readable(&answer)),
            (401, is_readable)
        );
        let answer = app
            .oneshot(post_from("https://evil.example"))
            .await
            .unwrap();
        assert_eq!(answer.status(), foreign);
    }
}

async fn too_late(_: Request, _: Next) -> StatusCode {
    StatusCode::REQUEST_TIMEOUT
}

#[tokio::test]
async fn an_answer_that_is_given_outside_of_the_guard_cannot_be_read() {
    let guard = OriginGuardLayer::new().allow_origin(APP).unwrap();
    let app = app(guard).layer(from_fn(too_late));
    let request = request(Method::POST, &[("host", "localhost"), ("origin", APP)]);
    let answer = app.oneshot(request).await.unwrap();
    assert_eq!(answer.status(), StatusCode::REQUEST_TIMEOUT);
    let allowed = answer.headers().get("access-control-allow-origin");
    assert_eq!(allowed, None);
}

// rule E7
#[tokio::test]
async fn all_layers_answer_a_get_with_405_unless_told_to_serve_streams() {
    for (streams, expected) in [(false, 405), (true, 200)] {
        let mcp = McpLayer::new(ServerInfo::new("test", "1")).legacy_streams(streams);
        let request = request(Method::GET, &[("host", "localhost:8080")]);
        let request = request.map(|_| support::Chunks::default());
        let answer = send(mcp.layer(plain()), request).await;
        assert_eq!(answer.status(), expected);
    }
}
