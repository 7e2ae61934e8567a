"""One check of a gateway, as a client of revision 2026-07-28.  usage: check.py URL CHECK"""

import concurrent.futures
import http.client
import json
import sys
import time
from urllib.parse import urlsplit

REVISION = "2026-07-28"
url, check = sys.argv[1:]
address = urlsplit(url)


def send(method, **params):
    """The status, and the messages of the answer in their order."""
    params.setdefault("_meta", {}).update(
        {
            "io.modelcontextprotocol/protocolVersion": REVISION,
            "io.modelcontextprotocol/clientCapabilities": {},
        }
    )
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": REVISION,
        "Mcp-Method": method,
    }
    if "name" in params:
        headers["Mcp-Name"] = params["name"]
    body = json.dumps({"jsonrpc": "2.0", "id": "an id", "method": method, "params": params})
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=30)
    connection.request("POST", address.path, body, headers)
    response = connection.getresponse()
    text = response.read().decode()
    assert "mcp-session-id" not in response.headers, "a session shows"
    if response.headers["content-type"].startswith("text/event-stream"):
        lines = (line for line in text.splitlines() if line.startswith("data:"))
        messages = [json.loads(line[5:]) for line in lines]
    else:
        messages = [json.loads(text)]
    assert messages[-1]["id"] == "an id", messages
    return response.status, messages


def call(name, **arguments):
    return send("tools/call", name=name, arguments=arguments)


def text(messages):
    return messages[-1]["result"]["content"][0]["text"]


def discovers():
    status, [answer] = send("server/discover")
    assert status == 200 and answer["result"]["supportedVersions"][0] == REVISION, answer
    server = answer["result"]["_meta"]["io.modelcontextprotocol/serverInfo"]
    _, [other] = send("tools/list")
    assert other["result"]["_meta"]["io.modelcontextprotocol/serverInfo"] == server, other


def streams():
    params = {"name": "count", "arguments": {"to": 3}, "_meta": {"progressToken": "a token"}}
    _, messages = send("tools/call", **params)
    progress = [message["params"]["progress"] for message in messages[:-1]]
    assert progress == [1, 2, 3] and text(messages) == "counted to 3", messages
    assert messages[-1]["result"]["resultType"] == "complete", messages


def shares_ids():
    def echo(number):
        _, messages = call("echo", text=str(number))
        assert text(messages) == str(number), messages

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        list(pool.map(echo, range(200)))


def does_not_hang():
    for name in ("ask_name", "sample"):
        began = time.monotonic()
        status, messages = call(name)
        took = time.monotonic() - began
        answer = messages[-1]
        result = answer.get("result", {})
        assert answer.get("error") or result.get("isError"), answer
        what = answer.get("error", {}).get("message") or text(messages)
        print(f"{name}: HTTP {status} after {took:.1f} s: {what[:90]}")


def is_down():
    status, [answer] = call("echo", text="hi")
    assert status == 502 and answer["error"]["code"] == -32603, (status, answer)


def is_up():
    _, messages = call("echo", text="hi")
    assert text(messages) == "hi", messages


globals()[check]()
