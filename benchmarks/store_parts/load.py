"""A load generator: keep-alive connections, each of which asks again as soon as it was answered.

One thread over non-blocking sockets, as little Python a request as will do, so that on a machine of two cores the
server gets the most of both. Run as a process of its own:

    python load.py PORT CONNECTIONS SECONDS < requests.json
"""

from __future__ import annotations

import json
import selectors
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Load:
    """`took` (seconds) of each request; `seconds` of all; `cpu_s` of the client."""

    took: list[float]
    seconds: float
    cpu_s: float

    @property
    def rate(self) -> float:
        return len(self.took) / self.seconds

    def percentile(self, percent: int) -> float:
        return sorted(self.took)[min(len(self.took) - 1, len(self.took) * percent // 100)]


def load(port: int, requests: list[str], connections: int, seconds: float) -> Load:
    """From a process of its own. Every request is asked once before the time begins."""
    words = [sys.executable, str(Path(__file__)), str(port), str(connections), str(seconds)]
    done = subprocess.run(words, input=json.dumps(requests), capture_output=True, text=True, check=True)
    return Load(**json.loads(done.stdout))


def get(path: str, **headers: str) -> str:
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{lines}\r\n"


def post(path: str, body: str) -> str:
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body.encode())}\r\n\r\n{body}"


class _Connection:
    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sent = 0.0
        self._got = b""

    def ask(self, request: bytes) -> None:
        self.sent = time.perf_counter()
        self.socket.sendall(request)

    def answered(self) -> bool:
        """Whether the reply is there, whole. Raises SystemExit for one that is neither 200 nor 304."""
        part = self.socket.recv(1 << 18)
        if not part:
            raise SystemExit("the server closed a connection")
        self._got += part
        head, end, body = self._got.partition(b"\r\n\r\n")
        if not end:
            return False
        status = head[9:12]
        if status == b"200":
            at = head.lower().index(b"content-length:") + 15
            if len(body) < int(head[at:].split(b"\r\n", 1)[0]):
                return False
        elif status != b"304":
            raise SystemExit(f"answered with {head.decode()}")
        self._got = b""
        return True


def drive(port: int, requests: list[bytes], connections: int, seconds: float) -> Load:
    _answers(port, requests, connections, 0.0, len(requests))
    return _answers(port, requests, connections, seconds, 1)


def _answers(port: int, requests: list[bytes], connections: int, seconds: float, at_least: int) -> Load:
    """Asks for so many seconds, and until so many were answered."""
    selector = selectors.DefaultSelector()
    opened = [_Connection(port) for _ in range(connections)]
    number, took, cpu = 0, [], time.process_time()
    began = time.perf_counter()
    for connection in opened:
        selector.register(connection.socket, selectors.EVENT_READ, connection)
        connection.ask(requests[number % len(requests)])
        number += 1
    while (now := time.perf_counter()) - began < seconds or len(took) < at_least:
        for key, _ in selector.select(1.0):
            connection = key.data
            if connection.answered():
                took.append(time.perf_counter() - connection.sent)
                connection.ask(requests[number % len(requests)])
                number += 1
    for connection in opened:
        connection.socket.close()
    return Load(took, now - began, time.process_time() - cpu)


def main() -> None:
    port, connections, seconds = sys.argv[1:]
    requests = [request.encode() for request in json.load(sys.stdin)]
    print(json.dumps(vars(drive(int(port), requests, int(connections), float(seconds)))))


if __name__ == "__main__":
    main()
