"""A database of one line per question: `wait N` is answered after N milliseconds."""

import asyncio
import sys


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while line := await reader.readline():
        word, _, number = line.decode().strip().partition(" ")
        if word == "wait":
            await asyncio.sleep(int(number) / 1e3)
        writer.write(b"a row\n")
        await writer.drain()
    writer.close()


async def _main() -> None:
    server = await asyncio.start_server(_serve, "127.0.0.1", int(sys.argv[1]))
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_main())
