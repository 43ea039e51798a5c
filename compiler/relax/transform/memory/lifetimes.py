"""How long the arrays of a function live: from their allocation to their last read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from compiler.ir.base import GlobalVar, Op, RelaxExpr
from compiler.ir.module import IRModule
from compiler.ir.visit import walk
from compiler.relax import nodes as r
from compiler.relax.analysis.joined_parts import JOINED_PARTS, Join
from compiler.tir import nodes as n

Held = frozenset[int] | tuple[Any, ...]
"""The arrays, by number, that a value may lie in; of a tuple, field by field."""
_NOTHING: frozenset[int] = frozenset()
ALLOC = "relax.builtin.alloc_tensor"


@dataclass(slots=True)
class Lifetime:
    """An array that `builtin.alloc_tensor` makes: in use from the binding `begin` to the binding `end`.

    `escapes`: it may be seen after the function has returned, or somewhere that this analysis does not look.
    """

    var: r.Var
    call: r.Call
    begin: int
    end: int
    branches: tuple[tuple[int, bool], ...]
    escapes: bool = False


@dataclass(slots=True)
class Lifetimes:
    """The arrays of one function, and the calls that join some.
    Expects kernels that are called with the arrays of their results."""

    mod: IRModule
    arrays: list[Lifetime] = field(default_factory=list)
    joins: dict[r.Var, Join[int]] = field(default_factory=dict)
    _held: dict[r.Var, Held] = field(default_factory=dict)
    _now: int = 0
    _conditions: int = 0
    _written: set[int] = field(default_factory=set)

    @staticmethod
    def of(func: r.Function, mod: IRModule) -> Lifetimes:
        """Return the arrays that `func` makes, in order, and the calls that join some.
        The calls are given by the variables that they bind."""
        found = Lifetimes(mod)
        found._escape(found._sequence(func.body, ()))
        return found

    def _sequence(self, seq: r.SeqExpr, branches: tuple[tuple[int, bool], ...]) -> Held:
        for block in seq.blocks:
            for binding in block.bindings:
                self._now += 1
                self._held[binding.var] = self._value(binding, branches)
        return self._of(seq.body)

    def _value(self, binding: r.Binding, branches: tuple[tuple[int, bool], ...]) -> Held:
        value = binding.value
        match value:
            case r.Call(op=Op(name=name)) if name == ALLOC:
                self.arrays.append(Lifetime(binding.var, value, self._now, self._now, branches))
                return frozenset({len(self.arrays) - 1})
            case r.Call():
                self._note_join(binding.var, value)
                return self._call(value)
            case r.If():
                self._use(self._of(value.cond))
                self._conditions += 1
                condition = self._conditions
                yes = self._sequence(value.true_branch, (*branches, (condition, True)))
                no = self._sequence(value.false_branch, (*branches, (condition, False)))
                self._now += 1
                return _either(yes, no)
            case r.SeqExpr():
                return self._sequence(value, branches)
            case r.Function():
                for var in walk(value):
                    if isinstance(var, r.Var):
                        self._escape(self._held.get(var, _NOTHING))
                return _NOTHING
        return self._of(value)

    def _of(self, expr: RelaxExpr) -> Held:
        """Return the arrays in which the value of a leaf, a tuple or a field lies."""
        match expr:
            case r.Var():
                return self._held.get(expr, _NOTHING)
            case r.Tuple():
                return tuple([self._of(item) for item in expr.fields])
            case r.TupleGetItem():
                held = self._of(expr.tuple_value)
                return held[expr.index] if isinstance(held, tuple) else held
        return _NOTHING

    def _call(self, call: r.Call) -> Held:
        args = frozenset().union(*[_flat(self._of(arg)) for arg in call.args])
        if isinstance(call.op, GlobalVar) and isinstance(self.mod.get(call.op), n.PrimFunc):
            self._write(args)
        elif isinstance(call.op, Op):
            self._operator(call, call.op.name, args)
        elif isinstance(call.op, r.ExternFunc) and not holds_arrays(r.info_of(call)) and not args <= self._written:
            self._write(args)  # an array that nothing was written into yet is the function's result
        else:
            self._escape((args, self._of(call.op)))
        return args if holds_arrays(r.info_of(call)) else _NOTHING

    def _note_join(self, var: r.Var, call: r.Call) -> None:
        """Note a call of a kernel that concatenates arrays, if these are known."""
        func = self.mod.get(call.op) if isinstance(call.op, GlobalVar) else None
        sizes = func.attrs.get(JOINED_PARTS) if isinstance(func, n.PrimFunc) else None
        held = [self._of(arg) for arg in call.args]
        if sizes is not None and all(isinstance(item, frozenset) and len(item) == 1 for item in held):
            *parts, whole = [number for item in held for number in item]
            self.joins[var] = Join(whole, tuple(parts), tuple(map(int, sizes)))

    def _operator(self, call: r.Call, name: str, args: frozenset[int]) -> None:
        self._use(args)
        if name == "relax.call_builtin_with_ctx":
            callee = call.args[0]
            known = isinstance(callee, r.ExternFunc) and callee.global_symbol == "vm.builtin.call_tir_dyn"
            self._write(args) if known else self._escape(args)
        elif name == "relax.make_closure":
            self._escape(args)

    def _write(self, arrays: frozenset[int]) -> None:
        self._use(arrays)
        self._written |= arrays

    def _use(self, held: Held) -> None:
        for number in _flat(held):
            self.arrays[number].end = self._now

    def _escape(self, held: Held) -> None:
        self._use(held)
        for number in _flat(held):
            self.arrays[number].escapes = True


def _flat(held: Held) -> frozenset[int]:
    return held if isinstance(held, frozenset) else frozenset().union(*map(_flat, held))


def _either(a: Held, b: Held) -> Held:
    if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
        return tuple([_either(x, y) for x, y in zip(a, b)])
    return _flat(a) | _flat(b)


def holds_arrays(info: r.StructInfo | None) -> bool:
    """Whether a value with this StructInfo may be, or hold, an array."""
    match info:
        case r.TupleStructInfo():
            return any(map(holds_arrays, info.fields))
        case None | r.TensorStructInfo() | r.ObjectStructInfo() | r.FuncStructInfo():
            return True
    return False
