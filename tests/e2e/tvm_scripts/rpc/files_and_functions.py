"""A server: files, functions of its registry, modules, several sessions."""

import numpy as np
import tvm
from tvm import rpc, te
from tvm.contrib import utils

server = rpc.Server("127.0.0.1", key="demo")
try:
    remote = rpc.connect("127.0.0.1", server.port, key="demo")
    temp = utils.tempdir()
    n = 32
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] * A[i], name="B")
    f = tvm.build(te.create_schedule(B.op), [A, B], "llvm", name="square")
    path = temp.relpath("square.tar")
    f.export_library(path)
    remote.upload(path)
    loaded = remote.load_module("square.tar")
    dev = remote.cpu()
    a = tvm.nd.array(np.arange(n, dtype="float32"), dev)
    b = tvm.nd.array(np.zeros(n, "float32"), dev)
    loaded["square"](a, b)
    print((b.numpy() == np.arange(n) ** 2).all())
    timer = loaded.time_evaluator("square", dev, number=5, repeat=2)
    print(len(timer(a, b).results))
    remote.upload(bytearray(b"some bytes"), "note.bin")
    print(bytes(remote.download("note.bin")))
    c = tvm.nd.array(np.ones(3, "float32"), remote.cpu())
    print(c.numpy().sum(), c.shape, type(remote).__name__)
    try:
        remote.load_module("missing.tar")
        print("no error")
    except Exception:
        print("refused")
finally:
    server.terminate()
