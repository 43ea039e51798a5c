"""The kernels of a profiled run, as a table that fits the terminal."""

from __future__ import annotations

from dataclasses import dataclass

import click
from rich.table import Column, Table

from compiler.runtime.measure.report import Ratio, Report
from tunefarm.cli.models.configs import kernel_of
from tunefarm.cli.tables import show_table
from tuner.number_text import duration


@dataclass
class KernelTime:
    """A kernel of a run: its calls and seconds together. Rates are means over its time; None: not known."""

    name: str
    calls: int = 0
    seconds: float = 0.0
    gflops: float | None = None
    gbytes: float | None = None
    roofline: float | None = None


_RATES = {"gflops": "GFLOP/s", "gbytes": "GB/s", "roofline": "Of roofline"}


def kernel_times(report: Report) -> list[KernelTime]:
    """The kernels of a run, those that take longest first."""
    found: dict[str, KernelTime] = {}
    weighted: dict[tuple[str, str], float] = {}
    for call in report.calls:
        kernel = found.setdefault(kernel_of(call), KernelTime(kernel_of(call)))
        took = float(getattr(call["Duration (us)"], "microseconds", 0.0)) * 1e-6
        kernel.calls += 1
        kernel.seconds += took
        for name, column in _RATES.items():
            if isinstance(rate := call.get(column), Ratio):
                weighted[kernel.name, name] = weighted.get((kernel.name, name), 0.0) + rate.ratio * took
    for (kernel_name, name), total in weighted.items():
        if found[kernel_name].seconds:
            setattr(found[kernel_name], name, total / found[kernel_name].seconds)
    return sorted(found.values(), key=lambda kernel: -kernel.seconds)


def print_profile(report: Report) -> None:
    """Print each kernel's part of a run, and of the roofline where the device's peaks are known."""
    kernels = kernel_times(report)
    with_roofline = any(kernel.roofline is not None for kernel in kernels)
    headers = ["calls", "time", "share", "GFLOP/s", "GB/s", *(["roofline"] if with_roofline else [])]
    table = Table("kernel", *(Column(name, justify="right") for name in headers), box=None)
    whole = sum(kernel.seconds for kernel in kernels)
    for kernel in kernels:
        share = f"{kernel.seconds / whole:.1%}" if whole else ""
        cells = [str(kernel.calls), duration(kernel.seconds), share, _rate(kernel.gflops), _rate(kernel.gbytes)]
        if with_roofline:
            cells.append("" if kernel.roofline is None else f"{kernel.roofline:.0%}")
        table.add_row(kernel.name, *cells)
    show_table(table, "kernel")
    click.echo(f"the kernels of one run take {duration(whole)}" + _peaks(report))


def _rate(value: float | None) -> str:
    return "" if value is None else f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def _peaks(report: Report) -> str:
    peaks = {name: value.ratio for name, value in report.configuration.items() if isinstance(value, Ratio)}
    if not {"Peak GFLOP/s", "Peak GB/s"} <= peaks.keys():
        return ""
    return f"; the device's peaks are {peaks['Peak GFLOP/s']:,.0f} GFLOP/s and {peaks['Peak GB/s']:,.0f} GB/s"
