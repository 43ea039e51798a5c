"""Which intrinsics have code of their own, and their functions in a module. docs/intrinsics.md states their errors."""

from __future__ import annotations

from collections.abc import Callable

from compiler.codegen import math_exp, math_log, math_trig
from compiler.codegen.gen import Gen, ModuleText
from compiler.codegen.math_body import MathBody
from compiler.codegen.types import bits_of, lanes_of

Define = Callable[..., str]

# Functions that have shorter code for arguments known not to exceed math_exp.SMALL.
OF_SMALL = {"exp": "exp_of_small"}

_BOTH: dict[str, Define] = {
    "exp": math_exp.exp, "exp2": math_exp.exp2, "exp10": math_exp.exp10, "tanh": math_exp.tanh,
    "sigmoid": math_exp.sigmoid, "log": math_log.log, "log2": math_log.log2, "log10": math_log.log10,
    "log1p": math_log.log1p,
}  # fmt: skip
_SINGLE: dict[str, Define] = {
    "erf": math_exp.erf, "sin": math_trig.sin, "cos": math_trig.cos, "tan": math_trig.tan, "pow": math_log.power,
}  # fmt: skip
_SHORTER: dict[str, Define] = {OF_SMALL["exp"]: math_exp.exp_of_small}
NAMES = (*_BOTH, *_SINGLE)


def math_call(g: Gen, name: str, dtype: str, args: list[str]) -> str | None:
    """`name` of float32 or float64 operands by our own code, or None where there is none for `dtype`."""
    define = _BOTH.get(name) or _SHORTER.get(name) or (_SINGLE.get(name) if bits_of(dtype) == 32 else None)
    if define is None:
        return None
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
