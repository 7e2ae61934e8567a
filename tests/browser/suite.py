"""What a browser lets the pages of listed and of other origins do to the servers.

Usage: suite.py CHROMIUM FOLDER

Each scenario is a page: its script runs in a browser of its own and returns what it got to see; the
function below the script compares that with what the server was asked and answered.
"""

import json
import os
import queue
import sys
import traceback

from stage import Server, Site, visit

CHROMIUM, EXAMPLES = sys.argv[1:]
FOLDER = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(FOLDER, "page.js"), encoding="utf-8") as file:
    LIBRARY = file.read()

pages, others, strangers = Site(), Site(), Site()
LISTED = pages.origin("localhost")
ALSO_LISTED = others.origin("127.0.0.1")
STRANGER = strangers.origin("127.0.0.1")  # same host as the server, another port


def reference(*flags):
    origins = [f"--allow-origin={origin}" for origin in (LISTED, ALSO_LISTED)]
    command = [f"{EXAMPLES}/reference_server", "--addr=127.0.0.1:0", *origins, *flags]
    return Server(*command)


def sessions(*origins):
    return Server(f"{EXAMPLES}/browser_sessions", *origins)


plain = reference()
guarded = reference("--token=secret")
streaming = reference("--legacy-streams")
with_sessions = sessions(LISTED, ALSO_LISTED)
for_everybody = sessions("*")

OWN = plain.proxy.origin("127.0.0.1")
# Chromium is told that this name is 127.0.0.1.
REBOUND, REBOUND_STREAMING, REBOUND_SESSIONS = (
    server.proxy.origin("evil.example") for server in (plain, streaming, with_sessions)
)

SCENARIOS = []


class Scenario:
    def __init__(self, name, origin, server, script, frame, check):
        self.name, self.origin, self.server = name, origin, server
        self.scripts, self.check = {"page": script, "frame": frame}, check
        self.results = queue.Queue()

    def html(self, which):
        report = {
            "page": 'fetch("/result", { method: "POST", body: JSON.stringify(result) })',
            "frame": 'parent.postMessage(result, "*")',
        }[which]
        # The server is reached as the page was, so that a rebound name stays rebound.
        own = self.origin.endswith(f":{self.server.proxy.port}")
        mcp = "/mcp" if own else self.server.proxy.origin("127.0.0.1") + "/mcp"
        return f"""<!DOCTYPE html><body><script>
            const MCP = {json.dumps(mcp)}, OTHER = {json.dumps(ALSO_LISTED)};
            {LIBRARY}
            (async () => {{ {self.scripts[which]} }})()
                .catch((error) => ({{ failed: String(error) }}))
                .then((result) => {report});
        </script>"""

    def run(self):
        Site.current = self
        recorded = self.server.proxy.recorded
        recorded.clear()
        before = with_sessions.calls()
        result = visit(CHROMIUM, f"{self.origin}/page", self.results)
        try:
            self.check(result, recorded)
            if all(it.status == 403 for it in recorded):
                same(with_sessions.calls(), before)
        except AssertionError as error:
            seen = f"{error}\nthe page saw {result}\nthe server {recorded}"
            raise AssertionError(seen) from error


def scenario(name, origin, server, script, frame=""):
    def add(check):
        SCENARIOS.append(Scenario(name, origin, server, script, frame, check))

    return add


def same(found, expected):
    assert found == expected, f"{found} is not {expected}"


def statuses(recorded, *expected):
    same([repr(it) for it in recorded], list(expected))


def tools(answer):
    return [tool["name"] for tool in answer["body"]["result"]["tools"]]


def refused(recorded, *expected):
    """Each request got the guard's own answer: it ended there."""
    statuses(recorded, *(f"{method} 403" for method in expected))
    for exchange in recorded:
        error = json.loads(exchange.answer)["error"]
        assert "OriginGuardLayer::allow_" in error["message"], error


# --- listed origins ------------------------------------------------------------------------------


@scenario(
    "a page of a listed origin lists the tools, with all modern headers",
    LISTED, plain, 'return modern("tools/list");',
)
def _(answer, recorded):
    same(tools(answer), ["server_time", "echo", "add", "get_weather"])
    statuses(recorded, "OPTIONS 204", "POST 200")
    preflight, post = recorded
    same(
        preflight.headers["access-control-request-headers"],
        "content-type,mcp-method,mcp-protocol-version",
    )
    same(post.headers["origin"], LISTED)
    same(post.headers["mcp-protocol-version"], "2026-07-28")
    same(post.headers["mcp-method"], "tools/list")


