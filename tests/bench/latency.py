"""A proxy on this machine that adds latency to each request, as a store far away has it.

It stands alone because it runs in a process of its own: python -m tests.bench.latency PORT MILLISECONDS prints its own port.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress

_CHUNK = 1 << 20


async def _pump(source: asyncio.StreamReader, target: asyncio.StreamWriter, delay: float) -> None:
    with suppress(OSError):
        while data := await source.read(_CHUNK):
            await asyncio.sleep(delay)
            target.write(data)
            await target.drain()
    target.close()


async def serve(port: int, delay: float) -> None:
    """Forward connections to `port` of this machine; what a client sends arrives `delay` seconds later."""

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(_pump(reader, back, delay), _pump(there, writer, 0))

    server = await asyncio.start_server(forward, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), int(sys.argv[2]) / 1000))
