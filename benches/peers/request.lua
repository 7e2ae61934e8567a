-- One request, over and over: wrk -s request.lua URL -- modern|legacy list|call
local META = '"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",'
  .. '"io.modelcontextprotocol/clientInfo":{"name":"wrk","version":"1.0"},'
  .. '"io.modelcontextprotocol/clientCapabilities":{}}'

local text

function init(args)
  local modern, lists = args[1] == "modern", args[2] == "list"
  local method = lists and "tools/list" or "tools/call"
  local params = {}
  if not lists then
    params[#params + 1] = '"name":"get_weather","arguments":{"city":"Paris"}'
  end
  if modern then
    params[#params + 1] = META
  end
  wrk.method = "POST"
  wrk.body = string.format('{"jsonrpc":"2.0","id":1,"method":"%s","params":{%s}}', method, table.concat(params, ","))
  wrk.headers["Content-Type"] = "application/json"
  wrk.headers["Accept"] = "application/json, text/event-stream"
  wrk.headers["MCP-Protocol-Version"] = modern and "2026-07-28" or "2025-11-25"
  if modern then
    wrk.headers["Mcp-Method"] = method
    if not lists then
      wrk.headers["Mcp-Name"] = "get_weather"
    end
  end
  text = wrk.format()
end

function request()
  return text
end

-- What `run` reads: requests, seconds, and answers that were none.
function done(summary)
  local errors = summary.errors
  local failed = errors.connect + errors.read + errors.write + errors.status + errors.timeout
  io.write(string.format("result %d %.6f %d\n", summary.requests, summary.duration / 1e6, failed))
end
