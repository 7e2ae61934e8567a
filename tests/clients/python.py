"""usage: python.py legacy|auto|modern URL [TOOL JSON_ARGUMENTS]"""

import asyncio
import json
import os
import sys

from mcp import Client

MODERN = "2026-07-28"
mode, url, *call = sys.argv[1:]


async def talk(out):
    version = MODERN if mode == "modern" else mode
    async with Client(url, mode=version, read_timeout_seconds=20) as client:
        out["version"] = getattr(client, "protocol_version", None) or str(
            getattr(client, "negotiated_version", "")
        )
        tools = await client.list_tools()
        out["tools"] = len(tools.tools)
        out["ttlMs"] = getattr(tools, "ttl_ms", None)
        if call:
            arguments = json.loads(call[1]) if len(call) > 1 else {}
            result = await client.call_tool(call[0], arguments)
            out["call"] = str(result)[:120]
            if result.is_error:
                raise RuntimeError("the tool failed")
    if mode == "auto" and os.environ.get("EXPECT_MODERN") == "1" and out["version"] != MODERN:
        raise RuntimeError(f"settled on {out['version']}")


def innermost(error):
    while getattr(error, "exceptions", None):
        error = error.exceptions[0]
    return error


out = {"client": "python-2", "mode": mode}
try:
    asyncio.run(talk(out))
    out["ok"] = True
except BaseException as error:  # the client raises groups, and cancels
    out["ok"] = False
    out["error"] = repr(innermost(error))[:300]
print(json.dumps(out))
sys.exit(0 if out["ok"] else 1)
