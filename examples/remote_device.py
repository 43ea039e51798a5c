"""Time a kernel on a device machine, and see what happens when one crashes there.

Start a server first: tunefarm server
"""

import numpy as np

import tunefarm as tvm
from tunefarm import rpc, te, topi

HOST, PORT = "127.0.0.1", 9091


def main():
    A = te.placeholder((64, 4096), name="A")
    B = topi.softmax(A)
    module = tvm.build(te.create_schedule(B.op), [A, B], target="llvm", name="softmax")
    module.save("softmax.tunefarm")

    with rpc.connect(HOST, PORT, session_timeout=60) as remote:
        print(f"connected to {remote.box}: {remote.fingerprint().cpu_model}")
        remote.upload("softmax.tunefarm")
        softmax = remote.load_module("softmax.tunefarm")
        dev = remote.cpu()
        x = np.random.default_rng(0).standard_normal((64, 4096)).astype("float32")
        a, b = tvm.nd.array(x, dev), tvm.nd.empty(x.shape, "float32", dev)
        softmax(a, b)
        np.testing.assert_allclose(b.numpy().sum(axis=1), 1.0, rtol=1e-3)
        print(softmax.time_evaluator("softmax", dev, number=5, repeat=3)(a, b))
        try:
            softmax(a, a.copyto(tvm.cpu()))
        except tvm.error.ArgumentError as error:
            print(f"refused before it ran: {error}")


if __name__ == "__main__":
    main()
