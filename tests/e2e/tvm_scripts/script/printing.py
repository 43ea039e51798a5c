"""The options of `script()` and `show()`, and that texts are read back."""

import tvm
from tvm.script import ir as I
from tvm.script import tir as T


@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        T.func_attr({"tir.noalias": T.bool(True)})
        for i in range(8):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                B[vi] = A[vi] + T.float32(1)

    @T.prim_func(private=True)
    def helper(n: T.int32) -> T.int32:
        T.evaluate(n)


text = Module.script()
print("def main" in text, "def helper" in text, "private=True" in text)
again = tvm.script.from_source(text)
print(tvm.ir.structural_equal(again, Module), type(again).__name__)
main = Module["main"]
for options in (
    {"show_meta": True},
    {"syntax_sugar": False},
    {"indent_spaces": 2},
    {"print_line_numbers": True},
    {"num_context_lines": 3},
    {"int_dtype": "int64"},
    {"tir_prefix": "tir"},
    {"name": "renamed"},
):
    printed = main.script(**options)
    print(sorted(options), "def" in printed)
print(tvm.ir.structural_equal(tvm.script.from_source(main.script(show_meta=True)), main))
print("tir.Buffer" in main.script(tir_prefix="tir"), "  for i" in main.script(indent_spaces=2))
for wrong in ("def f(:", "@T.prim_func\ndef f(a: T.int33):\n    T.evaluate(0)\n", "1 + 1"):
    try:
        tvm.script.from_source(wrong)
        print("no error")
    except Exception:
        print("refused")
print(len(Module.functions), "main" in [g.name_hint for g in Module.get_global_vars()], Module.get_global_var("main").name_hint)
