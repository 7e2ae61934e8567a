//! The example server as its users start it: a process with a command line, a port and signals.
#![allow(clippy::expect_used, clippy::unwrap_used)]
#![cfg(unix)]

use std::{
    env,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
    time::Duration,
};

use serde_json::{Value, json};
use tower::{Service, ServiceExt};

mod support;

#[path = "../examples/common/tools.rs"]
mod tools;

/// How long anything may take; far more than it does.
const PATIENCE: Duration = Duration::from_secs(30);

const LIST: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;

fn command() -> Command {
    let test = env::current_exe().unwrap();
    let folder = test.parent().and_then(|deps| deps.parent()).unwrap();
    let example: PathBuf = folder.join("examples").join("reference_server");
    assert!(
        example.exists(),
        "{} is missing: build it by `cargo build --example reference_server`",
        example.display()
    );
    Command::new(example)
}

/// Runs the example to its end.
fn run(arguments: &[&str]) -> Output {
    let mut child = command()
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait(&mut child);
    child.wait_with_output().unwrap()
}

/// Waits until a process ends by itself.
fn wait(child: &mut Child) {
    for _ in 0..PATIENCE.as_millis() / 10 {
        if child.try_wait().unwrap().is_some() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let _ = child.kill();
    panic!("the process does not end");
}

/// A running example.
struct Server {
    child: Child,
    address: SocketAddr,
    /// What it printed.
    printed: String,
}

impl Server {
    fn start(arguments: &[&str]) -> Self {
        Self::start_on("127.0.0.1:0", arguments)
    }

    fn start_on(address: &str, arguments: &[&str]) -> Self {
        let mut child = command()
            .args(["--addr", address])
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut printed = String::new();
        stdout.read_line(&mut printed).unwrap();
        let url = printed.trim_end().strip_prefix("Serving MCP on http://");
        let address = url.and_then(|url| url.strip_suffix("/mcp"));
        let address = address
            .unwrap_or_else(|| panic!("{printed:?}"))
            .parse()
            .unwrap();
        // The rest was written at once with the first line.
        printed.push_str(std::str::from_utf8(stdout.buffer()).unwrap());
        Self {
            child,
            address,
            printed,
        }
    }

    /// The commands to try that were printed.
    fn curls(&self) -> Vec<Vec<String>> {
        let lines = self.printed.lines().map(str::trim);
        lines
            .filter(|line| line.starts_with("curl "))
            .map(words)
            .collect()
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    fn send(&self, method: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut stream = self.connect();
        let head = self.head(method, headers, body.len());
        stream.write_all((head + body).as_bytes()).unwrap();
        Answer::read(stream)
    }

    /// The head of a request, on a connection of its own; `Host` unless the headers have one.
    fn head(&self, method: &str, headers: &[(&str, &str)], length: usize) -> String {
        let address = self.address.to_string();
        let length = length.to_string();
        let mut lines = vec![format!("{method} /mcp HTTP/1.1")];
        let mut add = |(name, value): &(&str, &str)| lines.push(format!("{name}: {value}"));
        let own = [
            ("Host", &*address),
            ("Connection", "close"),
            ("Content-Type", "application/json"),
            ("Content-Length", &*length),
        ];
        let skip = usize::from(headers.iter().any(|(name, _)| *name == "Host"));
        own[skip..].iter().chain(headers).for_each(&mut add);
        lines.join("\r\n") + "\r\n\r\n"
    }

    fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        let status = Command::new("kill").args([signal, &pid]).status().unwrap();
        assert!(status.success());
    }

    /// Sends the head of a request with the body [`LIST`], and waits until the body is asked for.
    fn open(&self) -> TcpStream {
        let mut stream = self.connect();
        let head = self.head("POST", &[("Expect", "100-continue")], LIST.len());
        stream.write_all(head.as_bytes()).unwrap();
        let mut interim = [0; b"HTTP/1.1 100 Continue\r\n\r\n".len()];
        stream.read_exact(&mut interim).unwrap();
        assert_eq!(&interim, b"HTTP/1.1 100 Continue\r\n\r\n");
        stream
    }

    /// Waits until no new connection is taken.
    fn stops_listening(&self) {
        for _ in 0..PATIENCE.as_millis() / 10 {
            if TcpStream::connect(self.address).is_err() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("{} is still taken", self.address);
    }

    fn stderr(&mut self) -> String {
        let mut text = String::new();
        let mut stderr = self.child.stderr.take().unwrap();
        stderr.read_to_string(&mut text).unwrap();
        text
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[derive(Debug)]
struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn read(mut stream: TcpStream) -> Self {
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        Self {
            status: head.split(' ').nth(1).unwrap().parse().unwrap(),
            head: head.to_ascii_lowercase(),
            body: body.to_owned(),
        }
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }
}

/// The words of a command that quotes by `'` only.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quoted) = (Vec::new(), String::new(), false);
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match character {
            '\'' => quoted = !quoted,
            '\\' if !quoted => word.extend(characters.next()),
            ' ' if !quoted => words.push(std::mem::take(&mut word)),
            other => word.push(other),
        }
    }
    assert!(!quoted, "{line}");
    words.push(word);
    words
}

#[test]
fn both_printed_commands_list_the_tools() {
    for token in [None, Some("it's-a-'secret'")] {
        let token: Vec<_> = token.iter().flat_map(|token| ["--token", token]).collect();
        let server = Server::start(&token);
        let curls = server.curls();
        assert_eq!(curls.len(), 2, "{}", server.printed);
        for (curl, modern) in curls.into_iter().zip([true, false]) {
            let url = format!("http://{}/mcp", server.address);
            assert_eq!(curl[..3], ["curl", "-s", &url]);
            let (mut headers, mut body) = (Vec::new(), String::new());
            for pair in curl[3..].chunks(2) {
                match &pair[0][..] {
                    "-H" => headers.push(pair[1].split_once(": ").unwrap()),
                    "-d" => body.clone_from(&pair[1]),
                    other => panic!("{other}"),
                }
            }
            headers.retain(|(name, _)| *name != "Content-Type");
            let answer = server.send("POST", &headers, &body);
            assert_eq!(answer.status, 200, "{answer:?}");
            let result = &answer.json()["result"];
            let names: Vec<_> = result["tools"]
                .as_array()
                .unwrap()
                .iter()
                .map(|it| &it["name"])
                .collect();
            assert_eq!(names, ["server_time", "echo", "add", "get_weather"]);
            let region = &result["tools"][3]["inputSchema"]["properties"]["region"];
            assert_eq!(region["x-mcp-header"], "Region");
            assert_eq!(result.get("resultType").is_some(), modern);
            assert_eq!(result.get("ttlMs").is_some(), modern);
        }
    }
}

#[test]
fn only_the_served_eras_get_a_command() {
    for (eras, count, word) in [
        ("--eras=both", 2, "MCP-Protocol-Version"),
        ("--eras=modern", 1, "MCP-Protocol-Version"),
        ("--eras=legacy", 1, "handshake"),
    ] {
        let server = Server::start(&[eras]);
        assert_eq!(server.curls().len(), count, "{eras}");
        assert!(server.printed.contains(word), "{eras}: {}", server.printed);
        let legacy = server.send("POST", &[], LIST);
        assert_eq!(legacy.status == 200, eras != "--eras=modern", "{legacy:?}");
        let headers = [
            ("MCP-Protocol-Version", "2026-07-28"),
            ("Mcp-Method", "tools/list"),
        ];
        let body = support::modern_body("tools/list", "");
        let modern = server.send("POST", &headers, &body);
        assert_eq!(modern.status == 200, eras != "--eras=legacy", "{modern:?}");
    }
}

#[test]
fn help_is_printed_and_is_no_error() {
    for flag in ["--help", "-h"] {
        let output = run(&["--legacy-streams", flag]);
        assert_eq!(output.status.code(), Some(0));
        assert!(output.stderr.is_empty());
        let help = String::from_utf8(output.stdout).unwrap();
        for flag in [
            "--addr",
            "--allow-origin",
            "--allow-host",
            "--token",
            "--eras",
            "--legacy-streams",
            "--help",
        ] {
            assert!(help.contains(flag), "{flag}");
        }
    }
}

#[track_caller]
fn assert_one_line(output: &Output, code: i32, parts: &[&str]) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{stderr}");
    assert!(output.stdout.is_empty(), "{output:?}");
    assert!(
        stderr.ends_with('\n') && stderr.lines().count() == 1,
        "{stderr}"
    );
    for part in parts {
        assert!(stderr.contains(part), "{part}: {stderr}");
    }
}

