"""The process that looks at one GPU: `python -m rpc_server.machine.gpu_probe SETTINGS`.

Prints a `Probed` as JSON.

It runs a chain of multiplications and additions in every thread of a grid that fills the device, whose results are
known exactly, and copies memory there and back. Any fault, an earlier one that still lingers too, shows as an error.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Callable

import msgspec
import numpy as np

from compiler.artifact import ArgSpec, Artifact, EntryPoint, ImplicitArg
from compiler.errors import TunefarmError
from compiler.launches import Launch
from compiler.runtime.core.device import Device, cuda
from compiler.runtime.core.ndarray import array, empty
from compiler.runtime.cuda.module import CUDAFunction, CUDAHostModule, cuda_api
from compiler.runtime.measure.nvml import gpu_state
from compiler.target.gpu_arch import arch_of_version
from rpc_server.isolation.limits import become, die_with_parent, ids_of
from rpc_server.machine.gpus import Gpu, Probed, ProbeSettings

_ROUNDS = 63  # odd: x * -1 + c gives c - x after an odd number of rounds, and any error on the way stays
_SUM = 7.0  # c
_THREADS = 256
_RUNS = 3  # odd, too
_MOST_COPIED = 64 << 20
_MOST_TIMES = 64  # the work of a small device that a large one gets
# x[i] = x[i] * -1 + c, `rounds` times. For the oldest architecture: later ones run it, too.
_CHAIN = """
.version 7.0
.target sm_80
.address_size 64

.visible .entry chain_kernel(
	.param .u64 chain_kernel_param_0,
	.param .f32 chain_kernel_param_1,
	.param .u32 chain_kernel_param_2
)
.maxntid 256, 1, 1
{
	.reg .pred %p<2>;
	.reg .b32 %r<8>;
	.reg .b64 %rd<5>;

	ld.param.b64 %rd1, [chain_kernel_param_0];
	ld.param.b32 %r1, [chain_kernel_param_1];
	ld.param.b32 %r2, [chain_kernel_param_2];
	cvta.to.global.u64 %rd2, %rd1;
	mov.u32 %r3, %ctaid.x;
	mov.u32 %r4, %tid.x;
	mad.lo.s32 %r5, %r3, 256, %r4;
	mul.wide.u32 %rd3, %r5, 4;
	add.s64 %rd4, %rd2, %rd3;
	ld.global.b32 %r6, [%rd4];
$L__again:
	fma.rn.f32 %r6, %r6, 0fBF800000, %r1;
	add.s32 %r2, %r2, -1;
	setp.ne.b32 %p1, %r2, 0;
	@%p1 bra $L__again;
	st.global.b32 [%rd4], %r6;
	ret;
}
"""


def chain() -> Artifact:
    """The kernel and how it is started."""
    x = ArgSpec("x", "float32", ("blocks", _THREADS))
    arguments = (x, ArgSpec("c", "float32", None), ArgSpec("rounds", "int32", None))
    launch = Launch("chain_kernel", ("blocks", "1", "1"), (_THREADS, 1, 1), (0, 1, 2))
    blocks = ImplicitArg("blocks", "int32", "blocks")
    entry = EntryPoint("chain", "chain", arguments, outputs=(0,), implicit=(blocks,), launches=(launch,))
    return Artifact("cuda -arch=sm_80", (), (entry,), {"ptx": _CHAIN.encode()})


def probe(uuid: str, place: Device, kernel: Artifact) -> Probed:
    """Look at a device. Raises DeviceError when it fails."""
    gpu = describe(uuid, place)
    times = max(1, min(_MOST_TIMES, gpu.memory >> 30))
    blocks, rounds = min(8, times) * gpu.multiprocessors, _ROUNDS * times | 1
    function = CUDAHostModule(kernel)["chain"]
    assert isinstance(function, CUDAFunction)
    start = np.arange(blocks * _THREADS, dtype=np.float32).reshape(blocks, _THREADS) % 1024
    x = array(start, place)
    run = function.prepare((x, _SUM, rounds))
    seconds = min(_seconds(place, run) for _ in range(_RUNS))
    wrong = x.numpy() != _SUM - start
    if wrong.any():
        return Probed(gpu, wrong=f"{int(wrong.sum())} of {start.size} threads computed something wrong")
    return Probed(gpu, 2e-9 * start.size * rounds / seconds, _copied(place, gpu))


def _copied(place: Device, gpu: Gpu) -> float:
    """GB/s, read and written, of a copy within the device."""
    api, size = cuda_api(place), min(_MOST_COPIED, gpu.memory // 8)
    source, target = empty((size,), "uint8", place), empty((size,), "uint8", place)
    seconds = min(
        _seconds(place, lambda: api.copy_within(place, source.handle, target.handle, size)) for _ in range(_RUNS)
    )
    return 2e-9 * size / seconds


def _seconds(place: Device, run: Callable[[], None]) -> float:
    """Return what the device takes for `run`, by its own clock."""
    driver, number = cuda_api(place).driver, place.device_id
    start, end = driver.event(number), driver.event(number)
    driver.record(number, start, None)
    run()
    driver.record(number, end, None)
    driver.wait(number, end)
    return max(1, driver.elapsed_ns(number, start, end)) * 1e-9


def describe(uuid: str, place: Device) -> Gpu:
    """The properties of a device. Raises DeviceError where there is none."""
    cuda_api(place)
    state = gpu_state(place.device_id)
    return Gpu(
        uuid=uuid, name=place.device_name or "GPU", arch=arch_of_version(place.compute_version or "8.0"),
        memory=place.total_global_memory or 0, multiprocessors=place.multi_processor_count or 1,
        clock=place.max_clock_rate or 0, shared=place.max_shared_memory_per_block or 0,
        driver=str(place.driver_version or ""), temperature=None if state is None else state.temperature,
    )  # fmt: skip


def main(text: str) -> int:
    settings = msgspec.json.decode(text, type=ProbeSettings)
    die_with_parent(settings.parent)
    kernel = chain()
    for driver in ("compiler.runtime.cuda.pycuda_driver", "pycuda.driver", "pynvml"):
        with contextlib.suppress(ImportError):  # what is missing is said where it is needed
            importlib.import_module(driver)
    repr(np.zeros(1))
    if settings.user:  # who may be unable to read this installation: all is imported
        become(*ids_of(settings.user))
        die_with_parent(settings.parent)  # changing the user forgot it
    try:
        found = probe(settings.uuid, cuda(0), kernel)
    except TunefarmError as error:
        found = Probed(wrong=error.message)
    sys.stdout.buffer.write(msgspec.json.encode(found))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
