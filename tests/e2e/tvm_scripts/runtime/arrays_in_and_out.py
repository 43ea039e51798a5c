"""Arrays: made, copied, seen through DLPack, compared and refused."""

import numpy as np
import tvm
from tvm import nd
from tvm.runtime import ShapeTuple

a = nd.array(np.arange(6, dtype="int32").reshape(2, 3))
print(a.shape, a.dtype, a.device == tvm.cpu(0), len(a.shape), a.numpy().sum())
b = nd.empty((2, 3), "int32", tvm.cpu())
print(a.copyto(b).numpy().tolist(), b.same_as(b), b.same_as(a), b is a)
b.copyfrom(np.ones((2, 3), dtype="int32"))
print(b.numpy().tolist(), a.copyto(tvm.cpu(0)).shape, a.asnumpy().dtype)
for dtype in ("float16", "float64", "uint8", "int64", "bool", "int8"):
    x = nd.array(np.zeros((2,), dtype=dtype))
    print(dtype, x.dtype, x.numpy().dtype, nd.empty((1,), dtype).dtype)
print(nd.array([1.5, 2.5]).dtype, nd.array([1, 2]).dtype, nd.array(3).shape, nd.array(np.float32(2)).dtype)
c = nd.array(np.arange(12, dtype="float32").reshape(3, 4)[:, ::2])
print(c.numpy().tolist(), c.shape)
d = nd.from_dlpack(a.to_dlpack())
print(d.numpy().tolist(), d.dtype, nd.from_dlpack(c).shape)
e = np.from_dlpack(nd.array(np.arange(3, dtype="float32")))
print(e.tolist())
a[:] = np.full((2, 3), 7, dtype="int32")
print(a.numpy().tolist())
for wrong in (
    lambda: b.copyfrom(np.ones((3, 3), "int32")),
    lambda: nd.empty((2,), "no_such_type"),
    lambda: nd.array("text", tvm.cpu()),
):
    try:
        wrong()
        print("fine")
    except (ValueError, TypeError, tvm.TVMError):
        print("refused")
s = ShapeTuple([2, 3, 4])
print(len(s), s[0], s[-1], list(s), s == ShapeTuple([2, 3, 4]), list(s)[1:], s == [2, 3, 4])
print(nd.empty(ShapeTuple((2, 2)), "float32").shape, nd.empty((0, 3)).numpy().shape)
print(tvm.nd.numpyasarray is not None, a.handle is not None, str(a.device), a.device.device_id)