@scenario(
    "a page of a listed origin calls a tool, with a header of Mcp-Param",
    LISTED, plain,
    """
    const call = { name: "get_weather", arguments: { region: "Bremen" } };
    return modern("tools/call", call, { headers: { "Mcp-Param-Region": "Bremen" } });
    """,
)
def _(answer, recorded):
    assert "Bremen" in answer["body"]["result"]["content"][0]["text"], answer
    statuses(recorded, "OPTIONS 204", "POST 200")
    preflight, post = recorded
    assert "mcp-param-region" in preflight.headers["access-control-request-headers"]
    same(post.headers["mcp-param-region"], "Bremen")
    same(post.headers["mcp-name"], "get_weather")


@scenario(
    "two listed origins use one server in one run",
    LISTED, plain,
    """
    const before = await modern("tools/list");
    const other = await framed({ src: OTHER + "/frame" });
    const after = await modern("tools/list");
    return [before, other, after];
    """,
    'return modern("tools/list");',
)
def _(answers, recorded):
    for answer in answers:
        assert "echo" in tools(answer)
    posts = [it.headers["origin"] for it in recorded if it.method == "POST"]
    same(posts, [LISTED, ALSO_LISTED, LISTED])


@scenario(
    "a page of the server's own origin needs no listing and no preflight",
    OWN, plain, 'return modern("tools/list");',
)
def _(answer, recorded):
    assert "echo" in tools(answer)
    statuses(recorded, "POST 200")
    same(recorded[0].headers["origin"], OWN)


@scenario(
    "a listed origin can read what the layers refuse: -32020",
    LISTED, plain, 'return modern("tools/list", {}, { headers: { "Mcp-Method": "tools/call" } });',
)
def _(answer, recorded):
    same((answer["status"], answer["body"]["error"]["code"]), (400, -32020))
    statuses(recorded, "OPTIONS 204", "POST 400")


@scenario(
    "a listed origin can read the challenge of a 401",
    LISTED, guarded, 'return modern("tools/list");',
)
def _(answer, recorded):
    same((answer["status"], answer["headers"].get("www-authenticate")), (401, "Bearer"))
    statuses(recorded, "OPTIONS 204", "POST 401")


@scenario(
    "a preflight succeeds with authentication on, and so does the call with the token",
    LISTED, guarded,
    'return modern("tools/list", {}, { headers: { Authorization: "Bearer secret" } });',
)
def _(answer, recorded):
    assert "echo" in tools(answer)
    statuses(recorded, "OPTIONS 204", "POST 200")
    assert "authorization" not in recorded[0].headers
    same(recorded[1].headers["authorization"], "Bearer secret")


@scenario(
    "a header that nobody allowed is not sent",
    LISTED, plain, 'return modern("tools/list", {}, { headers: { "X-Other": "1" } });',
)
def _(answer, recorded):
    same(answer, {"unreadable": "TypeError"})
    statuses(recorded, "OPTIONS 204")


# --- the handshake era ---------------------------------------------------------------------------


@scenario(
    "a listed origin can read the session id of a legacy initialize, and end the session",
    LISTED, with_sessions,
    """
    const hello = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "b", version: "1" } };
    const opened = await legacy("initialize", hello);
    const headers = { "Mcp-Session-Id": opened.headers["mcp-session-id"] };
    const ended = await read(fetch(MCP, { method: "DELETE", headers }));
    return [opened, ended];
    """,
)
def _(answers, recorded):
    opened, ended = answers
    same(opened["headers"].get("mcp-session-id"), "session-1")
    same(opened["body"]["result"]["protocolVersion"], "2025-11-25")
    same(ended["status"], 204)
    same(recorded[-1].headers["mcp-session-id"], "session-1")
    statuses(recorded, "OPTIONS 204", "POST 200", "DELETE 204")


DELETE = """
return read(fetch(MCP, { method: "DELETE", headers: { "Mcp-Session-Id": "session-1" } }));
"""


@scenario("with --legacy-streams the preflight of a DELETE succeeds", LISTED, streaming, DELETE)
def _(answer, recorded):
    same([it.method for it in recorded], ["OPTIONS", "DELETE"])
    same(answer.get("status"), recorded[1].status)


@scenario("without --legacy-streams a DELETE is not sent", LISTED, plain, DELETE)
def _(answer, recorded):
    same(answer, {"unreadable": "TypeError"})
    statuses(recorded, "OPTIONS 204")


# --- credentials mode ----------------------------------------------------------------------------

WITH_COOKIE = """
document.cookie = "user=alice";
const credentials = "include";
return [await modern("tools/list", {}, { credentials }), await modern("tools/list")];
"""