#[test]
fn a_command_line_that_cannot_be_meant_is_one_line_and_code_2() {
    for (arguments, part) in [
        (&["--port"][..], "--port"),
        (&["8000"], "8000"),
        (&["--addr"], "--addr needs a value"),
        (&["--token", "--eras", "both"], "--token needs a value"),
        (&["--addr", "8000"], "\"8000\""),
        (&["--addr", "127.0.0.1"], "127.0.0.1"),
        (&["--addr=127.0.0.1:99999"], "99999"),
        (&["--addr="], "--addr"),
        (&["--addr", "a\nb"], "--addr"),
        (&["--eras", "old"], "old"),
        (&["--eras="], "--eras"),
        (&["--token", ""], "--token"),
        (&["--token=two words"], "--token"),
        (&["--legacy-streams=yes"], "--legacy-streams"),
        (&["--help=me"], "--help"),
        (
            &["--allow-origin", "https://app.example/path"],
            "https://app.example/path",
        ),
        (&["--allow-origin", "app.example"], "app.example"),
        (&["--allow-origin=a\nb"], "invalid origin"),
        (
            &["--allow-host", "https://app.example"],
            "https://app.example",
        ),
        (&["--allow-host", "0.0.0.0"], "0.0.0.0"),
        (&["--allow-host", "a", "--allow-host", "*"], "invalid host"),
        (&["--a\nb"], "unknown option"),
    ] {
        assert_one_line(&run(arguments), 2, &[part]);
    }
    let secret = run(&["--token", "my secret"]);
    assert!(!String::from_utf8_lossy(&secret.stderr).contains("secret"));
}

