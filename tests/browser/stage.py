"""The stage of the suite: web servers for pages, recording proxies, and the browser."""

import atexit
import http.client
import http.server
import json
import os
import queue
import re
import signal
import subprocess
import sys
import tempfile
import threading

DEADLINE = 30  # seconds, for whatever may hang


class Quiet(http.server.ThreadingHTTPServer):
    """Does not mind that a browser leaves."""

    daemon_threads = True

    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class Site:
    """A web server of its own origin, with the page and the frame of the scenario that runs.

    With a target it is also a proxy in front of an MCP server: what the browser asks at `/mcp` goes
    there as it is, and what the server answers is recorded. So page and server can share an origin.
    """

    current = None  # the scenario that runs

    def __init__(self, target=None):
        site = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_request(self):
                length = int(self.headers.get("Content-Length", 0))
                body = self.rfile.read(length)
                if self.path == "/mcp" and site.target:
                    self.answer(*site.forward(self.command, self.headers.items(), body))
                elif self.path in ("/page", "/frame"):
                    text = Site.current.html(self.path[1:])
                    self.answer(200, [("Content-Type", "text/html; charset=utf-8")], text.encode())
                elif self.path == "/result":
                    Site.current.results.put(json.loads(body))
                    self.answer(204, [], b"")
                else:
                    self.answer(404, [], b"")

            do_GET = do_POST = do_DELETE = do_OPTIONS = do_HEAD = do_PUT = handle_request

            def answer(self, status, headers, body):
                self.send_response_only(status)
                for name, value in headers:
                    self.send_header(name, value)
                if status != 204:
                    self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.target = target
        self.recorded = []
        server = Quiet(("127.0.0.1", 0), Handler)
        self.port = server.server_port
        threading.Thread(target=server.serve_forever, daemon=True).start()

    def origin(self, host):
        return f"http://{host}:{self.port}"

    def forward(self, method, headers, body):
        connection = http.client.HTTPConnection("127.0.0.1", self.target, timeout=DEADLINE)
        connection.putrequest(method, "/mcp", skip_host=True, skip_accept_encoding=True)
        for name, value in headers:
            connection.putheader(name, value)
        connection.endheaders(body)
        response = connection.getresponse()
        answer = response.read()
        of_this_hop = ("connection", "content-length", "transfer-encoding")
        passed = [it for it in response.getheaders() if it[0].lower() not in of_this_hop]
        connection.close()
        self.recorded.append(Exchange(method, headers, response.status, answer.decode()))
        return response.status, passed, answer


class Exchange:
    """What the browser asked, and what the server answered."""

    def __init__(self, method, headers, status, answer):
        self.method, self.status, self.answer = method, status, answer
        self.headers = {name.lower(): value for name, value in headers}

    def __repr__(self):
        return f"{self.method} {self.status}"


class Server:
    """An MCP server, and the proxy in front of it."""

    def __init__(self, *command):
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        atexit.register(self.stop)
        for line in self.process.stdout:
            found = re.search(r"http://127\.0\.0\.1:(\d+)/mcp", line)
            if found:
                break
        else:
            raise SystemExit(f"browser: no address from {' '.join(command)}")
        # Whatever else it prints is read, so that it never waits for a reader.
        threading.Thread(target=self.process.stdout.read, daemon=True).start()
        self.port = int(found[1])
        self.proxy = Site(self.port)

    def calls(self):
        """How often the handler of the server with sessions was called."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE)
        connection.request("GET", "/calls")
        return int(connection.getresponse().read())

    def stop(self):
        self.process.kill()
        self.process.wait()


def visit(chromium, url, results):
    """Opens a page in a browser that was never used before, and waits for what it reports."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = subprocess.Popen(
            [
                chromium,
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-quic",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
                "--disable-dev-shm-usage",
                "--no-first-run",
                "--remote-debugging-port=0",  # keeps it open
                "--host-resolver-rules=MAP evil.example 127.0.0.1",
                f"--user-data-dir={profile}",
                url,
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            return results.get(timeout=DEADLINE)
        except queue.Empty:
            raise AssertionError(f"the page reported nothing in {DEADLINE} s") from None
        finally:
            os.killpg(browser.pid, signal.SIGKILL)
            browser.wait()
