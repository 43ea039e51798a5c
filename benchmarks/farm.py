"""The tracker under a large farm: grants a second, how long a free device takes to be granted, memory.

    python benchmarks/farm.py
    python benchmarks/farm.py --boxes 100 1000 5000 --clients 200 --seconds 5

A real tracker process on loopback. Boxes and clients are simulated by this process over a few connections: every box
sends heartbeats and answers grants and revocations as a server does; every client asks for any device, gives it back as
soon as it has it, and asks again. "Latency" is from request to grant with few clients, so that devices are always free.
"""

from __future__ import annotations

import argparse
import time

import psutil
import zmq

from rpc_server.farm_link.registrar import LIVENESS
from rpc_server.wire import tracker_messages as tm
from rpc_server.wire.codec import MessageKind
from rpc_server.wire.sockets import prepare, send_frames
from rpc_server.wire.tracker_records import DeviceSpec
from tracker.server import Tracker

CONNECTIONS = 8


class Farm:
    """Simulated boxes and clients of one tracker."""

    def __init__(self, port: int, boxes: int) -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._box_lines = [self._line(port) for _ in range(CONNECTIONS)]
        self._client_lines = [self._line(port) for _ in range(CONNECTIONS)]
        self._boxes = [f"box{n}" for n in range(boxes)]
        self._held: dict[str, set[str]] = {name: set() for name in self._boxes}
        self._of_lease: dict[str, str] = {}
        self._beat_at = 0.0
        self._next_request = 0
        self._asked: dict[str, tuple[int, float]] = {}
        self._holder: dict[str, int] = {}
        self._running = False
        self.latencies: list[float] = []
        self.granted = 0

    def _line(self, port: int) -> zmq.Socket[bytes]:
        sock = self._context.socket(zmq.DEALER)
        prepare(sock, LIVENESS, tm.LIMITS)
        sock.connect(f"tcp://127.0.0.1:{port}")
        return sock

    def close(self) -> None:
        for sock in (*self._box_lines, *self._client_lines):
            sock.close(linger=0)
        self._context.term()

    def register(self) -> None:
        for number, name in enumerate(self._boxes):
            cores = {"cores": 1 + number % 64}
            spec = DeviceSpec(slot=number, key="cpu", tags=("cpu",), attributes=cores, fingerprint=f"f{number % 9}")
            self._say(self._box_lines[number % CONNECTIONS], tm.BoxHello(name, name, f"10.0.0.1:{9000}", (spec,)))
        waiting = set(self._boxes)
        while waiting:
            for sock in self._box_lines:
                while sock.poll(20):
                    message = tm.to_box.decode(sock.recv_multipart()).body
                    if isinstance(message, tm.BoxWelcome):
                        waiting.discard(next(iter(waiting)))
        self._beat_at = time.monotonic() + 1

    def run(self, clients: int, seconds: float) -> float:
        """Let clients ask for so long; grants a second."""
        self.granted = 0
        self.latencies.clear()
        self._running = True
        for number in range(clients):
            self._ask(number)
        start = time.monotonic()
        poller = zmq.Poller()
        for sock in (*self._box_lines, *self._client_lines):
            poller.register(sock, zmq.POLLIN)
        lines = set(self._box_lines)
        while (now := time.monotonic()) < start + seconds + 5:
            self._beat(now)
            for sock, _ in poller.poll(5):
                handle = self._on_box if sock in lines else self._on_client
                for _ in range(200):
                    try:
                        frames = sock.recv_multipart(zmq.NOBLOCK)
                    except zmq.Again:
                        break
                    handle(sock, frames)
            if not self._running and not self._asked and not self._holder:
                break
            self._running = now < start + seconds
        return self.granted / seconds

    def _beat(self, now: float) -> None:
        if now >= self._beat_at:
            self._beat_at = now + 1
            for number, name in enumerate(self._boxes):
                self._say(self._box_lines[number % CONNECTIONS], tm.BoxHeartbeat(name, tuple(self._held[name])))

    def _on_box(self, sock: zmq.Socket[bytes], frames: list[bytes]) -> None:
        match tm.to_box.decode(frames).body:
            case tm.GrantLease() as grant:
                box = self._boxes[grant.slot]  # a real box has a line of its own, and slots from 0
                self._held[box].add(grant.lease)
                self._of_lease[grant.lease] = box
                self._say(sock, tm.LeaseAccepted(box, grant.lease))
            case tm.RevokeLease(lease, _):
                box = self._of_lease.pop(lease, "")
                if box:
                    self._held[box].discard(lease)
                    self._say(sock, tm.LeaseOver(box, lease))
            case _:
                pass

    def _on_client(self, sock: zmq.Socket[bytes], frames: list[bytes]) -> None:
        match tm.to_client.decode(frames).body:
            case tm.Granted(request, grant):
                asked = self._asked.pop(request, None)
                if asked is None:
                    return
                client, since = asked
                self.latencies.append(time.monotonic() - since)
                self.granted += 1
                self._holder[grant.lease] = client
                self._say(sock, tm.ReleaseLease(f"client{client}", grant.lease, grant.token))
            case tm.LeaseReleased(lease):
                if (holder := self._holder.pop(lease, None)) is not None and self._running:
                    self._ask(holder)
            case _:
                pass

    def _ask(self, client: int) -> None:
        self._next_request += 1
        request = f"r{self._next_request}"
        self._asked[request] = (client, time.monotonic())
        asked = tm.RequestDevice(f"client{client}", request, f"user{client % 20}", "cpu")
        self._say(self._client_lines[client % CONNECTIONS], asked)

    def _say(self, sock: zmq.Socket[bytes], message: tm.FromBox | tm.FromClient) -> None:
        send_frames(sock, tm.to_tracker.encode(message, MessageKind.NOTE))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--boxes", type=int, nargs="+", default=[100, 1000, 5000])
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=5.0)
    args = parser.parse_args()
    print(f"{'boxes':>8}{'register, s':>13}{'grants/s':>10}{'latency p50, ms':>17}{'p99, ms':>9}", end="")
    print(f"{'memory, MB':>12}{'CPU us a grant':>16}")
    for boxes in args.boxes:
        with Tracker(port=0, silent=True) as tracker:
            process = psutil.Process(tracker.pid)
            farm = Farm(tracker.port, boxes)
            try:
                start = time.monotonic()
                farm.register()
                registered = time.monotonic() - start
                farm.run(4, 1.0)
                farm.run(4, 3.0)
                ordered = sorted(farm.latencies)
                p50, p99 = (ordered[int(q * (len(ordered) - 1))] * 1e3 for q in (0.5, 0.99))
                before = sum(process.cpu_times()[:2])
                rate = farm.run(args.clients, args.seconds)
                cpu = (sum(process.cpu_times()[:2]) - before) / max(farm.granted, 1)
                memory = process.memory_info().rss / 1e6
            finally:
                farm.close()
        row = f"{boxes:8}{registered:13.2f}{rate:10.0f}{p50:17.2f}{p99:9.2f}{memory:12.0f}{cpu * 1e6:16.0f}"
        print(row, flush=True)


if __name__ == "__main__":
    main()