#[test]
fn a_taken_port_is_one_line_and_code_1() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    assert_one_line(&run(&["--addr", &address]), 1, &[&address]);
}

#[test]
fn the_token_is_asked_of_admitted_origins_only() {
    let server = Server::start(&["--token=s3cret", "--allow-origin=https://app.example"]);
    for (authorization, origin, status) in [
        (None, None, 401),
        (Some("Bearer s3cret"), None, 200),
        (Some("bearer s3cret"), None, 200),
        (Some("Bearer s3cre"), None, 401),
        (Some("Bearer s3cretx"), None, 401),
        (Some("Bearer S3cret"), None, 401),
        (Some("Bearer  s3cret"), None, 401),
        (Some("Bearer"), None, 401),
        (Some("Bearers3cret"), None, 401),
        (Some("Basic s3cret"), None, 401),
        (Some("s3cret"), None, 401),
        (Some(""), None, 401),
        (None, Some("https://app.example"), 401),
        (Some("Bearer s3cret"), Some("https://app.example"), 200),
        (None, Some("https://evil.example"), 403),
        (Some("Bearer s3cret"), Some("https://evil.example"), 403),
    ] {
        let mut headers = Vec::new();
        headers.extend(authorization.map(|value| ("Authorization", value)));
        headers.extend(origin.map(|value| ("Origin", value)));
        let answer = server.send("POST", &headers, LIST);
        assert_eq!(answer.status, status, "{headers:?}: {answer:?}");
        let challenged = answer.head.contains("\r\nwww-authenticate: bearer");
        assert_eq!(challenged, status == 401, "{answer:?}");
    }
    let twice = [
        ("Authorization", "Bearer s3cret"),
        ("Authorization", "Bearer x"),
    ];
    assert_eq!(server.send("POST", &twice, LIST).status, 401);
    // the token comes before the message
    assert_eq!(server.send("POST", &[], "nonsense").status, 401);
    assert_eq!(server.send("GET", &[], "").status, 401);
}

