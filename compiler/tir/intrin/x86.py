"""Tensor intrinsics of x86 on vectors: products of groups of narrow elements. Those on tiles are in `amx`.

For all i of `lanes` and k of `group`:

    C[i] += Σ_k A[k] * B[i, k]

| name | sums | A, B | instruction |
| `dot_16x4_vnni`, `dot_8x4_vnni` | 16, 8 int32 | 4 uint8, int8 | vpdpbusd |
| `dot_16x2_bf16` | 16 float32 | 2 bfloat16 | vdpbf16ps |
| `dot_16x2_int16`, `dot_8x2_int16` | 16, 8 int32 | 2 int16 | vpmaddwd and an addition, or vpdpwssd |

Where each sum has numbers of its own (depthwise), rows of A and B may lie apart. For all i of `lanes` and k of 3:

    C[i] += Σ_k A[k, 0, i] * B[k, 0, 0, i]

| name | sums | A, B | instruction |
| `columns_16x3_vnni`, `columns_8x3_vnni` | 16, 8 int32 | 3 uint8, int8 | vpdpbusd |

`turn_16_bfloat16` and its kin make groups of 16 columns that lie as rows: D[k, j, g] = S[j, 2 k + g] (or 4 k + g).
For `turn_16_bfloat16_apart` another dimension lies between them and the reduction: S[j, 0, 2 k + g].
"""

from __future__ import annotations

from functools import partial

from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.intrin.amx import TILE, turning
from compiler.tir.intrin.group_products import Indices, at, buffers_of, described, function, implemented, whole
from compiler.tir.intrin.intrin import call
from compiler.tir.intrin.tensor_intrin import TensorIntrin

COLUMN, GROUP = 3, 4  # numbers of a column, and of the group that it is made
TURNED = {"bfloat16": 2, "int16": 2, "int8": 4, "uint8": 4}
"""The dtypes whose columns can be made groups, and how many of them are a word of 32 bits."""
TURNED_BETWEEN = (0, 1)
"""How many dimensions may lie between columns and the reduction then."""


def turn_name(dtype: str, between: int) -> str:
    """The name of the intrinsic that makes groups of columns, with so many dimensions `between`."""
    return f"turn_{TILE}_{dtype}{'_apart' if between else ''}"


def _vectors(op: str, lanes: int, group: int, dtypes: tuple[str, str, str]) -> TensorIntrin:
    loops = {"i": lanes, "k": group}
    indices: Indices = ((at(k=1),), (at(i=1), at(k=1)), (at(i=1),))
    desc = described(loops, indices, buffers_of(loops, indices, dtypes))
    return TensorIntrin(desc, implemented(op, buffers_of(loops, indices, dtypes)))


def _columns(lanes: int) -> TensorIntrin:
    """The intrinsic for sums with a column of three bytes each. Three rows of bytes are shuffled to groups of four: to
    those of B come zeros, so that the fourth of A may be anything."""
    loops = {"i": lanes, "k": COLUMN}
    indices: Indices = ((at(k=1), at(), at(i=1)), (at(k=1), at(), at(), at(i=1)), (at(i=1),))
    dtypes = ("uint8", "int8", "int32")

    def groups(buffer: n.Buffer, *more: n.PrimExpr) -> n.Shuffle:
        zeros, ramp = [ops.const(0)] * (len(buffer.shape) - 2), n.Ramp(ops.const(0), ops.const(1), lanes)
        rows = (*(n.BufferLoad(buffer, (ops.const(row), *zeros, ramp)) for row in range(COLUMN)), *more)
        order = [min(row, len(rows) - 1) * lanes + lane for lane in range(lanes) for row in range(GROUP)]
        return n.Shuffle(rows, tuple(map(ops.const, order)))

    a, b, c = own = buffers_of(loops, indices, dtypes)
    total = whole(c)
    value = call("tir.x86_dpbusd", total.dtype, total, groups(a), groups(b, n.Broadcast(ops.const(0, "int8"), lanes)))
    impl = function("impl", own, n.BufferStore(c, value, total.indices))
    return TensorIntrin(described(loops, indices, buffers_of(loops, indices, dtypes)), impl)


_BYTES, _WORDS = ("uint8", "int8", "int32"), ("int16", "int16", "int32")
for _name, _make in {
    "dot_16x4_vnni": partial(_vectors, "x86_dpbusd", 16, 4, _BYTES),
    "dot_8x4_vnni": partial(_vectors, "x86_dpbusd", 8, 4, _BYTES),
    "columns_16x3_vnni": partial(_columns, 16),
    "columns_8x3_vnni": partial(_columns, 8),
    "dot_16x2_bf16": partial(_vectors, "x86_dpbf16ps", 16, 2, ("bfloat16", "bfloat16", "float32")),
    "dot_16x2_int16": partial(_vectors, "x86_pmaddwd", 16, 2, _WORDS),
    "dot_8x2_int16": partial(_vectors, "x86_pmaddwd", 8, 2, _WORDS),
}.items():
    TensorIntrin.declare(_name, _make)
for _dtype, _group in TURNED.items():
    for _between in TURNED_BETWEEN:
        TensorIntrin.declare(turn_name(_dtype, _between), partial(turning, _dtype, _group, _between))
