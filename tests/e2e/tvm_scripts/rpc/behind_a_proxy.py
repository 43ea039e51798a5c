"""A server that dials out to a proxy, and a client that reaches it there; arrays and a module."""
import numpy as np
import tvm
from tvm import rpc, te
from tvm.contrib import utils
from tvm.rpc import proxy

prox = proxy.Proxy(host="127.0.0.1", port=19090, port_end=19999)
srv = rpc.Server("127.0.0.1", port=prox.port, is_proxy=True, key="box")
client = rpc.connect("127.0.0.1", prox.port, key="box", session_timeout=60)
arr = tvm.nd.array(np.arange(6, dtype="float32"), client.cpu(0))
print(arr.numpy().sum())
n = te.var("n")
A = te.placeholder((n,), name="A")
B = te.compute((n,), lambda i: A[i] + 1.0, name="B")
mod = tvm.build(te.create_prim_func([A, B]), target="llvm", name="addone")
tmp = utils.tempdir()
path = tmp.relpath("l.tar")
mod.export_library(path)
client.upload(path)
lib = client.load_module("l.tar")
out = tvm.nd.empty((6,), "float32", client.cpu(0))
lib["addone"](arr, out)
print(out.numpy().tolist())
del client
srv.terminate()
prox.terminate()
