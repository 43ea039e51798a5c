"""How a tuning run looks: a live table on a terminal, plain lines elsewhere, one table at the end."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import IO, Any

from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from tunefarm.cli.common import nobody_reads
from tunefarm.cli.tables import Fitted
from tuner.engine.plan import TaskSearch
from tuner.engine.progress import NoWatcher, Snapshot, TaskProgress, TrialDone, Watcher, gflops
from tuner.number_text import DASH, counted, duration, energy, hours, three
from tuner.records.lookup.best import DRIFT

_PLAIN_EVERY_S = 5.0
_BAR = 14
_COLUMNS = 5  # beside the name


def speed(task: TaskProgress, cost: float | None) -> str:
    """Return GFLOP/s if the operations are known, else the time.
    A run that minimises energy shows the energy."""
    if task.unit == "J":
        return DASH if cost is None else energy(cost)
    rate = gflops(task.flops, cost)
    return f"{three(rate)} GFLOP/s" if rate is not None else duration(cost)


def failures_text(tasks: Iterable[TaskProgress]) -> str:
    """Failures by kind, most frequent first: "3 crash, 1 run_timeout", or "none"."""
    total: dict[str, int] = {}
    for task in tasks:
        for kind, count in task.failures.items():
            total[str(kind)] = total.get(str(kind), 0) + count
    ranked = sorted(total.items(), key=lambda entry: -entry[1])
    return ", ".join(f"{count} {kind}" for kind, count in ranked) or "none"


def status_line(snapshot: Snapshot) -> str:
    """One line: trials, best so far, failures, devices, rate, time left."""
    parts = models_text(snapshot)
    for task in snapshot.tasks:
        gain = f" ({task.speedup:.1f}x)" if task.speedup else ""
        best = "final" if task.in_finals else "best"
        parts.append(f"{task.name} {task.done}/{task.budget} {best} {speed(task, task.best_cost)}{gain}")
    if snapshot.waiting:
        return f"{'; '.join(parts)} | waiting for a device: {snapshot.waiting}"
    devices = counted(snapshot.devices, "device")
    return f"{'; '.join(parts)} | failed {failures_text(snapshot.tasks)} | {devices}, {pace(snapshot)}"


def models_text(snapshot: Snapshot) -> list[str]:
    """Return the present and the untuned time of a run of each model's tuned kernels.
    It also tells what the next minute of tuning should save."""
    found = []
    told = energy if any(task.unit == "J" for task in snapshot.tasks) else duration
    for model in snapshot.models:
        if model.best is not None and model.untuned is not None:
            gain = f"{model.speedup:.1f}x" if model.speedup else ""
            before = f"untuned {told(model.untuned)}, {gain}"
            more = "" if model.minute is None else f", a minute more should save {told(model.minute)}"
            again = ", measured again in the finals" if model.in_finals else ""
            found.append(f"{model.name}'s kernels {told(model.best)} a run ({before}){again}{more}")
    return found


def pace(snapshot: Snapshot) -> str:
    """Trials a second and the time left."""
    time_left = "?" if snapshot.eta_s is None else duration(snapshot.eta_s)
    left = "last comparisons" if snapshot.done >= snapshot.budget else f"{time_left} left"
    return f"{snapshot.rate:.1f} trials/s, {left}"


def summary_table(snapshot: Snapshot) -> Fitted:
    """Return what the run achieved."""
    title = f"Run {snapshot.run_id}: {counted(snapshot.done, 'trial')} in {duration(snapshot.elapsed_s)}"
    table = Table(title=title, box=box.SIMPLE)
    table.add_column("kernel", overflow="fold")  # a name is to be copied, not guessed
    for name in ("untuned", "best", "time", "speedup", "trials", "failed"):
        table.add_column(name, justify="right", no_wrap=True)
    for task in snapshot.tasks:
        table.add_row(
            Text(task.name),
            _untuned(task),
            speed(task, task.best_cost),
            duration(task.best_cost if task.unit == "s" else None),
            f"{task.speedup:.1f}x" if task.speedup else "–",
            str(task.done),
            str(task.failed),
        )
    held = snapshot.held_s
    notes = [f"devices were held for {duration(held)} together: {hours(held / 3600)} device hours"] if held else []
    notes += [f"neither building nor measuring: {snapshot.overhead:.1%} of the run"]
    texts = (text(task) for text in (baseline_text, drift_text, slower_text) for task in snapshot.tasks)
    table.caption = Text("\n".join([*models_text(snapshot), *notes, *filter(None, texts)]))
    table.caption_justify = "left"
    return Fitted(table, ["kernel"])


def _untuned(task: TaskProgress) -> Text:
    """The untuned kernel's speed at the start, and at the end if it was measured again.
    If they differ, the run is noisy."""
    first, last = speed(task, task.baseline_cost), task.last_baseline_cost
    if last is None:
        return Text(first)
    return Text(f"{first}\n→ {speed(task, last)}", style="yellow" if task.drift is not None else "")


def baseline_text(task: TaskProgress) -> str:
    """Say what the kernel is compared with, where that is not the function as written; else ""."""
    return f"{task.name}: untuned is {task.baseline}" if task.baseline else ""


def drift_text(task: TaskProgress) -> str:
    """Return what a change of the untuned kernel's time says of the run, or ""."""
    if task.drift is None:
        return ""
    more = "longer" if task.drift > 0 else "less time"
    what = f"{task.baseline or 'untuned'} took {abs(task.drift):.0%} {more}"
    return f"{task.name}: {what} at the end, so its times are noisy"


