"""One entry for several kernels, as LLVM IR text.

It looks at the sizes of a call and jumps to the kernel for them.

Kernels are reached by their packed entries with the caller's own array of slots, so nothing is copied. Sizes are the
slots behind the arguments; kernels made for constant sizes do not look at those.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from itertools import count

from compiler.artifact import NO_KERNEL, ArgSpec
from compiler.codegen.llvm.types import llvm_type
from compiler.errors import CodegenError
from compiler.python_text import parsed_expression
from compiler.size_rule import Size, SizeRule, SizeTest, Tree

_OPERATIONS: dict[type[ast.operator], str] = {ast.Add: "add", ast.Mult: "mul", ast.FloorDiv: "udiv", ast.Mod: "urem"}


def dispatch_text(
    symbol: str, args: Sequence[ArgSpec], sizes: Sequence[tuple[str, str]], rule: SizeRule, kernels: Sequence[str]
) -> str:
    """LLVM IR of the entry `symbol` and its packed form over the kernels with these symbols.

    `sizes` are the names and dtypes of the slots behind the arguments; the rule's symbols are among them. The entry
    returns NO_KERNEL if the rule picks a place where no kernel is. Raises CodegenError for a rule over something else.
    """
    names = [name for name, _ in sizes]
    if missing := [name for name in rule.symbols if name not in names]:
        raise CodegenError(f"the rule goes by {missing[0]}, which is no size of {symbol}")
    writer = _Writer(rule, kernels)
    lines = [f'define i32 @"{symbol}_packed"(ptr %slots) #0 {{', "entry:"]
    for name, value in writer.sizes.items():
        slot = len(args) + names.index(name)
        lines += [f"  {value}.at = getelementptr i64, ptr %slots, i64 {slot}", f"  {value} = load i64, ptr {value}.at"]
    lines += [*writer.body(), "}", "", *_typed(symbol, args, sizes)]
    declared = [f'declare i32 @"{kernel}_packed"(ptr)' for kernel in dict.fromkeys(kernels)]
    return "\n".join([*declared, "", *lines, "attributes #0 = { nounwind }", ""])


def _typed(symbol: str, args: Sequence[ArgSpec], sizes: Sequence[tuple[str, str]]) -> list[str]:
    """The C entry: the arguments in order, then the sizes."""
    types = ["ptr" if arg.shape is not None else llvm_type(arg.dtype) for arg in args]
    types += [llvm_type(dtype) for _, dtype in sizes]
    given = ", ".join(f"{kind} %a{at}" for at, kind in enumerate(types))
    lines = [f'define void @"{symbol}"({given}) #0 {{', "entry:", f"  %slots = alloca [{len(types)} x i64], align 8"]
    for at, kind in enumerate(types):
        value = f"%a{at}"
        if kind not in ("ptr", "i64"):
            if not kind.startswith("i"):
                raise CodegenError(f"argument {at} of {symbol}: a {kind} scalar cannot be passed on by a dispatch")
            lines.append(f"  %w{at} = sext {kind} {value} to i64")
            kind, value = "i64", f"%w{at}"
        lines += [f"  %s{at} = getelementptr i64, ptr %slots, i64 {at}", f"  store {kind} {value}, ptr %s{at}"]
    return [*lines, f'  %code = call i32 @"{symbol}_packed"(ptr %slots)', "  ret void", "}", ""]


class _Writer:
    """The blocks of one packed entry."""

    def __init__(self, rule: SizeRule, kernels: Sequence[str]) -> None:
        self._rule, self._kernels = rule, kernels
        self.sizes = {symbol: f"%size{at}" for at, symbol in enumerate(rule.symbols)}
        """What holds each symbol's value; symbols' own names may be those of labels here."""
        self._numbers = count()
        self._used: set[int] = set()

    def body(self) -> list[str]:
        """The code behind the loads of the sizes."""
        tree = self._tree(self._rule.tree, "tree")
        lines = self._switch(dict(self._rule.known), 0, "")
        return [*lines, *tree, *(line for pick in sorted(self._used) for line in self._call(pick))]

    def _switch(self, known: Mapping[Size, int], axis: int, label: str) -> list[str]:
        """Part the known sizes by one symbol after the other."""
        here = self.sizes[self._rule.symbols[axis]]
        begin = [f"{label}:"] if label else []
        if axis == len(self._rule.symbols) - 1:
            cases = [f"i64 {size[axis]}, label %{self._leaf(pick)}" for size, pick in sorted(known.items())]
            return [*begin, f"  switch i64 {here}, label %tree [ {' '.join(cases)} ]"]
        groups: dict[int, dict[Size, int]] = {}
        for size, pick in known.items():
            groups.setdefault(size[axis], {})[size] = pick
        labels = {extent: f"s{next(self._numbers)}" for extent in sorted(groups)}
        cases = [f"i64 {extent}, label %{labels[extent]}" for extent in labels]
        lines = [*begin, f"  switch i64 {here}, label %tree [ {' '.join(cases)} ]"]
        for extent, inner in labels.items():
            lines += self._switch(groups[extent], axis + 1, inner)
        return lines

    def _tree(self, tree: Tree, label: str) -> list[str]:
        if not isinstance(tree, SizeTest):
            return [f"{label}:", f"  br label %{self._leaf(tree)}"]
        number = next(self._numbers)
        lines: list[str] = []
        value = self._value(parsed_expression(tree.value), lines)
        low, high = f"l{number}", f"h{number}"
        lines.append(f"  %c{number} = icmp sle i64 {value}, {tree.limit}")
        lines.append(f"  br i1 %c{number}, label %{low}, label %{high}")
        return [f"{label}:", *lines, *self._tree(tree.low, low), *self._tree(tree.high, high)]

    def _value(self, node: ast.expr, lines: list[str]) -> str:
        match node:
            case ast.Constant(value=int(value)):
                return str(value)
            case ast.Name(id=name):
                return self.sizes[name]
            case ast.BinOp(left, op, right) if type(op) in _OPERATIONS:
                a, b = self._value(left, lines), self._value(right, lines)
                result = f"%v{next(self._numbers)}"
                lines.append(f"  {result} = {_OPERATIONS[type(op)]} i64 {a}, {b}")
                return result
        raise CodegenError(
            f"a rule tests {ast.unparse(node)}, for which dispatches have no code", hint="they have +, *, // and %"
        )

    def _leaf(self, pick: int) -> str:
        self._used.add(pick if 0 <= pick < len(self._kernels) else -1)
        return f"k{pick}" if 0 <= pick < len(self._kernels) else "none"

    def _call(self, pick: int) -> list[str]:
        if pick < 0:
            return ["none:", f"  ret i32 {NO_KERNEL}"]
        call = f'  %r{pick} = tail call i32 @"{self._kernels[pick]}_packed"(ptr %slots)'
        return [f"k{pick}:", call, f"  ret i32 %r{pick}"]
