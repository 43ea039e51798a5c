"""Arrays: making, copying, dtypes, comparing, moving to numpy and DLPack."""

import numpy as np
import tvm

dev = tvm.cpu()
a = tvm.nd.array(np.arange(6, dtype="float32").reshape(2, 3), dev)
print(
    a.shape,
    a.dtype,
    a.device,
    a.numpy().tolist(),
    a.asnumpy().sum(),
    type(a).__name__,
    a.ndim if hasattr(a, "ndim") else 2,
)
b = tvm.nd.empty((2, 3), "float32", dev)
a.copyto(b)
print(np.array_equal(b.numpy(), a.numpy()), b.same_as(a))
b[:] = np.full((2, 3), 3, "float32")
print(b.numpy().tolist())
b[:] = np.ones((2, 3), "float32")
print(b.numpy().sum())
c = tvm.nd.array([1, 2, 3])
print(c.dtype, c.shape)
for dtype in ("int8", "uint16", "int64", "float16", "float64", "bool"):
    x = tvm.nd.array(np.array([1, 0, 1]).astype(dtype))
    print(dtype, x.dtype, x.numpy().dtype)
e = tvm.nd.from_dlpack(a.to_dlpack())
print(e.numpy().tolist(), np.from_dlpack(a.numpy()).shape)
d = a.copyto(tvm.cpu(0))
print(d.device == tvm.cpu(0), d.device.device_id, str(tvm.cpu(0)) == str(dev), tvm.cpu(0) == tvm.device("cpu", 0))
for wrong in (
    lambda: b.copyfrom(np.zeros((3, 2), "float32")),
    lambda: tvm.nd.empty((2,), "float32").copyto(tvm.nd.empty((3,), "float32")),
    lambda: tvm.device("no_such_device"),
):
    try:
        wrong()
        print("no error")
    except (ValueError, TypeError, tvm.TVMError):
        print("refused")
print(dev.exist, bool(tvm.runtime.enabled("llvm")), tvm.cuda(0).exist)
print(
    tvm.runtime.DataType("float32x4").lanes,
    tvm.runtime.DataType("int8").bits,
    tvm.DataType("uint16") == tvm.DataType("uint16"),
)
params = {"w": a, "b": tvm.nd.array(np.array([7], "int32"))}
loaded = tvm.runtime.load_param_dict(tvm.runtime.save_param_dict(params))
print(sorted(loaded), loaded["w"].numpy().tolist(), loaded["b"].dtype)
