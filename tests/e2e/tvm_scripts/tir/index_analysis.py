"""Indices taken apart, and the regions that they reach."""

import tvm
from tvm import arith, te, tir

x, y, z = te.var("x"), te.var("y"), te.var("z")
domains = {x: tvm.ir.Range(0, 16), y: tvm.ir.Range(0, 8), z: tvm.ir.Range(0, 3)}


def value(expr, i, j, k):
    found = tir.stmt_functor.substitute(expr, {x: tir.IntImm("int32", i), y: tir.IntImm("int32", j), z: tir.IntImm("int32", k)})
    return int(arith.Analyzer().simplify(found))


mappings = {
    "fused": [x * 24 + y * 3 + z],
    "split": [x // 4, x % 4, y, z],
    "fused and split": [(x * 8 + y) // 4, (x * 8 + y) % 4, z],
    "three": [(x * 24 + y * 3 + z) // 6, (x * 24 + y * 3 + z) % 6 // 2, (x * 24 + y * 3 + z) % 2],
    "other order": [y * 48 + x * 3 + z],
    "twice": [x, x],
    "strided": [x * 2, y],
    "part": [x // 4, y],
    "overlapping": [x * 8 + y, x],
    "offset": [x * 8 + y + 3, z],
}
for name, indices in mappings.items():
    for level in ("bijective", "surjective", "nocheck"):
        result = arith.detect_iter_map(indices, domains, True, level)
        print(name, level, len(result.indices), len(result.errors) > 0)
        for index, found in zip(indices, result.indices):
            expr = arith.normalize_iter_map_to_expr(found)
            points = [(0, 0, 0), (5, 3, 1), (15, 7, 2), (8, 0, 2)]
            print("  ", [value(expr, *p) for p in points], [value(expr, *p) == value(index, *p) for p in points].count(True))

span = tvm.ir.Range.from_min_extent
five, three = tvm.ir.Range(0, 5), tvm.ir.Range(0, 3)


def shown(sets):
    return [(int(s.min_value), int(s.max_value)) for s in sets]


print(shown(arith.estimate_region_lower_bound([span(x * 2, 3)], {x: five}, True)))
print(shown(arith.estimate_region_strict_bound([span(x * 2, 2)], {x: five}, True)))
print(shown(arith.estimate_region_upper_bound([span(x * 2 + y, 2)], {x: five, y: three}, True)))
print(shown(arith.estimate_region_lower_bound([span(x * 2, 2), span(y, 1)], {x: five, y: three}, x < 3)))
print(shown([arith.IntSet.single_point(3), arith.IntSet.vector(tir.Ramp(0, 2, 4))]))
print(bool(arith.IntSet.single_point(3).is_nothing()), bool(arith.IntSet.single_point(3).is_everything()))
