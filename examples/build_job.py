"""The steps of a build job: ask for the best config of a kernel, replay it, build, and say what was used.

Tune the kernel and start the web app first:
    tunefarm tune matmul:64,64,64:float32
    tunefarm web
"""

import sys

import tunefarm as tvm
from tunefarm import te, tir, topi
from tunefarm.client import Client

API = "http://127.0.0.1:9180"


def matmul(m, n, k):
    A = te.placeholder((m, k), name="A")
    B = te.placeholder((k, n), name="B")
    return te.create_prim_func([A, B, topi.matmul(A, B)])


def main():
    func = matmul(64, 64, 64)
    with Client(API) as client:
        reply = client.best(func)
    print(f"matmul 64x64x64: {reply.match}")
    for reason in reply.explain:
        print(f"  - {reason}")
    if not reply.hit:
        sys.exit(3)
    func = tir.apply_trace(func, tir.Trace.from_json(reply.trace)).func
    tvm.build(func, target="llvm", name="matmul").save("matmul.tunefarm")
    print(f"built with config {reply.digest}: matmul.tunefarm")


if __name__ == "__main__":
    main()
