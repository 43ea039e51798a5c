"""How evenly tasks of two sizes load threads; a sketch's draft and the features of a model both say it."""

from __future__ import annotations

import heapq

import pytest

from compiler.target.target import Target
from tuner.model.features import NAMES, SketchFeatures
from tuner.space.cpu.balance import balance
from tuner.space.generate import generate
from tuner.workloads import WorkloadSpec


def played(whole: int, small: int, share: float, threads: int) -> float:
    """The same by letting the threads take the tasks, whole ones first."""
    free = [0.0] * threads
    for task in [1.0] * whole + [share] * small:
        heapq.heappush(free, heapq.heappop(free) + task)
    return (whole + small * share) / (threads * max(free))


@pytest.mark.parametrize(
    ("whole", "small", "share", "threads"),
    [(1, 1, 0.5, 2), (6, 1, 0.25, 2), (5, 1, 0.25, 2), (8, 0, 0.0, 2), (7, 0, 0.0, 2), (0, 1, 0.5, 4), (3, 3, 0.5, 2),
     (3, 1, 0.3, 4)],
)  # fmt: skip
def test_it_is_what_threads_do_that_take_tasks(whole: int, small: int, share: float, threads: int) -> None:
    assert float(balance(whole, small, share, threads)) == pytest.approx(played(whole, small, share, threads))


def test_a_last_panel_that_is_shorter_counts_for_less() -> None:
    """784 pixels in panels of 512 are two tasks, of which one takes twice as long."""
    func = WorkloadSpec.parse("conv2d:1,16,28,28,16,1,1,1,0").prim_func()
    target = Target("llvm -mcpu=znver3 -mtriple=x86_64-linux-gnu -num-cores=2")
    sketch = next(s for s in generate(func, target) if s.name == "panels+pack+flat")

    def of(panel: int) -> float:
        wanted = {"rows": 4, "vectors": 2, "panel": panel, "unroll": 1}
        point = [d.values.index(wanted[d.name]) for d in sketch.decisions]
        return float(SketchFeatures.of(sketch, func, target).matrix([point])[0, NAMES.index("balance")])

    assert of(32) == pytest.approx(784 / 1024)  # 512 and 272
    assert of(8) == pytest.approx(784 / 800)  # six of 128, one of 16
