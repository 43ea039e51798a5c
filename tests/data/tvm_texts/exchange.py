"""Texts of ours that Apache TVM has read, kept as data.

`python -m tests.data.tvm_texts.exchange` writes `exchanged.json`: the kept programs of TVM 0.17 (`record.py`) and the
functions below, printed for 0.17 and for 0.27. `TVM_PYTHON exchange.py` then has a TVM of one of these versions read
the texts, and keeps beside them what it prints. `tests/e2e/compiler/test_tvm_texts.py` compares the functions.
"""

import json
import sys
from pathlib import Path

HERE = Path(__file__).parent
KEPT = HERE / "exchanged.json"

LOWERED = """
@T.prim_func
def lowered(a: T.handle, n: T.int32):
    T.func_attr({"global_symbol": "lowered", "tir.noalias": True})
    A = T.match_buffer(a, (16,), "float32")
    memory = T.allocate([16], "float32", "global")
    B = T.Buffer((16,), "float32", data=memory)
    for i in T.serial(16):
        if i < n:
            B[i] = A[i]
        else:
            B[i] = T.float32(0)
    for i in T.parallel(4):
        A[T.ramp(i * 4, 1, 4)] = B[T.ramp(i * 4, 1, 4)] + T.broadcast(T.float32(1), 4)
    T.evaluate(T.call_extern("int32", "foo", A.data, n))
"""
OPAQUE = """
@T.prim_func
def opaque(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16, 16), "float32")):
    T.func_attr({"global_symbol": "opaque"})
    for i, j in T.grid(4, 4):
        with T.block("tile"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(A[vi * 4 : vi * 4 + 4, vj * 4 : vj * 4 + 4])
            T.writes(B[vi * 4 : vi * 4 + 4, vj * 4 : vj * 4 + 4])
            T.block_attr({"number": 1, "text": "x"})
            s0 = T.int32()
            s1 = T.int32()
            offset = T.int32()
            part = T.match_buffer(
                A[vi * 4 : vi * 4 + 4, vj * 4 : vj * 4 + 4], (4, 4),
                strides=[s0, s1], elem_offset=offset, offset_factor=1,
            )
            C = T.alloc_buffer((4, 4), scope="shared")
            for ii, jj in T.grid(4, 4):
                with T.block("copy"):
                    vii, vjj = T.axis.remap("SS", [ii, jj])
                    T.where(ii < 3)
                    C[vii, vjj] = part[vii, vjj]
            for ii, jj in T.grid(4, 4):
                B[vi * 4 + ii, vj * 4 + jj] = C[ii, jj]
"""
LETS = """
@T.prim_func
def lets(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")):
    T.func_attr({"global_symbol": "lets"})
    t: T.int32 = A[0] + 1
    with T.LetStmt(t * 2) as y:
        B[0] = y
    k = T.env_thread("threadIdx.x")
    T.launch_thread(k, 16)
    T.attr(0, "pragma_x", 1)
    while B[0] < 10:
        B[0] = B[0] + 1
    B[1] = T.bitwise_and(t, 3) | (t << 2) ^ (t >> 1)
    B[2] = T.floordiv(t, 3) + T.floormod(t, 3) + T.truncdiv(t, 3) + T.truncmod(t, 3)
    B[3] = T.min(t, 3) + T.max(t, 4)
    B[4] = T.Cast("int32", t < 3)
    assert t > 0, "ValueError: positive"
    B[5] = t
"""


def write() -> None:
    import tunefarm as tvm

    functions = {name: tvm.script.from_source(text) for name, text in
                 (("lowered", LOWERED), ("opaque_tile", OPAQUE), ("lets", LETS))}  # fmt: skip
    for file in ("tvm_0_17.json", "scheduled_0_17.json"):
        for name, text in json.loads((HERE / file).read_text())["texts"].items():
            functions[name] = tvm.script.from_source(text if isinstance(text, str) else "\n".join(text))
    texts = {
        name: {
            "ours": {version: made.script(tvm_version=version).splitlines() for version in ("0.17", "0.27")},
            "theirs": {},
        }
        for name, made in functions.items()
    }
    KEPT.write_text(json.dumps(texts, indent=0) + "\n")


def read() -> int:
    import tvm

    version = "0.27" if not hasattr(tvm, "tir") else "0.17"
    texts = json.loads(KEPT.read_text())
    failed = 0
    for name, text in texts.items():
        try:
            text["theirs"][version] = tvm.script.from_source("\n".join(text["ours"][version])).script().splitlines()
        except Exception as error:
            failed += 1
            print(f"{name}: {type(error).__name__} {str(error)[-300:]}")
    KEPT.write_text(json.dumps(texts, indent=0) + "\n")
    print(f"TVM {tvm.__version__}: {len(texts) - failed} of {len(texts)} texts were read")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(write() if __package__ else read())
