"""Replacing a tile of computation by a tensor intrinsic: tensorize."""

from __future__ import annotations

from compiler.arith.analyzer import Analyzer
from compiler.ir.visit import replace
from compiler.schedule.analysis import tree
from compiler.schedule.analysis.copying import Copier, Places
from compiler.schedule.analysis.matching import Mismatch, match_body
from compiler.schedule.core.state import Illegal, StepEffect, block_path, realize_at, replaced
from compiler.schedule.core.step import primitive
from compiler.schedule.primitives.blockize import blockize
from compiler.tir import nodes as n
from compiler.tir.intrin import amx, x86  # noqa: F401  (they register intrinsics, so that recorded traces replay)
from compiler.tir.intrin.tensor_intrin import TensorIntrin, parameters
from compiler.tir.nodes import Stmt


@primitive("block|loop", attrs={"tensor_intrin": (str,), "preserve_unit_iters": (bool,)})
def tensorize(func: n.PrimFunc, target: n.Var | str, tensor_intrin: str, preserve_unit_iters: bool) -> StepEffect:
    """Replace a loop, or a block that holds loops, by a tensor intrinsic that does the same.

    The loop becomes a block first (`blockize`). Its body must equal the intrinsic's description: the same loops,
    and the same stores at the same distance from some start. The implementation replaces it; the init stays.

        for i_1, j_1, k_1 in 4, 4, 4:     →   block C_o: ...
          block C: C[vi, vj] += ...             body of the implementation, at C[vi_o*4:, vj_o*4:]
    """
    intrin = TensorIntrin.get(tensor_intrin, allow_missing=True)
    if intrin is None:
        raise Illegal(f"there is no tensor intrinsic {tensor_intrin[:60]!r}", target, hint="TensorIntrin.register it")
    name = target
    if isinstance(target, n.Var):
        effect = blockize(func, target, preserve_unit_iters=preserve_unit_iters)
        func, [made] = effect.func, effect.outputs
        assert isinstance(made, str)
        name = made
    assert isinstance(name, str)
    path = block_path(func, name)
    realize = realize_at(path)
    if len(path) == 1:
        raise Illegal("the root block cannot be tensorized", name)
    root = intrin.desc.body
    assert isinstance(root, n.BlockRealize)
    analyzer = Analyzer()
    for iv in realize.block.iter_vars:
        if iv.dom is not None:
            analyzer.bind(iv.var, iv.dom)
    try:
        starts, buffers = match_body(analyzer, root.block.body, realize.block.body)
        missing = [b.name for b in parameters(intrin.desc) if b not in buffers]
        if missing:
            raise Mismatch(f"the description never uses its argument {missing[0]!r}")
    except Mismatch as differs:
        raise Illegal(
            f"block {name!r} is not what {tensor_intrin!r} describes: {differs}",
            target,
            hint="split and reorder the loops so that the inner ones are those of the description",
        ) from None
    pairs = zip(parameters(intrin.desc), parameters(intrin.impl))
    places = {impl: (buffers[desc], starts[desc]) for desc, impl in pairs}
    block = _implemented(func, realize.block, intrin.impl, places)
    return StepEffect(replaced(func, path, tree.with_block(realize, block)))


def _implemented(func: n.PrimFunc, block: n.Block, impl: n.PrimFunc, places: Places) -> n.Block:
    """`block` with the body of `impl`, whose buffers stand at `places`."""
    root = impl.body
    if isinstance(root, n.BlockRealize):
        inner = root.block
        body, own, matches = inner.body, inner.alloc_buffers, inner.match_buffers
    else:
        body, own, matches = root, (), ()
    copier = Copier(func, places)
    allocated = tuple(copier.allocate(b) for b in own)
    copier.enter(matches)
    new = copier.copy(body)
    assert isinstance(new, Stmt)
    return replace(block, body=new, alloc_buffers=allocated, match_buffers=copier.views(matches))
