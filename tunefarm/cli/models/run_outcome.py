"""The outcome of one `tunefarm run`: the results, the times, the energy, and how it is shown."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import click
import numpy as np
from rich.table import Table

from compiler.runtime.measure.report import Report
from tunefarm.cli.models.compare import Compared
from tunefarm.cli.models.inputs import AnyArray
from tunefarm.cli.models.profile_table import print_profile
from tunefarm.cli.tables import show_table
from tuner.number_text import duration


@dataclass(frozen=True)
class RunOutcome:
    """The outcome of a model's run.

    Times are in seconds, `drawn` has watts, joules and the mean clock where known. `model` is what the user named,
    `name` what it is called in the record store. `origin` says what an artifact was built from. `recorded` is the
    number of the stored time.
    """

    model: str
    name: str
    target: str
    outputs: Mapping[str, AnyArray]
    seconds: list[float]
    built_s: float | None
    report: Report | None
    recorded: int | None
    tuned_share: float | None
    drawn: Mapping[str, float]
    energy_not_told: str
    origin: Mapping[str, str]
    compared: Compared

    def write(self, folder: Path) -> None:
        """Write each result to a .npy file of the folder."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, value in self.outputs.items():
            np.save(folder / f"{_file_name(name)}.npy", value)

    def to_json(self, with_profile: bool) -> dict[str, Any]:
        return {
            "model": self.model, "target": self.target, "build_s": self.built_s, "seconds": self.seconds,
            "recorded": self.recorded, "tuned_share": self.tuned_share, "joules": self.drawn.get("joules"),
            "clock_mhz": self.drawn.get("clock_mhz"), "energy_not_told": self.energy_not_told or None,
            "built_from": self.origin or None,
            "outputs": {name: _described(value) for name, value in self.outputs.items()},
            "profile": json.loads(self.report.json()) if self.report is not None and with_profile else None,
            **self.compared.to_json(),
        }  # fmt: skip

    def show(self, with_profile: bool, with_energy: bool) -> None:
        """Print it for people."""
        if self.origin:
            release = f", release {self.origin['release']}" if self.origin.get("release") else ""
            click.echo(f"built from {self.origin['model']}, version {self.origin['version'][:12]}{release}")
        self._show_results()
        if self.built_s is not None:
            click.echo(f"built in {self.built_s:.1f} s")
        if times := self.seconds:
            click.echo(
                f"a run takes {duration(median(times))} (median of {len(times)}; {duration(min(times))} at best)"
            )
        if self.report is not None and with_profile:
            print_profile(self.report)
        for line in self.compared.lines():
            click.echo(line)
        if with_energy:
            click.echo(self._energy())
        if self.recorded is not None:
            share = self.tuned_share
            covered = "" if share is None else f", {share:.0%} of the kernels' time is of tuned kernels"
            click.echo(f"recorded: time {self.recorded} of {self.name}{covered}")

    def _show_results(self) -> None:
        table = Table("result", "shape", "type", "least", "mean", "largest", box=None)
        for name, value in self.outputs.items():
            facts = _described(value)
            numbers = [f"{facts[key]:.4g}" if key in facts else "" for key in ("min", "mean", "max")]
            table.add_row(name, " × ".join(map(str, value.shape)) or "scalar", facts["dtype"], *numbers)
        show_table(table, "result")

    def _energy(self) -> str:
        drawn = self.drawn
        parts = [f"a run takes {drawn['joules']:.3g} J at {drawn['watts']:.1f} W"] if "joules" in drawn else []
        parts = parts or [f"energy: not told: {self.energy_not_told}"]
        parts += [f"mean clock {drawn['clock_mhz']:,.0f} MHz"] if "clock_mhz" in drawn else []
        return "; ".join(parts)


def _file_name(name: str) -> str:
    """A name without what would be another folder."""
    return "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in name).lstrip(".") or "output"


def _described(value: AnyArray) -> dict[str, Any]:
    numbers = value.astype("float64") if value.size else None
    spread = (
        {}
        if numbers is None
        else {"min": float(numbers.min()), "mean": float(numbers.mean()), "max": float(numbers.max())}
    )
    return {"shape": list(value.shape), "dtype": str(value.dtype), **spread}
