"""Apache TVM's tracker and RPC server over loopback: prints a JSON line. Runs in the peer's Python.

How to make the peer's environment is said in benchmarks/peers/metaschedule.py.
"""

import json
import socket
import statistics
import subprocess
import sys
import time

import numpy as np
import tvm
from tvm import rpc


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def main() -> None:
    requests, calls, megabytes = (int(x) for x in sys.argv[1:4])
    tracker_port, server_port = free_port(), free_port()
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    tracker = [sys.executable, "-m", "tvm.exec.rpc_tracker", "--host", "127.0.0.1", "--port", str(tracker_port)]
    tracker += ["--port-end", str(tracker_port + 10)]
    server = [sys.executable, "-m", "tvm.exec.rpc_server", "--host", "127.0.0.1", "--port", str(server_port)]
    server += ["--port-end", str(server_port + 10), "--tracker", f"127.0.0.1:{tracker_port}", "--key", "bench"]
    children = [subprocess.Popen(tracker, **quiet)]
    try:
        time.sleep(5)
        children.append(subprocess.Popen(server, **quiet))
        time.sleep(5)
        session = rpc.connect_tracker("127.0.0.1", tracker_port)
        opens = []
        for _ in range(requests):
            start = time.perf_counter()
            remote = session.request("bench", session_timeout=60)
            remote.cpu().sync()
            opens.append(time.perf_counter() - start)
            del remote
            time.sleep(0.3)
        remote = session.request("bench", session_timeout=120)
        dev = remote.cpu()
        small = tvm.runtime.tensor(np.zeros(4, "float32"), dev)
        times = []
        for _ in range(calls):
            start = time.perf_counter()
            small.numpy()
            times.append(time.perf_counter() - start)
        data = np.random.rand(megabytes << 18).astype("float32")
        up, down = [], []
        array = tvm.runtime.empty(data.shape, "float32", dev)
        for _ in range(3):
            start = time.perf_counter()
            array.copyfrom(data)
            up.append(data.nbytes / (time.perf_counter() - start) / 1e9)
            start = time.perf_counter()
            array.numpy()
            down.append(data.nbytes / (time.perf_counter() - start) / 1e9)
        medians = {"open_s": opens, "call_s": times, "up_gb_s": up, "down_gb_s": down}
        print(json.dumps({"peer": tvm.__version__, **{k: statistics.median(v) for k, v in medians.items()}}))
    finally:
        for child in reversed(children):
            child.terminate()
        for child in children:
            child.wait()


if __name__ == "__main__":
    main()
