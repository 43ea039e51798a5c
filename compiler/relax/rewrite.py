"""Change a dataflow block binding by binding; the original stays as it was."""

from __future__ import annotations

from typing import Any

from compiler.errors import IRError
from compiler.ir.base import Node
from compiler.ir.module import IRModule
from compiler.ir.visit import walk
from compiler.relax import nodes as r
from compiler.relax.block_builder import BlockBuilder
from compiler.relax.names import FreshNames
from compiler.relax.nodes.base import set_struct_info
from compiler.relax.nodes.renew import Renewal
from compiler.relax.normalize import Normalizer
from compiler.te.where import here


class DataflowBlockRewrite:
    """Rewrites a dataflow block of a function by its bindings.

    Nothing is changed in place: `mutated_dfb` and `mutated_root_fn` are new, `mutate_irmodule` gives a new module.
    """

    def __init__(self, dfb: r.DataflowBlock, root_fn: r.Function) -> None:
        """A rewriter of `dfb`, a block of the function `root_fn`.
        Raises IRError if it is no block of it."""
        if not isinstance(root_fn, r.Function) or root_fn.body is None:
            raise IRError(f"root_fn is {root_fn!r} ({type(root_fn).__name__}), no function with a body{here()}")
        if not any(block is dfb for block in root_fn.body.blocks):
            raise IRError(f"the block is none of the blocks of the function{here()}")
        self._original = root_fn
        self._block = dfb
        self._body = root_fn.body
        self._names = FreshNames()
        for node in walk(root_fn):
            if isinstance(node, r.Binding):
                self._names.take(node.var.name_hint)
        for param in root_fn.params:
            self._names.take(param.name_hint)
        self._count = 0

    def replace_all_uses(self, old_var: r.Var, new_var: r.Var) -> None:
        """Replace every use of `old_var`, in the block and after it, by `new_var`.
        The definition stays."""
        for var in (old_var, new_var):
            if not isinstance(var, r.Var):
                raise IRError(f"replace_all_uses is given {r.describe(var)}, no variable{here()}")
        renewal = _Uses({old_var: new_var})
        self._set(renewal.block(self._block), renewal)

    def add(self, expr: Any, name: str | None = None, is_dfvar: bool = False) -> None:
        """Bind `expr` at the end of the block, to a variable called `name`, or tmp and a number.

        With `is_dfvar` it is seen only inside of the block; else it is an output of it.
        """
        builder = BlockBuilder()
        builder.begin_scope(self._original.params)
        builder._begin_dataflow_block()
        value = Normalizer(builder).value(r.convert_to_expr(expr))
        nested = builder._end_block().bindings
        builder.end_scope()
        info = r.info_of(value)
        assert info is not None
        if name is None:
            name = self._fresh()
        var = (r.DataflowVar if is_dfvar else r.Var)(name, info)
        self._names.take(name)
        self._set(r.DataflowBlock((*self._block.bindings, *nested, r.VarBinding(var, value)), self._block.span))

    def _fresh(self) -> str:
        while True:
            name = f"tmp{self._count}"
            self._count += 1
            if name not in self._names:
                return name

    def remove_unused(self, var: r.Var, allow_undef: bool = False) -> None:
        """Remove the binding of `var`. Raises TVMError where something uses it.

        With `allow_undef`, a variable that the block does not define is left alone; else that is an error, too.
        """
        kept = [binding for binding in self._block.bindings if binding.var is not var]
        if len(kept) == len(self._block.bindings):
            if allow_undef:
                return
            raise IRError(f"the block does not define the variable {var.name_hint}{here()}")
        if any(node is var for node in self._uses()):
            raise IRError(f"the variable {var.name_hint} is used, so it cannot be removed{here()}")
        self._set(r.DataflowBlock(tuple(kept), self._block.span))

    def remove_all_unused(self) -> None:
        """Remove every binding of the block that nothing uses, or only removed bindings use."""
        used = {node for node in self._outside() if isinstance(node, r.Var)}
        kept: list[r.Binding] = []
        for binding in reversed(self._block.bindings):
            if binding.var in used:
                used.update(node for node in walk(binding.value) if isinstance(node, r.Var))
                kept.append(binding)
        self._set(r.DataflowBlock(tuple(reversed(kept)), self._block.span))

    def _uses(self) -> list[Node]:
        inside = [node for binding in self._block.bindings for node in walk(binding.value)]
        return inside + self._outside()

    def _outside(self) -> list[Node]:
        """Return what the function mentions outside of the block."""
        others = [node for block in self._body.blocks if block is not self._block for node in walk(block)]
        return others + list(walk(self._body.body))

    def _set(self, block: Any, renewal: Renewal | None = None) -> None:
        """Put `block` in the place of the current one; `renewal` copies what follows it."""
        position = next(i for i, own in enumerate(self._body.blocks) if own is self._block)
        after = self._body.blocks[position + 1 :]
        body = self._body.body
        if renewal is not None:
            after = tuple([renewal.block(own) for own in after])
            body = renewal.expr(body)
        made = r.SeqExpr((*self._body.blocks[:position], block, *after), body, self._body.span)
        if self._body.struct_info_ is not None:
            set_struct_info(made, self._body.struct_info_)
        self._body, self._block = made, block

    def mutated_dfb(self) -> r.DataflowBlock:
        """The block as it is now."""
        return self._block

    def mutated_root_fn(self) -> r.Function:
        """The function with the block as it is now."""
        old = self._original
        return r.Function(old.params, self._body, old.ret_struct_info, old.is_pure, old.attrs, old.span)

    def mutate_irmodule(self, irmodule: IRModule) -> IRModule:
        """A module with the new function in the place of the old.
        Raises IRError where the old one is not in it."""
        functions = dict(irmodule.functions)
        found = [gvar for gvar, func in functions.items() if func is self._original]
        if not found:
            raise IRError(f"the module does not have the function that is rewritten{here()}")
        functions[found[0]] = self.mutated_root_fn()
        return irmodule.with_functions(functions)


class _Uses(Renewal):
    """Copies with uses replaced, and definitions left alone."""

    def define(self, var: r.Var) -> r.Var:
        return var