#[test]
fn on_loopback_unknown_hosts_are_refused_on_every_request() {
    let server = Server::start(&["--allow-host", "mcp.example"]);
    let port = server.address.port();
    for (host, status) in [
        (format!("127.0.0.1:{port}"), 200),
        (format!("localhost:{port}"), 200),
        (format!("mcp.example:{port}"), 200),
        ("mcp.example".to_owned(), 200),
        (format!("evil.example:{port}"), 403),
        ("192.168.1.7".to_owned(), 403),
        (String::new(), 403),
    ] {
        let answer = server.send("POST", &[("Host", &host)], LIST);
        assert_eq!(answer.status, status, "{host}: {answer:?}");
        assert_eq!(
            server.send("GET", &[("Host", &host)], "").status,
            if status == 200 { 405 } else { 403 }
        );
    }
}

#[test]
fn other_addresses_than_loopback_need_a_name_or_get_a_warning() {
    for (arguments, warns) in [(&[][..], true), (&["--allow-host=mcp.example"], false)] {
        let mut server = Server::start_on("0.0.0.0:0", arguments);
        assert!(server.address.ip().is_loopback(), "{}", server.printed);
        assert_eq!(
            server
                .send("POST", &[("Host", "other.example")], LIST)
                .status,
            200
        );
        let rebound = [("Host", "evil.example"), ("Origin", "http://evil.example")];
        assert_eq!(server.send("POST", &rebound, LIST).status, 403);
        server.signal("-TERM");
        wait(&mut server.child);
        let stderr = server.stderr();
        assert_eq!(stderr.contains("--allow-host"), warns, "{stderr}");
        assert_eq!(stderr.lines().count(), usize::from(warns), "{stderr}");
    }
}

#[test]
fn legacy_streams_reach_the_service_and_a_modern_get_does_not() {
    // The service and the layers refuse in different words.
    const SERVICE: &str = "Invalid Request: ";
    const MODERN: &[(&str, &str)] = &[("MCP-Protocol-Version", "2026-07-28")];
    for (arguments, headers, by_service) in [
        (&["--legacy-streams"][..], &[][..], true),
        (&["--legacy-streams"], MODERN, false),
        (&[], &[], false),
    ] {
        let answer = Server::start(arguments).send("GET", headers, "");
        assert_eq!(answer.status, 405);
        assert!(answer.head.contains("\r\nallow: post"));
        assert_eq!(answer.body.contains(SERVICE), by_service, "{answer:?}");
    }
}

#[test]
fn only_the_mcp_route_is_served() {
    let server = Server::start(&[]);
    let mut stream = server.connect();
    let head = server.head("POST", &[], 0).replace("/mcp", "/");
    stream.write_all(head.as_bytes()).unwrap();
    assert_eq!(Answer::read(stream).status, 404);
}

#[test]
fn a_signal_lets_an_open_request_finish_and_ends_with_code_0() {
    for signal in ["-TERM", "-INT"] {
        let mut server = Server::start(&[]);
        let mut stream = server.open();
        let (first, second) = LIST.split_at(LIST.len() / 2);
        stream.write_all(first.as_bytes()).unwrap();
        let idle = server.connect();
        server.signal(signal);
        server.stops_listening();
        assert_eq!(server.child.try_wait().unwrap(), None);
        stream.write_all(second.as_bytes()).unwrap();
        let answer = Answer::read(stream);
        assert_eq!(answer.status, 200);
        assert!(answer.json()["result"]["tools"].is_array());
        wait(&mut server.child);
        assert_eq!(server.child.wait().unwrap().code(), Some(0), "{signal}");
        assert_eq!(server.stderr(), "");
        drop(idle);
    }
}