def slower_text(task: TaskProgress) -> str:
    """Say that the best candidate is slower than the untuned kernel by more than machines drift; else ""."""
    if task.speedup is None or task.speedup > 1 - DRIFT:
        return ""
    return f"{task.name}: nothing was as fast as {task.baseline or 'untuned'} ({task.speedup:.2f}x)"


def beginning(search: TaskSearch) -> str:
    """Return what a search knew before its first trial, in one line; "" when that was nothing."""
    parts = []
    if search.warm.candidates:
        traces = counted(len(search.warm.candidates), "trace")
        parts.append(f"began with {traces} from {', '.join(search.warm.sources)}")
    if search.guide:
        parts.append(f"guided by {search.guide}")
    return "; ".join(parts)


class WhileRead:
    """Pass on a watcher's news until stdout or stderr has no reader any more.
    Then do what `then` says."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher
        self._stop: Callable[[], None] = lambda: None
        self._is_read = True

    def then(self, stop: Callable[[], None]) -> None:
        self._stop = stop

    def update(self, snapshot: Snapshot) -> None:
        self._pass_on(lambda: self._watcher.update(snapshot))

    def trial(self, done: TrialDone) -> None:
        self._pass_on(lambda: self._watcher.trial(done))

    def note(self, text: str) -> None:
        self._pass_on(lambda: self._watcher.note(text))

    def _pass_on(self, tell: Callable[[], None]) -> None:
        if not self._is_read:
            return
        self._is_read = not nobody_reads()
        try:
            if self._is_read:
                tell()
        except BrokenPipeError:
            self._is_read = False
        if not self._is_read:
            self._stop()


class PlainDisplay(NoWatcher):
    """Lines for logs and pipes: one every few seconds, and every note."""

    def __init__(self, stream: IO[str] | None = None) -> None:
        self._stream = stream or sys.stderr
        self._last = 0.0
        self._latest: Snapshot | None = None

    def __enter__(self) -> PlainDisplay:
        return self

    def __exit__(self, *_: object) -> None:
        if self._latest is not None:
            self._show(self._latest)

    def update(self, snapshot: Snapshot) -> None:
        self._latest = snapshot
        if time.monotonic() - self._last >= _PLAIN_EVERY_S:
            self._last = time.monotonic()
            self._show(snapshot)

    def _show(self, snapshot: Snapshot) -> None:
        self._print(status_line(snapshot))

    def note(self, text: str) -> None:
        self._print(text)

    def _print(self, text: str) -> None:
        print(text, file=self._stream, flush=True)


class LiveDisplay(NoWatcher):
    """A table that is redrawn in place."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, refresh_per_second=4, transient=True)

    def __enter__(self) -> LiveDisplay:
        self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.__exit__(kind, value, trace)

    def update(self, snapshot: Snapshot) -> None:
        table = Table.grid(padding=(0, 2))
        table.add_column()  # gives way to the others
        for _ in range(_COLUMNS):
            table.add_column(no_wrap=True)
        for task in snapshot.tasks:
            gain = f"{task.speedup:.1f}x" if task.speedup else ""
            bar = ProgressBar(total=task.budget, completed=task.done, width=_BAR)
            best = f"[bold]{speed(task, task.best_cost)}[/bold]"
            name = Text(task.name, no_wrap=True, overflow="ellipsis")
            table.add_row(name, bar, f"{task.done}/{task.budget}", best, gain, _failed(task))
        devices = counted(snapshot.devices, "device")
        lines = [Text(f"{devices} {snapshot.utilisation:.0%} busy, {pace(snapshot)}", style="dim")]
        lines = [*(Text(text, style="bold") for text in models_text(snapshot)), *lines]
        if snapshot.waiting:
            lines = [Text(f"waiting for a device: {snapshot.waiting}", style="yellow")]
        if any(task.failed for task in snapshot.tasks):
            lines.append(Text(f"failed: {failures_text(snapshot.tasks)}", style="yellow"))
        self._live.update(Group(table, *lines))

    def note(self, text: str) -> None:
        self._console.print(Text(text, style="dim"))


def _failed(task: TaskProgress) -> str:
    return f"[yellow]{task.failed} failed[/yellow]" if task.failed else "[dim]0 failed[/dim]"


class JsonDisplay(PlainDisplay):
    """Lines of JSON for programs that follow a run: one every few seconds, and one for every note."""

    def _show(self, snapshot: Snapshot) -> None:
        told = {
            "run": snapshot.run_id,
            "seconds": snapshot.elapsed_s,
            "trials": snapshot.done,
            "budget": snapshot.budget,
            "trials_per_second": snapshot.rate,
            "time_left_s": snapshot.eta_s,
            "devices": snapshot.devices,
            "device_seconds": snapshot.held_s,
            "waiting": snapshot.waiting,
            "models": models_json(snapshot),
        }
        self._print(json.dumps(told))

    def note(self, text: str) -> None:
        self._print(json.dumps({"note": text}))


def models_json(snapshot: Snapshot) -> list[dict[str, Any]]:
    """Return each model's seconds (or joules) of a run of its kernels; null for what is not known."""
    unit = "j" if any(task.unit == "J" for task in snapshot.tasks) else "s"
    return [
        {
            "model": model.name,
            f"untuned_{unit}": model.untuned,
            f"now_{unit}": model.best,
            "speedup": model.speedup,
            f"next_minute_saves_{unit}": model.minute,
            "in_finals": model.in_finals,
        }
        for model in snapshot.models
    ]


def make_display(console: Console, as_json: bool = False) -> PlainDisplay | LiveDisplay:
    """Choose the display: lines of JSON if asked for, else live on a terminal, plain elsewhere."""
    if as_json and not console.is_terminal:
        return JsonDisplay(console.file)
    return LiveDisplay(console) if console.is_terminal else PlainDisplay(console.file)
