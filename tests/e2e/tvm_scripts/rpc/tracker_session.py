"""A tracker and two servers: requests by key, the summary, giving a device back."""

import time

import numpy as np
import tvm
from tvm import rpc
from tvm.rpc.tracker import Tracker

tracker = Tracker("127.0.0.1", port=9190, port_end=9290)
servers = [
    rpc.Server("127.0.0.1", port=9191 + i * 10, port_end=9290, key="box", tracker_addr=("127.0.0.1", tracker.port))
    for i in range(2)
]
time.sleep(0.5)
client = rpc.connect_tracker("127.0.0.1", tracker.port)
print(type(client).__name__)
for _ in range(50):
    summary = client.summary()
    if summary["queue_info"].get("box", {}).get("free") == 2:
        break
    time.sleep(0.1)
print(summary["queue_info"]["box"]["free"], summary["queue_info"]["box"]["pending"], len(summary["server_info"]))
first = client.request("box", priority=2, session_timeout=60)
second = client.request("box")
print(client.summary()["queue_info"]["box"]["free"])
a = tvm.nd.array(np.arange(4, dtype="int32"), first.cpu(0))
print(a.numpy().tolist())
del a
del first
for _ in range(50):
    free = client.summary()["queue_info"]["box"]["free"]
    if free == 1:
        break
    time.sleep(0.1)
print(free)
text = client.text_summary()
print("box" in text, "Total" in text or "total" in text, "free" in text)


def work(remote):
    return int(tvm.nd.array(np.ones(3, "int32"), remote.cpu()).numpy().sum())


print(client.request_and_run("box", work))
del second
for server in servers:
    server.terminate()
tracker.terminate()
