"""A server of one's own, a session, uploaded modules, remote arrays and functions."""

import numpy as np
import tvm
from tvm import rpc, te
from tvm.contrib import utils

server = rpc.Server(host="127.0.0.1", key="x1")
remote = rpc.connect("127.0.0.1", server.port, key="x1")
dev = remote.cpu()
print(type(remote).__name__, dev.exist)
a = tvm.nd.array(np.arange(10, dtype="float32"), dev)
print(a.shape, a.numpy().tolist(), a.device == dev)
b = tvm.nd.empty((10,), "float32", dev)
b.copyfrom(np.ones(10, "float32"))
print(b.numpy().sum())

n = 10
A = te.placeholder((n,), name="A")
B = te.compute((n,), lambda i: A[i] + 1.0, name="B")
s = te.create_schedule(B.op)
f = tvm.build(s, [A, B], "llvm", name="myadd")
temp = utils.tempdir()
path = temp.relpath("dev_lib.tar")
f.export_library(path)
remote.upload(path)
f1 = remote.load_module("dev_lib.tar")
f1(a, b)
print(b.numpy().tolist())
timer = f1.time_evaluator(f1.entry_name, dev, number=10, repeat=3)
result = timer(a, b)
print(len(result.results), result.mean > 0)
remote.upload(bytearray(b"hello there"), "greeting.bin")
print(bytes(remote.download("greeting.bin")))
remote.remove("greeting.bin")
try:
    remote.download("greeting.bin")
    print("no error")
except Exception:
    print("refused")
try:
    remote.get_function("no.such.function")(1)
    print("no error")
except Exception as error:
    print(isinstance(error, (AttributeError, tvm.TVMError, ValueError)))
server.terminate()
