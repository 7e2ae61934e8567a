// usage: typescript.mjs legacy|auto|modern URL [TOOL JSON_ARGUMENTS]
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';

const MODERN = '2026-07-28';
const [mode, url, tool, args] = process.argv.slice(2);
const out = { client: 'typescript-2', mode };
try {
  const versionNegotiation = { mode: mode === 'modern' ? { pin: MODERN } : mode };
  const client = new Client({ name: 'typescript-2', version: '1.0.0' }, { versionNegotiation });
  const transport = new StreamableHTTPClientTransport(new URL(url));
  await client.connect(transport);
  out.server = client.getServerVersion?.();
  out.version = client.getNegotiatedProtocolVersion?.() ?? transport.protocolVersion;
  const list = await client.listTools();
  out.tools = list.tools.length;
  out.ttlMs = list.ttlMs;
  out.cacheScope = list.cacheScope;
  out.resultType = list.resultType;
  if (tool) {
    const result = await client.callTool({ name: tool, arguments: JSON.parse(args ?? '{}') });
    out.call = JSON.stringify(result).slice(0, 120);
    if (result.isError) throw new Error('the tool failed');
  }
  await client.close();
  if (mode === 'auto' && process.env.EXPECT_MODERN === '1' && out.version !== MODERN) {
    throw new Error(`settled on ${out.version}`);
  }
  out.ok = true;
} catch (error) {
  out.ok = false;
  out.error = String(error.message ?? error).slice(0, 300);
}
console.log(JSON.stringify(out));
process.exit(out.ok ? 0 : 1);
