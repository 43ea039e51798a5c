"""The table that benchmarks/kernels.py makes: Markdown between two marks of a page; single rows can be made anew."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

MARKS = "<!-- kernels, {threads}: begin -->", "<!-- kernels, {threads}: end -->"
GROUPS = ("bfloat16", "int8", "matmul", "conv2d", "depthwise", "")
PEERS = ("tunefarm", "numpy", "torch")


def line(row: dict[str, Any]) -> str:
    """A workload's row. `row`: "workload", "trials", "seeds", "ms" by who; "gflops" and "ratio" if there are any."""
    begin = f"| {row['workload']} | {row['seeds']}×{row['trials']} |"
    if not row["ms"]:
        return f"{begin} failed | | | | |"
    times = " | ".join(f"{row['ms'][who]:.3f}" if who in row["ms"] else "–" for who in PEERS)
    return f"{begin} {times} | {row['gflops']:.0f} | {row['ratio']:.2f} |"


def read(text: str) -> dict[str, dict[str, Any]]:
    """The rows of a table that `line` wrote, by workload."""
    found = {}
    for words in ([word.strip() for word in row.strip("|").split("|")] for row in text.splitlines() if "×" in row):
        name, runs, *times, gflops, ratio = words
        seeds, _, trials = runs.partition("×")
        row: dict[str, Any] = {"workload": name, "seeds": int(seeds), "trials": int(trials), "ms": {}}
        if ratio:
            ms = {who: float(time) for who, time in zip(PEERS, times) if time != "–"}
            row |= {"ms": ms, "gflops": float(gflops), "ratio": float(ratio)}
        found[name] = row
    return found


def table(rows: Sequence[dict[str, Any]], threads: int) -> str:
    said = "Runs: how often it was tuned, with other seeds, and with how many trials; counted is the one in the"
    head = [
        f"{threads} thread{'s' if threads > 1 else ''}. {said} middle by speed. Ratio: to the faster of the others.",
        "", "| workload | runs | tunefarm, ms | numpy, ms | torch, ms | GFLOP/s | ratio |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]  # fmt: skip
    return "\n".join([*head, *map(line, rows), "", means(rows)])


def means(rows: Sequence[dict[str, Any]]) -> str:
    """The geometric mean of the ratios of each group of workloads."""
    left, said = [row for row in rows if row["ms"]], []
    for group in GROUPS:
        ratios = [row["ratio"] for row in left if group in row["workload"]]
        left = [row for row in left if group not in row["workload"]]
        if ratios:
            said.append(f"{group or 'the others'} {statistics.geometric_mean(ratios):.2f}")
    return "Geometric means of the ratios: " + ", ".join(said) + "."


def write(path: Path, rows: Sequence[dict[str, Any]], order: Sequence[str], keep: bool) -> None:
    """Put rows between the marks of a file that are for so many threads, or at its end; `keep`: beside those that are
    there of other workloads."""
    threads = rows[0]["threads"]
    page = path.read_text()
    begin, end = (mark.format(threads=threads) for mark in MARKS)
    if begin not in page:
        page = f"{page.rstrip()}\n\n{begin}\n{end}\n"
    before, _, rest = page.partition(begin)
    there, _, after = rest.partition(end)
    every = (read(there) if keep else {}) | {row["workload"]: row for row in rows}
    sorted_rows = sorted(every.values(), key=lambda row: order.index(row["workload"]))
    path.write_text(f"{before}{begin}\n{table(sorted_rows, threads)}\n{end}{after}")
