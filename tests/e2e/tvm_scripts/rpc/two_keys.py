"""A tracker, servers of two keys, requests and the summary."""

import time

from tvm import rpc
from tvm.rpc.server import Server
from tvm.rpc.tracker import Tracker

tracker = Tracker(host="127.0.0.1", port=9290, port_end=9390)
servers = [
    Server(host="127.0.0.1", port=9390, port_end=9490, key=key, tracker_addr=("127.0.0.1", tracker.port))
    for key in ("one", "one", "two")
]
client = rpc.connect_tracker("127.0.0.1", tracker.port)

for _ in range(100):
    info = client.summary()
    if len(info["server_info"]) >= 3 and sum(q["free"] for q in info["queue_info"].values()) >= 3:
        break
    time.sleep(0.1)
print(sorted(info["queue_info"]), {k: (v["free"], v["pending"]) for k, v in sorted(info["queue_info"].items())})
text = client.text_summary()
print("Server List" in text, "Queue Status" in text, "one" in text, "two" in text, "pending" in text)
session = client.request("two", priority=1, session_timeout=10)
print(session.cpu(0).exist)
print(client.request_and_run("one", lambda remote: remote.cpu(0).exist, session_timeout=10, max_retry=2))
del session
for server in servers:
    server.terminate()
tracker.terminate()
