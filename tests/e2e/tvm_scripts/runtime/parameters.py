"""Parameters of models as bytes and back."""

import numpy as np
import tvm

params = {"weight": tvm.nd.array(np.arange(6, dtype="float32").reshape(2, 3)), "bias": tvm.nd.array(np.ones(3, "int8"))}
data = tvm.runtime.save_param_dict(params)
print(type(data).__name__ in ("bytes", "bytearray"), len(data) > 0)
loaded = tvm.runtime.load_param_dict(data)
print(sorted(loaded.keys()), loaded["weight"].shape, loaded["bias"].dtype)
print((loaded["weight"].numpy() == params["weight"].numpy()).all(), loaded["bias"].numpy().tolist())
try:
    tvm.runtime.load_param_dict(b"no parameters")
    print("no error")
except Exception:
    print("refused")
