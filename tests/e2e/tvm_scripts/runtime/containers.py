"""Objects: strings, shapes, arrays and maps, and conversions."""

import tvm
from tvm.runtime import container, convert

s = container.String("text")
print(s == "text", s.startswith("te"), len(s), hash(s) == hash("text"), isinstance(s, str), s + "!")
shape = container.ShapeTuple([1, 2, 3])
print(len(shape), shape[0], list(shape), shape == container.ShapeTuple([1, 2, 3]))
arr = convert([1, 2, "three", [4]])
print(len(arr), int(arr[0]), arr[2], int(arr[3][0]), int(arr[-1][0]))
print([int(x) for x in arr[0:2]], type(arr).__name__)
m = convert({"a": 1, "b": [2, 3]})
print(sorted(m.keys()), int(m["a"]), "b" in m, len(m), int(m.get("a")), m.get("z"))
print(sorted(k for k, v in m.items()))
f = convert(lambda x: x + 1)
print(f(41), type(convert(True)).__name__, type(convert(1.5)).__name__, convert(None))
for bad in ({1, 2}, object()):
    try:
        convert(bad)
        print("no error")
    except Exception as error:
        print("refused", isinstance(error, (TypeError, ValueError)))
print(isinstance(arr, tvm.runtime.Object), isinstance(m, tvm.runtime.Object), isinstance(s, str))
