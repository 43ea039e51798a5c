"""PTX as it is given to the driver, run without one: what LLVM made of the kernels is right, too."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from compiler.driver.build import compile_artifact, lower
from compiler.interp import interpreter as interp
from compiler.target.target import Target
from tests.kit.gpu import ptx_machine
from tests.kit.tuner.sketch_points import at_point, random_point
from tuner.space.generate import generate
from tuner.workloads import WorkloadSpec

SM80 = Target("cuda -arch=sm_80")


class Arrays:
    """Memory that kernels may use: these arrays, and nothing else."""

    def __init__(self, arrays: list[np.ndarray]) -> None:
        self.arrays = arrays

    def __call__(self, address: int, size: int) -> memoryview:
        for array in self.arrays:
            start = array.ctypes.data
            if start <= address and address + size <= start + array.nbytes:
                return memoryview((ctypes.c_char * size).from_address(address)).cast("B")
        raise ptx_machine.IllegalAccess(hex(address))


@pytest.mark.parametrize(
    "spec", ["matmul:16,16,16", "matmul:9,10,5:float16", "conv2d:1,2,5,6,3,3,3", "softmax:4,33", "triad:100"]
)
def test_the_ptx_of_sketches_gives_what_the_function_gives(spec: str) -> None:
    func = WorkloadSpec.parse(spec).prim_func()
    rng = np.random.default_rng(5)
    shapes = [tuple(map(int, map(str, func.buffer_map[p].shape))) for p in func.params]
    arrays = [rng.integers(-3, 4, s).astype(func.buffer_map[p].dtype) for s, p in zip(shapes, func.params)]
    wanted = [a.copy() for a in arrays]
    interp.run(next(iter(lower(func).items()))[1], *wanted)
    for sketch in generate(func, SM80):
        point = random_point(sketch, rng)
        made = at_point(func, sketch, point)
        artifact = compile_artifact(made, SM80)
        found = [a.copy() for a in arrays]
        run = ptx_machine.kernels(artifact.blobs["ptx"].decode())
        for launch in artifact.entries[0].launches:
            values = [found[slot].ctypes.data for slot in launch.slots]
            grid = [int(text) for text in launch.grid]
            run[launch.symbol].launch(Arrays(found), grid, launch.block, values, launch.shared_bytes)
        np.testing.assert_allclose(found[-1], wanted[-1], rtol=1e-3, atol=1e-5, err_msg=sketch.name)


def test_memory_that_is_not_there() -> None:
    func = WorkloadSpec.parse("copy:64").prim_func()
    [sketch] = generate(func, SM80)
    point = random_point(sketch, np.random.default_rng(0))
    artifact = compile_artifact(at_point(func, sketch, point), SM80)
    [kernel] = ptx_machine.kernels(artifact.blobs["ptx"].decode()).values()
    small = np.zeros(32, np.float32)
    with pytest.raises(ptx_machine.IllegalAccess):
        kernel.launch(Arrays([small]), (1, 1, 1), (64, 1, 1), [small.ctypes.data] * 2, 0)