#[test]
fn a_second_signal_does_not_wait() {
    let mut server = Server::start(&[]);
    let _open = server.open();
    server.signal("-INT");
    server.stops_listening();
    server.signal("-INT");
    wait(&mut server.child);
    assert_eq!(server.child.wait().unwrap().code(), Some(130));
}

async fn call(tool: &str, arguments: &str) -> Value {
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{tool}","arguments":{arguments}}}}}"#
    );
    let mut service = tools::service();
    let service = ServiceExt::<http::Request<support::Chunks>>::ready(&mut service);
    let response = service
        .await
        .unwrap()
        .call(support::post(body))
        .await
        .unwrap();
    let body = http_body_util::BodyExt::collect(response.into_body())
        .await
        .unwrap();
    let mut answer: Value = serde_json::from_slice(&body.to_bytes()).unwrap();
    answer["result"].take()
}

#[tokio::test]
async fn the_tools_answer_real_values() {
    let text = |text: &str| json!({ "content": [{ "type": "text", "text": text }] });
    assert_eq!(call("echo", r#"{"text":"hi"}"#).await, text("hi"));
    assert_eq!(call("add", r#"{"a":2,"b":-3}"#).await, text("-1"));
    assert_eq!(
        call("add", r#"{"a":9007199254740993,"b":0}"#).await,
        text("9007199254740993")
    );
    assert_eq!(
        call(
            "add",
            r#"{"a":9223372036854775807,"b":-9223372036854775808}"#
        )
        .await,
        text("-1")
    );
    let time = call("server_time", "{}").await;
    let time = time["content"][0]["text"].as_str().unwrap();
    assert!(
        time.starts_with("20") && time.ends_with('Z') && time.len() == 20,
        "{time}"
    );

    let weather = call("get_weather", r#"{"region":"Oslo","days":3}"#).await;
    let weather = &weather["structuredContent"];
    assert_eq!(weather["region"], "Oslo");
    assert_eq!(weather["forecast"].as_array().unwrap().len(), 3);
    assert!(weather["note"].as_str().unwrap().starts_with("Made up"));
    let again = call("get_weather", r#"{"region":"Oslo"}"#).await;
    assert_eq!(
        again["structuredContent"]["forecast"][0],
        weather["forecast"][0]
    );
}

#[tokio::test]
async fn the_tools_tell_what_they_cannot_take() {
    for (tool, arguments) in [
        ("server_time", r#"{"zone":"UTC"}"#),
        ("echo", "{}"),
        ("echo", r#"{"text":null}"#),
        ("add", r#"{"a":9223372036854775807,"b":1}"#),
        ("add", r#"{"a":9223372036854775808,"b":1}"#),
        ("add", r#"{"a":1.5,"b":1}"#),
        ("add", r#"{"a":"1","b":1}"#),
        ("get_weather", r#"{"region":""}"#),
        ("get_weather", r#"{"region":"Oslo","days":0}"#),
        ("get_weather", r#"{"region":"Oslo","days":15}"#),
        ("get_weather", r#"{"region":"Oslo","days":-1}"#),
    ] {
        let result = call(tool, arguments).await;
        assert_eq!(result["isError"], true, "{tool} {arguments}: {result}");
    }
}

#[test]
fn times_are_written_as_rfc_3339_does() {
    for (seconds, expected) in [
        (0, "1970-01-01T00:00:00Z"),
        (86_399, "1970-01-01T23:59:59Z"),
        (68_169_599, "1972-02-28T23:59:59Z"),
        (68_169_600, "1972-02-29T00:00:00Z"),
        (951_827_696, "2000-02-29T12:34:56Z"),
        (1_735_689_599, "2024-12-31T23:59:59Z"),
        (1_735_689_600, "2025-01-01T00:00:00Z"),
        (1_785_196_800, "2026-07-28T00:00:00Z"),
        (4_107_542_400, "2100-03-01T00:00:00Z"),
        (253_402_300_799, "9999-12-31T23:59:59Z"),
    ] {
        assert_eq!(tools::rfc3339(seconds), expected);
    }
}
