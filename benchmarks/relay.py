"""The cost of idle boxes for a relay, and how long it takes to join a client to a box beside them.

    python benchmarks/relay.py
    python benchmarks/relay.py --boxes 1000 4000

The boxes are sockets of this process, which register and say that they live as real ones do; without keys, on loopback.
"""

from __future__ import annotations

import argparse
import os
import socket
import statistics
import threading
import time
from pathlib import Path

import zmq

from rpc_server.relay.handshake import show_pass
from rpc_server.relay.passes import BOX, GREETING_SIZE, Greeting, PassAnswer, RelayPass, new_pass, pass_of_text
from rpc_server.relay.server import Relay
from rpc_server.wire.codec import MessageKind
from rpc_server.wire.relay_messages import HEARTBEAT_S, BoxPasses, CallBack, prepare_control, to_box, to_relay

SECONDS = 20.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--boxes", type=int, nargs="+", default=[1000, 8000], help="how many, one run each")
    args = parser.parse_args()
    print(f"{'boxes':>8}{'CPU':>8}{'memory':>10}{'joined p50':>12}{'p99':>10}")
    for count in args.boxes:
        share, memory, times = run(count)
        p50, p99 = statistics.median(times), statistics.quantiles(times, n=100)[98]
        print(f"{count:>8,}{share:>8.1%}{memory / 1e6:>7.0f} MB{1e3 * p50:>9.1f} ms{1e3 * p99:>7.1f} ms")


def run(count: int) -> tuple[float, int, list[float]]:
    """The relay's share of a core, its resident bytes, and the seconds each joining took."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    context.max_sockets = count + 10
    ended = threading.Event()
    with Relay(silent=True) as relay:
        try:
            sock, greeting = greeted(relay.port)
            sock.close()
            boxes = [Box(context, relay.port, greeting.port, f"box{number}") for number in range(count)]
            beats = threading.Thread(target=beat, args=(boxes[1:], ended))
            beats.start()
            time.sleep(HEARTBEAT_S)  # until they are all connected
            boxes[0].say()
            before, started = cpu_seconds(relay.pid), time.monotonic()
            times = []
            while time.monotonic() - started < SECONDS:
                times.append(boxes[0].join())
                time.sleep(0.05)
            spent = time.monotonic() - started
            return (cpu_seconds(relay.pid) - before) / spent, resident(relay.pid), times
        finally:
            ended.set()
            beats.join()
            context.destroy(linger=0)


class Box:
    """Registered with one pass, which never changes."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], port: int, control_port: int, name: str) -> None:
        self._port = port
        self._pass = new_pass()
        self._words = to_relay.encode(BoxPasses(name, (self._pass.text,)), MessageKind.NOTE)
        self._control = context.socket(zmq.DEALER)
        prepare_control(self._control)
        self._control.connect(f"tcp://127.0.0.1:{control_port}")
        self.say()

    def say(self) -> None:
        self._control.send_multipart(self._words)
        while self._control.poll(0):
            self._control.recv_multipart()

    def join(self) -> float:
        """Have a client come, and be joined to it."""
        start = time.perf_counter()
        client = threading.Thread(target=self._connect)
        client.start()
        with self._call_back(self._called()) as line:
            client.join()
            assert line.recv(1) == b"!"
        spent = time.perf_counter() - start
        self.say()
        return spent

    def _connect(self) -> None:
        line, door = show_pass("127.0.0.1", self._port, self._pass.text, time.monotonic() + 30)
        with line, socket.create_connection(("127.0.0.1", door)) as sock:
            sock.sendall(b"!")

    def _called(self) -> RelayPass:
        while not isinstance(said := to_box.decode(self._control.recv_multipart()).body, CallBack):
            pass
        return pass_of_text(said.passed)

    def _call_back(self, given: RelayPass) -> socket.socket:
        sock, greeting = greeted(self._port)
        sock.sendall(PassAnswer.to(greeting, BOX, given))
        return sock


def greeted(port: int) -> tuple[socket.socket, Greeting]:
    sock = socket.create_connection(("127.0.0.1", port))
    return sock, Greeting.from_bytes(sock.recv(GREETING_SIZE, socket.MSG_WAITALL))


def beat(boxes: list[Box], ended: threading.Event) -> None:
    """Each once in `HEARTBEAT_S`, evenly, as those of many machines."""
    while not ended.is_set():
        for part in range(100):
            for box in boxes[part::100]:
                box.say()
            if ended.wait(HEARTBEAT_S / 110):
                return


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    main()
