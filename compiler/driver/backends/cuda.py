"""From lowered functions to an artifact with PTX: kernels, and how the host starts them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from compiler.artifact import Artifact, EntryPoint
from compiler.codegen.llvm.module import parameters
from compiler.codegen.nvptx.ptx import arch_of, ptx_text
from compiler.driver.backend import Backend, Lowered
from compiler.driver.pipeline import gpu_stages
from compiler.dtype import element_of, lanes_of
from compiler.ir.base import GlobalVar
from compiler.launches import Launch, Workspace
from compiler.lower.blocks.shape_vars import extent_text, names_for, shape_vars
from compiler.lower.gpu.split_host_device import HostDevice, KernelLaunch, launches
from compiler.schedule.default_gpu import default_gpu_schedule
from compiler.target.target import Target
from compiler.tensorcore.wide_sums import summed_wide
from compiler.tir import nodes as n
from compiler.tir import ops

VECTOR_BITS = 128  # of one load or store of a thread


class CUDABackend(Backend):
    """NVIDIA GPUs: PTX for the target's architecture, and how the host starts its kernels."""

    def complete(self, target: Target) -> Target:
        return Target({**target.export(), "arch": arch_of(target)})

    def vector_bits(self, target: Target) -> int:
        return VECTOR_BITS

    def default_schedule(self, func: n.PrimFunc) -> n.PrimFunc:
        """Give each result a thread. A product of narrow floats is summed as float32, as tensor cores do."""
        return default_gpu_schedule(summed_wide(func))

    def generate(self, lowered: Lowered, keep: Sequence[str]) -> Artifact:
        synchronized, split = gpu_stages(lowered.module)
        plans = {g: launches(split, g) for g in lowered.module}
        kernels: dict[str, KernelLaunch] = {}
        names: dict[GlobalVar, list[str]] = {}
        for g, plan in plans.items():
            stem = f"{lowered.symbols[g]}_kernel"
            names[g] = [stem if not i else f"{stem}_{i}" for i in range(len(plan.kernels))]
            kernels |= zip(names[g], plan.kernels)
        ll, ptx, dynamic = ptx_text(kernels, lowered.target)
        done = [
            _with_launches(entry, func, plans[g], names[g], dynamic)
            for entry, (g, func) in zip(lowered.entries, n.prim_funcs(lowered.module).items())
        ]
        blobs = {"ptx": ptx.encode()}
        if "tir" in keep:
            blobs["tir"] = synchronized.script().encode()
        if "ll" in keep:
            blobs["ll"] = ll.encode()
        return Artifact(str(lowered.target), (), tuple(done), blobs, lowered.meta)


CUDA = CUDABackend()


def _with_launches(
    entry: EntryPoint, func: n.PrimFunc, plan: HostDevice, symbols: Sequence[str], dynamic: Mapping[str, int]
) -> EntryPoint:
    scalars = [param.var for param in parameters(func) if param.buffer is None]
    names = names_for([*scalars, *(shape.var for shape in shape_vars(func))])
    started = tuple(
        Launch(symbol, _texts(kernel, names), kernel.block, kernel.slots, dynamic[symbol], kernel.tensor_maps)
        for symbol, kernel in zip(symbols, plan.kernels)
    )
    return replace(entry, launches=started, workspaces=tuple(_workspace(b, names) for b in plan.workspaces))


def _texts(kernel: KernelLaunch, names: Mapping[n.Var, str]) -> tuple[str, str, str]:
    x, y, z = (extent_text(extent, names) for extent in kernel.grid)
    return x, y, z


def _workspace(buffer: n.Buffer, names: Mapping[n.Var, str]) -> Workspace:
    count = ops.const(lanes_of(buffer.dtype))
    for extent in buffer.shape:
        count = ops.mul(count, extent)
    return Workspace(element_of(buffer.dtype), extent_text(count, names))
