"""The RPC path over loopback: opening a session through the tracker, copies, small calls, beside Apache TVM's.

    python benchmarks/rpc.py
    python benchmarks/rpc.py --peer /path/to/peer/bin/python

A session: from the tracker's request to the answer of its first call; its wake-ups are how often threads of all
processes slept meanwhile, which depends on the machine much less. A small call: reading 16 bytes back and waiting
for them. Pipelined: calls submitted ahead. Copies: 64 MiB, their median and the slowest of them; their CPU time, of all
processes, depends less on what else the machine does. Medians; ours and the peer's processes run one after the
other, each round twice in turns. `supervisor` is what a client on another machine gets, less the network: through the
server's supervisor rather than straight to the session's process. `relay` is the same for a box behind a relay, whose
three more processes share this machine's cores.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

PEER = Path(__file__).parent / "peers" / "rpc.py"
REQUESTS, CALLS, PIPELINED, MEGABYTES, COPIES, ROUNDS = 10, 3000, 20_000, 64, 12, 2
WINDOW = 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", help="Python with apache-tvm installed")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of each side, in turns")
    parser.add_argument("--ours", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.ours:
        print(json.dumps(ours()))
        return
    commands = {"ours": [sys.executable, __file__, "--ours"]}
    if args.peer:
        commands["peer"] = [args.peer, str(PEER), str(REQUESTS), str(CALLS), str(MEGABYTES)]
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in commands}
    for _ in range(args.rounds):
        for name, command in commands.items():
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            runs[name].append(json.loads(done.stdout.strip().splitlines()[-1]))
    print(f"{'':30}{'tunefarm':>12}{'supervisor':>12}{'relay':>12}{'peer':>12}")
    rows = [
        ("request to session, ms", "open_s", 1e3),
        ("wake-ups for it", "wakes", 1),
        ("small call, us", "call_s", 1e6),
        ("pipelined calls a second", "pipelined", 1),
        ("64 MiB there, GB/s", "up_gb_s", 1),
        ("  the slowest", "up_slowest_gb_s", 1),
        ("  CPU, ms a GiB", "up_cpu_s", 1e3),
        ("64 MiB back, GB/s", "down_gb_s", 1),
        ("  the slowest", "down_slowest_gb_s", 1),
        ("  CPU, ms a GiB", "down_cpu_s", 1e3),
    ]
    for title, key, scale in rows:
        ways = [value(runs, "ours", f"{way}{key}") for way in ("", "supervisor_", "relay_")]
        cells = [*ways, value(runs, "peer", key)]
        print(f"{title:30}" + "".join(f"{shown(cell, scale):>12}" for cell in cells))


def shown(cell: float | None, scale: float) -> str:
    if cell is None:
        return "-"
    return f"{cell * scale:,.0f}" if cell * scale > 1000 else f"{cell * scale:.2f}"


def value(runs: dict[str, list[dict[str, Any]]], side: str, key: str) -> float | None:
    found = [run[key] for run in runs.get(side, []) if key in run]
    return statistics.median(found) if found else None


def ours() -> dict[str, float]:
    from tunefarm import rpc

    found: dict[str, float] = {}
    with rpc.Tracker(host="127.0.0.1", port=0) as tracker, rpc.Relay() as relay:
        address = ("127.0.0.1", tracker.port)
        session = rpc.connect_tracker(*address)
        with rpc.Server(host="127.0.0.1", port=0, tracker_addr=address, key="bench", warm=2) as server:
            pids: tuple[int, ...] = (os.getpid(), tracker.pid, server.pid)
            found |= opening(session, "bench", pids)
            with session.request("bench", session_timeout=120) as remote:
                found |= paths(remote, pids)
            with session.request("bench", session_timeout=120) as remote:
                remote.call_timeout = 600.0  # a deadline is the supervisor's to enforce: calls go through it
                found |= paths(remote, pids, "supervisor_")
        way = f"127.0.0.1:{relay.port}"
        with rpc.Server(host="127.0.0.1", port=0, tracker_addr=address, relay=way, key="far", warm=2) as server:
            pids = (os.getpid(), tracker.pid, relay.pid, server.pid)
            found |= opening(session, "far", pids, "relay_")
            with session.request("far", session_timeout=120) as remote:
                found |= paths(remote, pids, "relay_")
        session.close()
    return found


def opening(session: Any, key: str, pids: Sequence[int], prefix: str = "") -> dict[str, float]:
    """Medians; the first session, which finds things cold, does not count."""
    opened = [_open(session, key, pids) for _ in range(REQUESTS + 1)][1:]
    seconds, wakes = zip(*opened)
    return {f"{prefix}open_s": statistics.median(seconds), f"{prefix}wakes": statistics.median(wakes)}


def _open(session: Any, key: str, pids: Sequence[int]) -> tuple[float, int]:
    before = sleeps(pids)
    start = time.perf_counter()
    remote = session.request(key, session_timeout=60)
    remote.cpu().sync()
    spent = time.perf_counter() - start
    after = sleeps(pids)
    remote.close()
    time.sleep(0.7)  # the next executor gets warm
    return spent, sum(after[thread] - before[thread] for thread in after.keys() & before.keys())


def sleeps(pids: Sequence[int]) -> dict[str, int]:
    """How often each thread of these processes, and of those they started, has slept."""
    found = {}
    for pid in pids:
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):  # it ended meanwhile
                status = dict(line.split(":", 1) for line in (task / "status").read_text().splitlines())
                found[task.name] = int(status["voluntary_ctxt_switches"])
                if pid != os.getpid():
                    found |= sleeps([int(child) for child in (task / "children").read_text().split()])
    return found


def cpu_s(pids: Sequence[int]) -> float:
    """Return the processor time of the threads of these processes, and of those they started."""
    spent = 0.0
    for pid in pids:
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                spent += int((task / "schedstat").read_text().split()[0]) / 1e9
                if pid != os.getpid():
                    spent += cpu_s([int(child) for child in (task / "children").read_text().split()])
    return spent


def copies(prefix: str, copy: Callable[[], object], nbytes: int, pids: Sequence[int]) -> dict[str, float]:
    copy()  # finds things cold
    rates = []
    before = cpu_s(pids)
    for _ in range(COPIES):
        start = time.perf_counter()
        copy()
        rates.append(nbytes / (time.perf_counter() - start) / 1e9)
    return {
        f"{prefix}_gb_s": statistics.median(rates),
        f"{prefix}_slowest_gb_s": min(rates),
        f"{prefix}_cpu_s": (cpu_s(pids) - before) / (nbytes * COPIES / (1 << 30)),
    }


def paths(remote: Any, pids: Sequence[int], prefix: str = "") -> dict[str, float]:
    import numpy as np

    import tunefarm as tvm
    from rpc_server.wire.messages import SyncDevice

    dev = remote.cpu()
    small = tvm.nd.array(np.zeros(4, "float32"), dev)
    times = []
    for _ in range(CALLS):
        start = time.perf_counter()
        small.numpy()
        times.append(time.perf_counter() - start)
    start = time.perf_counter()
    window: list[Any] = []
    for _ in range(PIPELINED):
        window.append(remote.submit(SyncDevice("cpu", 0)))
        if len(window) == WINDOW:
            for pending in window:
                pending.wait()
            window.clear()
    for pending in window:
        pending.wait()
    rate = PIPELINED / (time.perf_counter() - start)
    data = np.random.default_rng(0).random(MEGABYTES << 18, dtype="float32")
    array = tvm.nd.empty(data.shape, "float32", dev)
    found = {
        "call_s": statistics.median(times),
        "pipelined": rate,
        **copies("up", lambda: array.copyfrom(data), data.nbytes, pids),
        **copies("down", array.numpy, data.nbytes, pids),
    }
    return {prefix + key: value for key, value in found.items()}


if __name__ == "__main__":
    main()
