"""Paths from an object to its parts: how they are made, compared and followed."""

import tvm
from tvm import tir
from tvm.runtime import ObjectPath

root = ObjectPath.root()
path = root.attr("body").array_index(2).map_value("k")
print(len(root), len(path), bool(path.parent == root.attr("body").array_index(2)))
print(bool(root.is_prefix_of(path)), bool(path.is_prefix_of(root)), bool(path.get_prefix(2) == root.attr("body")))
print(bool(path == root.attr("body").array_index(2).map_value("k")), bool(path == root.attr("body")))

x = tir.Var("x", "int32")
found = tvm.ir.base.get_first_structural_mismatch(x + 1, x + 2)
left, right = found
print(bool(left == root.attr("b").attr("value")), bool(left == right))
print(tvm.ir.base.get_first_structural_mismatch(x + 1, x + 1))
try:
    tvm.ir.assert_structural_equal(x + 1, x + 2)
except ValueError:
    print("ValueError")
