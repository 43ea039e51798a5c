"""The table of benchmarks/kernels.py: rows made anew take the place of the old ones, and the others stay."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.kit.benchmark_scripts import benchmark_script
from tests.kit.places import BENCHMARKS

kernel_table = benchmark_script("kernel_table")

ORDER = ["matmul 2×2×2", "conv2d a: 1×2²", "softmax 3×4"]


def row(workload: str, ratio: float, **more: Any) -> dict[str, Any]:
    told = {"trials": 64, "seeds": 3, "ms": {"tunefarm": 1.0, "torch": ratio}, "gflops": 9.0, "ratio": ratio}
    return {"workload": workload, "threads": 1} | told | more


def test_rows_made_anew_take_their_places(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Before\n")
    kernel_table.write(page, [row(ORDER[2], 1.5), row(ORDER[0], 4.0)], ORDER, keep=False)
    kernel_table.write(page, [row(ORDER[0], 1.0, threads=2)], ORDER, keep=False)
    page.write_text(page.read_text() + "\n# After\n")
    kernel_table.write(page, [row(ORDER[1], 2.0, seeds=1), row(ORDER[0], 1.0)], ORDER, keep=True)
    text = page.read_text()
    one, two = text.split("<!-- kernels, 1: end -->")
    assert [line.split(" | ")[0][2:] for line in one.splitlines() if "×64" in line] == ORDER
    assert "| matmul 2×2×2 | 3×64 | 1.000 | – | 1.000 | 9 | 1.00 |" in one
    assert "| conv2d a: 1×2² | 1×64 | 1.000 | – | 2.000 | 9 | 2.00 |" in one
    assert "matmul 1.00, conv2d 2.00, the others 1.50." in one
    assert two.count("×64") == 1
    assert text.startswith("# Before")
    assert text.endswith("# After\n")
    kernel_table.write(page, [row(ORDER[1], 2.0)], ORDER, keep=False)
    assert page.read_text().split("<!-- kernels, 1: end -->")[0].count("×64") == 1


def test_a_workload_that_could_not_be_tuned(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("")
    kernel_table.write(page, [{**row(ORDER[0], 1.0), "ms": {}}, row(ORDER[2], 1.5)], ORDER, keep=False)
    kernel_table.write(page, [row(ORDER[2], 1.6)], ORDER, keep=True)
    assert "| matmul 2×2×2 | 3×64 | failed | | | | |" in page.read_text()
    assert "the others 1.60." in page.read_text()


def test_the_pages_of_results_are_such_tables() -> None:
    for name in ("kernels-avx512.md", "kernels-avx2.md"):
        begin, end = kernel_table.MARKS
        text = (BENCHMARKS / "results" / name).read_text()
        for threads in (1, 2):
            there = text.partition(begin.format(threads=threads))[2].partition(end.format(threads=threads))[0]
            rows = list(kernel_table.read(there).values())
            assert len(rows) > 40
            said, means = there.strip().rsplit("\n", 1)
            assert kernel_table.table(rows, threads).startswith(said)
            assert means.startswith("Geometric means")  # of ratios that were not rounded yet, where none was made anew
