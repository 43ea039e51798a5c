"""Which intrinsics have code of their own, and their functions in a module.

docs/intrinsics.md states their errors.
"""

from __future__ import annotations

from collections.abc import Callable

from compiler.codegen.llvm.gen import Gen, ModuleText
from compiler.codegen.llvm.types import bits_of, lanes_of
from compiler.codegen.math import arc as math_arc
from compiler.codegen.math import exact as math_exact
from compiler.codegen.math import exp as math_exp
from compiler.codegen.math import log as math_log
from compiler.codegen.math import looked_up as math_looked_up
from compiler.codegen.math import pow64 as math_pow64
from compiler.codegen.math import scaled_exp as math_scaled_exp
from compiler.codegen.math import trig as math_trig
from compiler.codegen.math import trig64 as math_trig64
from compiler.codegen.math.body import MathBody

Define = Callable[..., str]

# Functions that have shorter code for arguments known not to exceed math_exp.SMALL.
OF_SMALL = {"exp": "exp_of_small"}

_BOTH: dict[str, Define] = {
    "exp": math_exp.exp, "exp2": math_exp.exp2, "exp10": math_exp.exp10, "sinh": math_exp.sinh, "cosh": math_exp.cosh,
    "tanh": math_exp.tanh, "sigmoid": math_exp.sigmoid, "erf": math_exp.erf, "log": math_log.log,
    "log2": math_log.log2, "log10": math_log.log10, "log1p": math_log.log1p, "asin": math_arc.asin,
    "acos": math_arc.acos, "atan": math_arc.atan, "atan2": math_arc.atan2,
}  # fmt: skip
_SINGLE: dict[str, Define] = {
    "sin": math_trig.sin, "cos": math_trig.cos, "tan": math_trig.tan, "pow": math_log.power, "fmod": math_exact.fmod,
    "hypot": math_exact.hypot,
}  # fmt: skip
NAMES = (*_BOTH, *_SINGLE)
# By width of a float: these, and what is called by another name or with other arguments than the intrinsic.
_BY_DTYPE: dict[int, dict[str, Define]] = {
    32: {**_BOTH, **_SINGLE, OF_SMALL["exp"]: math_exp.exp_of_small, "ldexp": math_exact.ldexp},
    64: {
        **_BOTH, "sin": math_trig64.sin, "cos": math_trig64.cos, "tan": math_trig64.tan,
        "pow": math_pow64.power, "hypot": math_exact.hypot64, "ldexp": math_exact.ldexp64,
        OF_SMALL["exp"]: math_exp.exp_of_small,
    },
}  # fmt: skip
# Instead, of float32 on a CPU with math_scaled_exp.FEATURES.
_SCALED: dict[str, Define] = {
    "exp": math_scaled_exp.exp, OF_SMALL["exp"]: math_scaled_exp.exp, "sigmoid": math_scaled_exp.sigmoid,
    "erf": math_looked_up.erf,
}  # fmt: skip


def math_call(g: Gen, name: str, dtype: str, args: list[str]) -> str | None:
    """Compute `name` of float32 or float64 operands by our own code.
    None if there is none for `dtype`."""
    define = _BY_DTYPE[bits_of(dtype)].get(name)
    if define is None:
        return None
    options = g.module.options
    if bits_of(dtype) == 32 and options.device is None and options.features >= math_scaled_exp.FEATURES:
        define = _SCALED.get(name, define)
    m = MathBody(dtype)
    symbol = f"@tunefarm.{name}.{f'v{m.lanes}' if lanes_of(dtype) > 1 else ''}f{m.bits}"
    _define(g.module, symbol, m, define, len(args))
    operands = ", ".join(f"{m.type} {a}" for a in args)
    return g.w.value(f"call {m.type} {symbol}({operands})", *args)


def _define(module: ModuleText, symbol: str, m: MathBody, define: Define, arguments: int) -> None:
    if symbol in module.defined:
        return
    module.defined.add(symbol)
    names = ["%x", "%y"][:arguments]
    result = define(m, *names)
    for name, declaration in m.declared.items():
        module.declare(name, declaration)
    head = f"define internal {m.type} {symbol}({', '.join(f'{m.type} {n}' for n in names)})"
    body = "\n".join(["entry:", *m.lines, f"  ret {m.type} {result}"])
    module.functions.append(f"{head} alwaysinline #0 {{\n{body}\n}}\n")
