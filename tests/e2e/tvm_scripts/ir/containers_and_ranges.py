"""Arrays, maps and ranges of IR: what they hold, how they compare and are printed."""

import tvm
from tvm import tir

numbers = tvm.runtime.convert([1, 2, 3, 4])
print(type(numbers).__name__, len(numbers), [int(n) for n in numbers[1:3]], int(numbers[-1]))
nested = tvm.runtime.convert({"a": [1, 2], "b": "text"})
print(type(nested).__name__, len(nested), sorted(str(key) for key in nested), "a" in nested, "z" in nested)
print([int(n) for n in nested["a"]], nested["b"], nested.get("z", 5))
try:
    numbers[4]
except IndexError as error:
    print("IndexError")

x = tir.Var("x", "int32")
r = tvm.ir.Range(0, 10)
print(int(r.min), int(r.extent), tvm.ir.structural_equal(r, tvm.ir.Range.from_min_extent(0, 10)))
print(tvm.ir.Range(3).extent.value if hasattr(tvm.ir.Range(3).extent, "value") else tvm.ir.Range(3).extent)
s = tvm.ir.Range.from_min_extent(x, 4)
print(s.min.same_as(x), int(s.extent))
print(tvm.ir.structural_equal(x + 1, x + 1), tvm.ir.structural_equal(x + 1, x + 2))
y = tir.Var("y", "int32")
print(tvm.ir.structural_equal(x + 1, y + 1), tvm.ir.structural_equal(x + 1, y + 1, map_free_vars=True))
print(tvm.ir.structural_hash(x + 1) == tvm.ir.structural_hash(x + 1))
