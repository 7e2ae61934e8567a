"""A server of the released Python SDK 1.x.  usage: python.py stateful|stateless|json PORT"""

import sys

from mcp.server.fastmcp import Context, FastMCP
from mcp.types import SamplingMessage, TextContent
from pydantic import BaseModel

mode, port = sys.argv[1:]
server = FastMCP(
    "python-1",
    instructions="Five small tools.",
    port=int(port),
    stateless_http=mode == "stateless",
    json_response=mode == "json",
)


class Name(BaseModel):
    name: str


@server.tool()
def hello() -> str:
    """Says hello."""
    return "hello"


@server.tool()
def echo(text: str) -> str:
    """Returns the text."""
    return text


@server.tool()
async def count(to: int, ctx: Context) -> str:
    """Counts aloud."""
    for number in range(1, to + 1):
        await ctx.report_progress(number, to)
    return f"counted to {to}"


@server.tool()
async def ask_name(ctx: Context) -> str:
    """Asks the user, on the stream of the call."""
    answer = await ctx.elicit("Who are you?", Name)
    return str(answer)


@server.tool()
async def sample(ctx: Context) -> str:
    """Asks the model, on the stream of the server's own messages."""
    message = SamplingMessage(role="user", content=TextContent(type="text", text="Hi"))
    return str(await ctx.session.create_message([message], max_tokens=5))


server.run("streamable-http")
