// What every page of the suite can do. `MCP` is the address of the server.

const META = {
  "io.modelcontextprotocol/protocolVersion": "2026-07-28",
  "io.modelcontextprotocol/clientInfo": { name: "browser", version: "1" },
  "io.modelcontextprotocol/clientCapabilities": {},
};

/** What a page can tell of an answer, or that it was given none. */
async function read(request) {
  try {
    const answer = await request;
    const text = await answer.text();
    let body = text;
    try {
      body = JSON.parse(text);
    } catch {}
    return { type: answer.type, status: answer.status, headers: Object.fromEntries(answer.headers), body };
  } catch (error) {
    return { unreadable: error.name };
  }
}

/** Sends a request of revision 2026-07-28 as a client has to, with these changes. */
function modern(method, params = {}, { headers = {}, ...more } = {}) {
  const named = params.name ? { "Mcp-Name": params.name } : {};
  return read(
    fetch(MCP, {
      method: "POST",
      headers: {
        "Content-Type": "application/json",
        Accept: "application/json, text/event-stream",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": method,
        ...named,
        ...headers,
      },
      body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params: { ...params, _meta: META } }),
      ...more,
    }),
  );
}

/** Sends a request of the handshake era. */
function legacy(method, params, { headers = {}, ...more } = {}) {
  return read(
    fetch(MCP, {
      method: "POST",
      headers: { "Content-Type": "application/json", Accept: "application/json, text/event-stream", ...headers },
      body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params }),
      ...more,
    }),
  );
}

/** What a frame reports. */
function framed(attributes) {
  return new Promise((resolve) => {
    const frame = Object.assign(document.createElement("iframe"), attributes);
    addEventListener("message", (event) => {
      if (event.source === frame.contentWindow) resolve(event.data);
    });
    document.body.append(frame);
  });
}

/** What becomes of an event source. */
function events(url) {
  return new Promise((resolve) => {
    const source = new EventSource(url);
    source.onopen = () => resolve("open");
    source.onmessage = () => resolve("message");
    source.onerror = () => resolve(source.readyState === EventSource.CLOSED ? "closed" : "retrying");
  });
}
