"""Asking a service whether it is ready."""

import asyncio


async def is_ready(port: int, path: str = "/readyz", timeout_sec: float = 2.0) -> bool:
    """Whether `GET path` on 127.0.0.1:port answers 200. A refused or silent connection is a no."""
    try:
        async with asyncio.timeout(timeout_sec):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n".encode())
                await writer.drain()
                status_line = await reader.readline()
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return False
    parts = status_line.split()
    return len(parts) > 1 and parts[1] == b"200"