@scenario(
    "in credentials mode a listed origin sends cookies and reads the answer",
    ALSO_LISTED, with_sessions, WITH_COOKIE,
)
def _(answers, recorded):
    with_cookie, without = answers
    same(with_cookie["body"]["result"]["user"], "alice")
    same(without["body"]["result"]["user"], None)
    assert "cookie" not in recorded[0].headers
    same([it.method for it in recorded if it.headers.get("cookie")], ["POST"])


@scenario(
    "an origin that only * admits gets no credentials, and all else",
    ALSO_LISTED, for_everybody, WITH_COOKIE,
)
def _(answers, recorded):
    with_cookie, without = answers
    same(with_cookie, {"unreadable": "TypeError"})
    same(without["body"]["result"]["user"], None)
    assert not any("cookie" in it.headers for it in recorded), "the cookie left the browser"


# --- other origins -------------------------------------------------------------------------------


@scenario(
    "a page of another origin reads nothing and never reaches a handler",
    STRANGER, with_sessions,
    """
    const credentials = "include";
    return [await modern("tools/list"), await legacy("tools/list"), await modern("tools/list", {}, { credentials })];
    """,
)
def _(answers, recorded):
    same(answers, [{"unreadable": "TypeError"}] * 3)
    refused(recorded, "OPTIONS", "OPTIONS", "OPTIONS")


@scenario(
    "a cross-site POST of text/plain, which needs no preflight, never reaches a handler",
    STRANGER, with_sessions,
    """
    const body = '{"jsonrpc":"2.0","id":1,"method":"tools/list"}';
    const simple = { method: "POST", body, headers: { "Content-Type": "text/plain" } };
    return [await read(fetch(MCP, { ...simple, mode: "no-cors" })), await read(fetch(MCP, simple))];
    """,
)
def _(answers, recorded):
    same((answers[0]["type"], answers[0]["body"]), ("opaque", ""))
    same(answers[1], {"unreadable": "TypeError"})
    refused(recorded, "POST", "POST")


@scenario(
    "a form of another site never reaches a handler",
    STRANGER, with_sessions,
    """
    document.body.insertAdjacentHTML("beforeend", `<iframe name="into"></iframe>
        <form method="post" enctype="text/plain" target="into" action="${MCP}">
        <input name='{"jsonrpc":"2.0","id":1,"method":"tools/list","x":"' value='"}'></form>`);
    const loaded = new Promise((resolve) => document.querySelector("iframe").addEventListener("load", resolve));
    document.querySelector("form").submit();
    await loaded;
    return "sent";
    """,
)
def _(_answer, recorded):
    same(recorded[0].headers["content-type"], "text/plain")
    refused(recorded, "POST")


@scenario(
    "a sandboxed frame of a listed page, whose origin is null, is refused",
    LISTED, with_sessions,
    'return framed({ sandbox: "allow-scripts", src: "/frame" });',
    """
    const simple = { method: "POST", body: "{}", mode: "no-cors" };
    return [origin, await modern("tools/list"), (await read(fetch(MCP, simple))).type];
    """,
)
def _(answers, recorded):
    same(answers, ["null", {"unreadable": "TypeError"}, "opaque"])
    same([it.headers["origin"] for it in recorded], ["null", "null"])
    refused(recorded, "OPTIONS", "POST")


# --- a rebound name: to the browser, page and server are one origin --------------------------------


@scenario("a rebound name is refused for POST", REBOUND, plain, 'return modern("tools/list");')
def _(answer, recorded):
    same(answer["status"], 403)
    same(recorded[0].headers["origin"], REBOUND)
    refused(recorded, "POST")


@scenario(
    "a rebound name is refused for POST also by a server that admits programs under any name",
    REBOUND_SESSIONS, with_sessions,
    'return [await modern("tools/list"), await legacy("tools/list")];',
)
def _(answers, recorded):
    same([answer["status"] for answer in answers], [403, 403])
    refused(recorded, "POST", "POST")


@scenario("a rebound name is refused for GET", REBOUND, plain, "return read(fetch(MCP));")
def _(answer, recorded):
    same(answer["status"], 403)
    assert "origin" not in recorded[0].headers
    refused(recorded, "GET")


@scenario("a rebound name is refused for EventSource", REBOUND_STREAMING, streaming, "return events(MCP);")
def _(answer, recorded):
    same(answer, "closed")
    same(recorded[0].headers["accept"], "text/event-stream")
    assert "origin" not in recorded[0].headers
    refused(recorded, "GET")


def main():
    failed = 0
    for each in SCENARIOS:
        try:
            each.run()
            print(f"ok      {each.name}", flush=True)
        except Exception:
            failed += 1
            print(f"FAILED  {each.name}\n{traceback.format_exc()}", flush=True)
    print(f"browser: {len(SCENARIOS) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
