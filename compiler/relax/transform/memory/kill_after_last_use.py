"""Free a function's memory before its end, once the function no longer needs it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from compiler.ir.base import Op, RelaxExpr
from compiler.ir.module import IRModule
from compiler.ir.transform.context import PassContext
from compiler.ir.visit import walk
from compiler.relax import nodes as r
from compiler.relax.nodes.renew import Renewal
from compiler.relax.op.execution.memory import memory_kill_storage, memory_kill_tensor, vm_kill_object
from compiler.relax.transform.memory.lifetimes import holds_arrays
from compiler.relax.transform.passes import relax_pass

_STORAGE, _TENSOR, _VIEW = "relax.memory.alloc_storage", "relax.memory.alloc_tensor", "relax.reshape"


@relax_pass("KillAfterLastUse", over="function", opt_level=1)
def kill_after_last_use(func: r.Function, mod: IRModule, context: PassContext) -> r.Function:
    """Forget storages, arrays and other objects after their last use, so that their memory is free again.

    storage = R.memory.alloc_storage(…)             storage = R.memory.alloc_storage(…)
    a = R.memory.alloc_tensor(storage, 0, …)   →    a = R.memory.alloc_tensor(storage, 0, …)
    _ = cls.exp(x, a)                               _ = R.memory.kill_storage(storage)
    _ = cls.exp(a, b)                               _ = cls.exp(x, a)
    …                                               _ = cls.exp(a, b)
                                                    _ = R.memory.kill_tensor(a)

    An array keeps its storage alive. Arrays that share a storage are not forgotten one by one: that frees nothing.
    """
    if func.body is None:
        return func
    shared = Counter(
        node.args[0] for node in walk(func.body) if isinstance(node, r.Call) and _name(node) == _TENSOR
    )  # storages, by how many arrays they have
    return _Kills({var for var, count in shared.items() if count > 1}).function(func)


class _Kills(Renewal):
    """Puts the ends of objects behind their last uses."""

    def __init__(self, shared: set[RelaxExpr]) -> None:
        super().__init__()
        self._shared = shared
        self._frees: dict[r.Var, bool] = {}  # whether forgetting the value of a variable frees memory
        self._roots: dict[r.Var, r.Var] = {}  # a variable that is another's name

    def expr(self, expr: RelaxExpr) -> RelaxExpr:
        return self._sequence(expr) if isinstance(expr, r.SeqExpr) else super().expr(expr)

    def _sequence(self, seq: r.SeqExpr) -> r.SeqExpr:
        blocks = [(block, [self.binding(binding) for binding in block.bindings]) for block in seq.blocks]
        bindings = [binding for _, made in blocks for binding in made]
        ends = self._ends(bindings, seq.body)
        if not ends and all(a is b for block, made in blocks for a, b in zip(block.bindings, made)):
            return seq
        found = []
        position = 0
        for block, made in blocks:
            kept: list[r.Binding] = []
            for binding in made:
                kept.append(binding)
                kept += [_forgotten(kill, var) for kill, var in ends.get(position, ())]
                position += 1
            found.append(type(block)(tuple(kept), block.span))
        result = r.SeqExpr(tuple(found), seq.body, seq.span)
        if seq.struct_info_ is not None:
            r.set_struct_info(result, seq.struct_info_)
        return result

    def _ends(
        self, bindings: list[r.Binding], body: RelaxExpr
    ) -> dict[int, list[tuple[Callable[[r.Var], r.Call], r.Var]]]:
        """Return what is forgotten after which binding."""
        kills: dict[r.Var, Callable[[r.Var], r.Call]] = {}
        last: dict[r.Var, int] = {}
        for position, binding in enumerate(bindings):
            for node in walk(binding.value):
                if isinstance(node, r.Var):
                    last[self._root(node)] = position
            if isinstance(binding.value, r.Var) and not isinstance(binding, r.MatchCast):
                self._roots[binding.var] = self._root(binding.value)
                continue
            self._frees[binding.var] = self._is_freed(binding.value)
            last[binding.var] = position
            kill = _kill(binding)
            if kill is not None and self._frees[binding.var]:
                kills[binding.var] = kill
        for node in walk(body):
            if isinstance(node, r.Var):
                kills.pop(self._root(node), None)
        found: dict[int, list[tuple[Callable[[r.Var], r.Call], r.Var]]] = {}
        for var, kill in kills.items():
            found.setdefault(last[var], []).append((kill, var))
        return found

    def _root(self, var: r.Var) -> r.Var:
        return self._roots.get(var, var)

    def _is_freed(self, value: RelaxExpr) -> bool:
        """Whether forgetting a value may free memory.
        It does not if something else holds the value until the function ends."""
        match value:
            case r.Call() if _name(value) == _TENSOR:
                return value.args[0] not in self._shared
            case r.Call() if _name(value) == _VIEW:
                return self._is_freed(value.args[0])
            case r.Call() | r.If():
                return True
            case r.Var():
                return self._frees.get(self._root(value), False)
            case r.Tuple():
                return any(map(self._is_freed, value.fields))
            case r.TupleGetItem():
                return self._is_freed(value.tuple_value)
        return False


def _name(call: r.Call) -> str:
    return call.op.name if isinstance(call.op, Op) else ""


def _kill(binding: r.Binding) -> Callable[[r.Var], r.Call] | None:
    """Return the call that frees the value of a binding; None if there is nothing to free."""
    value, info = binding.value, binding.var.struct_info_
    if isinstance(value, r.Call) and _name(value) in (_STORAGE, _TENSOR):
        return memory_kill_storage if _name(value) == _STORAGE else memory_kill_tensor
    return vm_kill_object if holds_arrays(info) else None


def _forgotten(kill: Callable[[r.Var], r.Call], var: r.Var) -> r.VarBinding:
    call = kill(var)
    r.set_struct_info(call, r.TupleStructInfo(()))
    return r.VarBinding(r.Var("_", r.TupleStructInfo(())), call)
