"""Make functions of kernels that always use the same memory.

A GPU may record them and start them as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from compiler.ir.base import GlobalVar, Op, RelaxExpr
from compiler.ir.module import IRModule
from compiler.ir.transform.config import register_option, truth
from compiler.ir.transform.context import PassContext
from compiler.ir.visit import walk
from compiler.relax import nodes as r
from compiler.relax.names import FreshNames
from compiler.relax.nodes.dims import int64
from compiler.relax.nodes.renew import Renewal
from compiler.relax.nodes.symbols import symbols_in, symbols_set_by
from compiler.relax.op.execution.calls import call_builtin_with_ctx
from compiler.relax.transform.functions import make_function
from compiler.relax.transform.passes import relax_pass
from compiler.relax.transform.weights.inputs import NUM_INPUT
from compiler.relax.utils import copy_with_new_vars
from compiler.tir import nodes as n

_STORAGE, _TENSOR = "relax.memory.alloc_storage", "relax.memory.alloc_tensor"
_KILL_STORAGE, _KILL_TENSOR = "relax.memory.kill_storage", "relax.memory.kill_tensor"
_RESHAPE = "relax.reshape"
CAPTURED = "relax.rewrite_cuda_graph.capture_symbolic_vars"
LEAST_KERNELS = 2
"""Kernels from which on starting them as a whole can gain anything."""

USE_CUDA_GRAPH = register_option(
    "relax.backend.use_cuda_graph", "a truth value", "make functions of kernels in memory that stays", truth, False
)


@relax_pass("RewriteCUDAGraph")
def rewrite_cuda_graph(mod: IRModule, context: PassContext) -> IRModule:
    """Keep memory of known size between calls, and make functions of the kernels that use no other memory.

        def main(x):                                  def cuda_graph_alloc():
            s = R.memory.alloc_storage([64], …)           s = R.memory.alloc_storage([64], …)
            a = R.memory.alloc_tensor(s, 0, …)            return (s,)
            _ = cls.exp(x, a)                         def cuda_graph_capture(a, b):
            b = R.memory.alloc_tensor(s, 32, …)  →        _ = cls.exp(a, b)
            _ = cls.exp(a, b)                             _ = cls.exp(b, a)
            _ = cls.exp(b, a)                             return ()
            _ = cls.exp(a, out)                       def main(x):
            return out                                    s = get_cached_alloc(cls.cuda_graph_alloc, 0)[0]
                                                          …
                                                          run_or_capture(cls.cuda_graph_capture, (a, b), 0)
                                                          _ = cls.exp(a, out)

    The option "relax.backend.use_cuda_graph" asks for it. It comes after memory is planned (StaticPlanBlockMemory,
    LowerAllocTensor, KillAfterLastUse) and before VMBuiltinLower, as builds have it. Parameters behind the first
    "num_input" are weights, the same at every call. Some memory is left alone: what a function returns, or what
    anything but kernels and reshapes reads. The machine keeps memory for each thread that calls, and runs such a
    function like any other.

    The attribute "relax.rewrite_cuda_graph.capture_symbolic_vars" of a function names dimensions. Kernels whose shapes
    depend on them are taken as well, and the machine is told their values at every call. Storage must be of known size
    still, as the attribute "tir_var_upper_bound" makes it.
    """
    if not USE_CUDA_GRAPH.value(context):
        return mod
    functions = dict(mod.functions)
    names = FreshNames()
    for gvar in functions:
        names.take(gvar.name_hint)
    keys = 0
    for name, func in mod.items():
        if isinstance(func, r.Function) and func.body is not None:
            found = _Rewriter(mod, func, names, keys)
            functions[name] = found.made()
            functions.update(found.added)
            keys = found.key
    return mod.with_functions(functions)


def _name_of(value: RelaxExpr) -> str:
    return value.op.name if isinstance(value, r.Call) and isinstance(value.op, Op) else ""


@dataclass
class _Rewriter:
    """One function, all of whose blocks are plain."""

    mod: IRModule
    func: r.Function
    names: FreshNames
    key: int
    added: dict[GlobalVar, r.Function] = field(default_factory=dict)
    _storages: dict[r.Var, r.Binding] = field(default_factory=dict)
    _static: dict[r.Var, frozenset[r.Var]] = field(default_factory=dict)
    """Arrays, and tuples of them, that lie in the same place at every call: the storages that they lie in."""
    _captured: frozenset[n.Var] = frozenset()
    _region: list[r.Binding] = field(default_factory=list)
    _out: list[r.Binding] = field(default_factory=list)

    def made(self) -> r.Function:
        func = self.func
        if any(isinstance(block, r.DataflowBlock) for block in func.body.blocks):
            return func
        bindings = [binding for block in func.body.blocks for binding in block.bindings]
        count = func.attrs.get(NUM_INPUT)
        weights = func.params[int(count) :] if count is not None else ()
        wanted = set(map(str, func.attrs.get(CAPTURED) or ()))
        told = [symbol for param in func.params for symbol in symbols_set_by(param.struct_info)]
        self._captured = frozenset(symbol for symbol in told if symbol.name in wanted)
        self._find(bindings, weights)
        if not self._storages:
            return func
        self._cached_storages()
        for number, binding in enumerate(bindings):
            value = binding.value
            if binding.var in self._storages or (_name_of(value) == _KILL_STORAGE and value.args[0] in self._storages):  # type: ignore[attr-defined]
                continue
            if self._may_be_recorded(binding):
                self._region.append(binding)
                continue
            self._end_region(bindings[number:])
            self._out.append(self._renewal.binding(binding))
        self._end_region([])
        body = r.SeqExpr((r.BindingBlock(tuple(self._out)),), self._renewal.expr(func.body.body), func.body.span)
        return make_function(self.mod, func.params, body, func.is_pure, func.attrs, func.span)

    # ------------------------------------------------------------------------- what is static

    def _find(self, bindings: Sequence[r.Binding], weights: Sequence[r.Var]) -> None:
        """Storages of constant size whose arrays only kernels use, and these arrays."""
        self._static = {weight: frozenset() for weight in weights}
        for binding in bindings:
            value = binding.value
            if _name_of(value) == _STORAGE and _is_constant(value):
                self._storages[binding.var] = binding
            elif (storages := self._lies_in(value)) is not None:
                self._static[binding.var] = storages
        escaped: set[r.Var] = set()
        for binding in bindings:
            if not self._is_plain_use(binding):
                escaped.update(node for node in walk(binding.value) if isinstance(node, r.Var))
        escaped.update(node for node in walk(self.func.body.body) if isinstance(node, r.Var))
        gone = escaped.union(*[self._static.get(var, frozenset()) for var in escaped])
        self._storages = {var: binding for var, binding in self._storages.items() if var not in gone}
        self._static = {var: held for var, held in self._static.items() if held.isdisjoint(gone)}

    def _lies_in(self, value: RelaxExpr) -> frozenset[r.Var] | None:
        """The storages of an array, a view or a tuple of such; None for what may lie elsewhere."""
        match value:
            case r.Var():
                return self._static.get(value)
            case r.Tuple():
                held = [self._lies_in(item) for item in value.fields]
                known = [item for item in held if item is not None]
                return frozenset().union(*known) if held and len(known) == len(held) else None
            case r.TupleGetItem():
                return self._lies_in(value.tuple_value)
            case r.Constant():
                return frozenset()
            case r.Call() if _name_of(value) == _TENSOR and self._is_known(value):
                return frozenset({value.args[0]}) if value.args[0] in self._storages else None
            case r.Call() if _name_of(value) == _RESHAPE and self._is_known(value):
                return self._lies_in(value.args[0])
        return None

    def _is_known(self, value: RelaxExpr) -> bool:
        """Whether numbers in a call, shape or scalar are constants, or dimensions that the function names."""
        return _is_constant(value, self._captured)

    def _is_plain_use(self, binding: r.Binding) -> bool:
        """Whether a binding keeps none of its operands.
        A kernel keeps none, nor does what makes and frees arrays."""
        ends = _name_of(binding.value) in (_KILL_STORAGE, _KILL_TENSOR)
        return ends or binding.var in self._static or self._is_kernel(binding.value)

    def _is_kernel(self, value: RelaxExpr) -> bool:
        """Whether a value is the call of a kernel."""
        callee = value.op if isinstance(value, r.Call) else None
        return isinstance(callee, GlobalVar) and isinstance(self.mod.get(callee), n.PrimFunc)

    def _may_be_recorded(self, binding: r.Binding) -> bool:
        """Whether a binding is a kernel in static memory, or belongs to such."""
        value = binding.value
        if self._is_kernel(value):
            assert isinstance(value, r.Call)
            return all(self._lies_in(arg) is not None or self._is_known(arg) for arg in value.args)
        if binding.var in self._static:
            return True
        return _name_of(value) == _KILL_TENSOR and value.args[0] in self._static  # type: ignore[attr-defined]

    # ------------------------------------------------------------------------------ new functions

    def _cached_storages(self) -> None:
        """Make the storages in a function of their own, whose result is kept."""
        self._renewal = Renewal()
        made = list(self._storages.values())
        storages = tuple([binding.var for binding in made])
        alloc = self._add("cuda_graph_alloc", [], [r.VarBinding(b.var, b.value, b.span) for b in made], storages)
        kept = r.Var(f"{alloc.name_hint}_kept", r.TupleStructInfo(tuple([r.ObjectStructInfo()] * len(made))))
        self._out.append(r.VarBinding(kept, _builtin("get_cached_alloc", [alloc, self._number()], kept)))
        self._out += [r.VarBinding(var, r.TupleGetItem(kept, place)) for place, var in enumerate(storages)]

    def _end_region(self, rest: Sequence[r.Binding]) -> None:
        """Call a function of the collected bindings; if they are too few, keep them here."""
        region, self._region = self._region, []
        kernels = sum(self._is_kernel(binding.value) for binding in region)
        if kernels < LEAST_KERNELS:
            self._out += [self._renewal.binding(binding) for binding in region]
            return
        defined = {binding.var for binding in region}
        used = dict.fromkeys(node for b in region for node in walk(b.value) if isinstance(node, r.Var))
        later = {node for b in rest for node in walk(b.value) if isinstance(node, r.Var)}
        inputs = [var for var in used if var not in defined]
        outputs = tuple([binding.var for binding in region if binding.var in later])
        args: list[RelaxExpr] = [self._renewal.expr(var) for var in inputs]
        sizes = [r.ShapeExpr(symbols)] if (symbols := self._symbols_of(region, inputs)) else []
        params = [*inputs, *[r.Var("shape_expr", r.ShapeStructInfo(size.values)) for size in sizes]]
        func = self._add("cuda_graph_capture", params, region, outputs)
        infos = r.TupleStructInfo(tuple([var.struct_info for var in outputs]))
        result = r.Var(f"{func.name_hint}_result", infos)
        given = [func, r.Tuple((*args, *sizes)), self._number(), *sizes]
        self._out.append(r.VarBinding(result, _builtin("run_or_capture", given, result)))
        self._out += [r.VarBinding(var, r.TupleGetItem(result, place)) for place, var in enumerate(outputs)]

    def _symbols_of(self, region: Sequence[r.Binding], inputs: Sequence[r.Var]) -> tuple[n.Var, ...]:
        """The dimensions that kernels of a region, or its arguments, depend on."""
        found = [node for binding in region for node in walk(binding.value) if isinstance(node, n.Var)]
        infos = [var.struct_info for var in (*inputs, *[binding.var for binding in region])]
        return tuple(dict.fromkeys([*found, *[symbol for info in infos for symbol in symbols_in(info)]]))

    def _add(
        self, name: str, params: Sequence[r.Var], bindings: Sequence[r.Binding], outputs: tuple[r.Var, ...]
    ) -> GlobalVar:
        """Add a private function; its variables are its own."""
        renewal = Renewal(fresh=True)
        own = [renewal.define(var) for var in params]
        seq = r.SeqExpr((r.BindingBlock(tuple([renewal.binding(b) for b in bindings])),),
                      r.Tuple(tuple([renewal.expr(var) for var in outputs])))  # fmt: skip
        gvar = GlobalVar(self.names.unique(name))
        func = self.added[gvar] = copy_with_new_vars(make_function(self.mod, own, seq, False))
        r.set_struct_info(gvar, func.struct_info)
        return gvar

    def _number(self) -> r.PrimValue:
        self.key += 1
        return r.PrimValue(int64(self.key - 1))


def _builtin(name: str, args: Sequence[RelaxExpr], result: r.Var) -> r.Call:
    callee = r.ExternFunc(f"vm.builtin.cuda_graph.{name}")
    return call_builtin_with_ctx(callee, list(args), sinfo_args=result.struct_info)


def _is_constant(expr: RelaxExpr, known: frozenset[n.Var] = frozenset()) -> bool:
    """Whether numbers in a call, shape or scalar are constants, or depend on `known` dimensions alone."""
    match expr:
        case r.PrimValue():
            return _follows(expr.value, known)
        case r.ShapeExpr():
            return all(_follows(size, known) for size in expr.values)
        case r.Call():
            return all(_is_constant(arg, known) for arg in expr.args if isinstance(arg, r.PrimValue | r.ShapeExpr))
    return False


def _follows(value: n.PrimExpr, known: frozenset[n.Var]) -> bool:
    return all(node in known for node in walk(value) if isinstance(node, n.Var | n.BufferLoad | n.Call))
