"""A kernel built here runs behind a server; files go both ways."""

import numpy as np
import tvm
from tvm import rpc, te
from tvm.contrib import utils

A = te.placeholder((8,), name="A")
B = te.compute((8,), lambda i: A[i] * 2.0, name="B")
m = tvm.build(te.create_schedule(B.op), [A, B], "llvm", name="double")
folder = utils.tempdir()
path = folder.relpath("double.so")
m.export_library(path)
server = rpc.Server(host="127.0.0.1", key="box")
remote = rpc.connect("127.0.0.1", server.port, key="box")
remote.upload(path)
f = remote.load_module("double.so")
x = tvm.nd.array(np.arange(8, dtype="float32"), remote.cpu(0))
y = tvm.nd.empty((8,), "float32", remote.cpu(0))
f["double"](x, y)
print(
    y.numpy().tolist(),
    f.type_key,
    remote.cpu(0).exist,
    y.device.device_type > 100 if isinstance(y.device.device_type, int) else True,
)
t = f.time_evaluator("double", remote.cpu(0), number=2, repeat=2)(x, y)
print(len(t.results), t.mean > 0)
remote.upload(bytearray(b"some bytes"), "note.txt")
print(bytes(remote.download("note.txt")), bytes(remote.download("double.so"))[:4] == b"\x7fELF")
remote.remove("note.txt")
try:
    remote.download("note.txt")
    print("still there")
except (OSError, tvm.TVMError):
    print("gone")


@tvm.register_func("prog.rpc_add")
def add(a, b):
    return a + b


z = x.copyto(tvm.cpu())
print(z.numpy().tolist()[:2], tvm.nd.array(np.ones(8, "float32")).copyto(x).numpy().sum())
try:
    remote.get_function("no.such.function")
    print("there")
except (AttributeError, ValueError, tvm.TVMError):
    print("no such function")
local = rpc.LocalSession()
local.upload(path)
print(
    local.get_function("prog.rpc_add")(1, 2), local.cpu(0).exist, bytes(local.download("double.so"))[:4] == b"\x7fELF"
)
del f, x, y, remote
server.terminate()
