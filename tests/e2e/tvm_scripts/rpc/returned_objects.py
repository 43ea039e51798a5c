"""Functions of a server: what they take and what they return."""

import numpy as np
import tvm
import tvm.rpc.testing
import tvm.testing
from tvm import rpc

remote = rpc.LocalSession()
print(remote.get_function("rpc.test.addone")(10))
print(remote.get_function("rpc.test.strcat")("abc", 11))
print(remote.get_function("rpc.test.runtime_str_concat")("left ", "right"))
add = remote.get_function("rpc.test.add_to_lhs")(10)
print(add(12), add(-1))
try:
    remote.get_function("rpc.test.except")("abc")
except tvm.error.TVMError as error:
    print("TVMError")
except ValueError as error:
    print("TVMError")
uses = remote.get_function("rpc.test.remote_return_nd")
get = uses("get_arr")
array = get()
print(array.shape, array.dtype, array.numpy().tolist())
array.copyfrom(np.arange(10, dtype="float32"))
print(get().numpy().tolist())
print(uses("get_elem")(2), uses("get_arr_elem")(array, 2))
remote.get_function("rpc.test.remote_array_func")(tvm.nd.array(np.ones((3, 4)), remote.cpu(0)))
try:
    remote.get_function("no.such.function")
except AttributeError:
    print("AttributeError")
print(remote.cpu(0).exist)
