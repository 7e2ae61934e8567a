// A server of the released TypeScript SDK 1.x.  usage: typescript.mjs stateful|stateless|json PORT
import { randomUUID } from 'node:crypto';
import http from 'node:http';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { isInitializeRequest } from '@modelcontextprotocol/sdk/types.js';
import { z } from 'zod';

const [mode, port] = process.argv.slice(2);
const text = text => ({ content: [{ type: 'text', text }] });

function server() {
  const server = new McpServer(
    { name: 'typescript-1', version: '1.0.0' },
    { instructions: 'Five small tools.', capabilities: { logging: {} } }
  );
  server.registerTool('hello', { description: 'Says hello' }, () => text('hello'));
  const echo = { description: 'Returns the text', inputSchema: { text: z.string() } };
  server.registerTool('echo', echo, given => text(given.text));
  const count = { description: 'Counts aloud', inputSchema: { to: z.number() } };
  server.registerTool('count', count, async ({ to }, extra) => {
    const progressToken = extra._meta?.progressToken;
    for (let progress = 1; progress <= to && progressToken !== undefined; progress++) {
      const params = { progressToken, progress, total: to };
      await extra.sendNotification({ method: 'notifications/progress', params });
    }
    return text(`counted to ${to}`);
  });
  // Both ask without looking at the client's capabilities, as code above the SDK may: the first on
  // the stream of the call, the second on the stream of the server's own messages.
  server.registerTool('ask_name', { description: 'Asks the user' }, async extra => {
    const params = {
      message: 'Who are you?',
      requestedSchema: { type: 'object', properties: { name: { type: 'string' } } }
    };
    const answer = await extra.sendRequest({ method: 'elicitation/create', params }, z.any());
    return text(JSON.stringify(answer));
  });
  server.registerTool('sample', { description: 'Asks the model' }, async () => {
    const message = { role: 'user', content: { type: 'text', text: 'Hi' } };
    const answer = await server.server.createMessage({ messages: [message], maxTokens: 5 });
    return text(JSON.stringify(answer));
  });
  return server;
}

const transports = new Map();

async function post(req, res, body) {
  let transport = transports.get(req.headers['mcp-session-id']);
  if (!transport && mode === 'stateless') {
    transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined });
    res.on('close', () => transport.close());
    await server().connect(transport);
  } else if (!transport && !req.headers['mcp-session-id'] && isInitializeRequest(body)) {
    transport = new StreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      enableJsonResponse: mode === 'json',
      onsessionclosed: id => console.log(`DELETE ${id}`),
      onsessioninitialized: id => transports.set(id, transport)
    });
    transport.onclose = () => transports.delete(transport.sessionId);
    await server().connect(transport);
  } else if (!transport) {
    return refuse(res, 'Bad Request: No valid session ID provided');
  }
  await transport.handleRequest(req, res, body);
}

function refuse(res, message) {
  const error = { jsonrpc: '2.0', error: { code: -32000, message }, id: null };
  res.writeHead(400, { 'content-type': 'application/json' }).end(JSON.stringify(error));
}

http
  .createServer(async (req, res) => {
    if (req.method === 'POST') {
      let body = '';
      for await (const chunk of req) body += chunk;
      return post(req, res, JSON.parse(body));
    }
    const transport = transports.get(req.headers['mcp-session-id']);
    if (mode === 'stateless') return res.writeHead(405).end();
    if (!transport) return refuse(res, 'Invalid or missing session ID');
    await transport.handleRequest(req, res);
  })
  .listen(Number(port), '127.0.0.1', () => console.log(`listening on ${port}`));
