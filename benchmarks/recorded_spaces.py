"""Whole search spaces with the measured time of each of their points: what strategies are compared on without a device.

Each target family has a folder, such as `benchmarks/data/llvm-x86_64-256/`. Its `spaces-*.jsonl.gz` hold one space, as
lines of JSON: what was recorded and where; each sketch with its trace and decisions; the points, as [sketch, [position
of each decision's value], microseconds or null]. The traces are in the file, so a recording stays readable when the
rules that derive spaces change. `drawn-*.jsonl.gz` are such files with some points of a large space.
"""

from __future__ import annotations

import gzip
import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from compiler.lower.blocks.split_preproc import LAYOUT_FREE
from compiler.schedule.core.step import Step
from compiler.schedule.core.trace import Trace
from compiler.target.target import Target
from rpc_server.wire.trial_messages import FailureKind, MeasureResult
from tuner.engine.replay import UNTUNED
from tuner.model.machine import target_family
from tuner.search.base import Candidate
from tuner.space.sketch import Decision, Sketch, Values
from tuner.task import TuningTask

DATA = Path(__file__).parent / "data"
VERSION = 1


@dataclass(frozen=True)
class RecordedSpace:
    """`costs` in seconds, None where the point failed. The sketches allow the recorded points and no others. `weights`
    are the positions of arguments that may be packed ahead of all calls."""

    workload: str
    target: str
    about: dict[str, Any]
    sketches: tuple[Sketch, ...]
    costs: dict[tuple[str, tuple[int, ...]], float | None]
    weights: tuple[int, ...] = ()

    @cached_property
    def task(self) -> TuningTask:
        return task_of(self.workload, Target(self.target), self.weights)

    @property
    def made(self) -> str:
        """Where and when it was recorded."""
        return f"{self.about['machine']}, {self.about['recorded']}"

    @cached_property
    def best(self) -> float:
        return min(cost for cost in self.costs.values() if cost is not None)

    @cached_property
    def candidates(self) -> tuple[tuple[Candidate, float | None], ...]:
        by_name = {sketch.name: sketch for sketch in self.sketches}
        return tuple((Candidate(by_name[name], point), cost) for (name, point), cost in self.costs.items())

    def results(self) -> dict[str, MeasureResult]:
        """A replay fleet's answers, by the candidate's digest; the untuned function is made up, as a slow one."""
        failed = MeasureResult(failure=FailureKind.LAUNCH, text="it failed when the space was recorded")
        untuned = {UNTUNED: MeasureResult(costs=(10 * max(cost for cost in self.costs.values() if cost is not None),))}
        return untuned | {c.digest: failed if t is None else MeasureResult(costs=(t,)) for c, t in self.candidates}


def task_of(workload: str, target: Target, weights: Sequence[int] = ()) -> TuningTask:
    """The task of a workload, the arguments at positions `weights` of which are the same at every call."""
    task = TuningTask.from_spec(workload, target)
    return replace(task, func=task.func.with_attr(LAYOUT_FREE, tuple(weights))) if weights else task


def families(data: Path = DATA) -> tuple[str, ...]:
    """The target families that spaces were recorded of."""
    return tuple(sorted({path.parent.name for path in data.glob("*/*.jsonl.gz")}))


def spaces(family: str, data: Path = DATA, drawn: bool = False) -> Iterator[RecordedSpace]:
    """A family's recorded spaces, by name; with `drawn` those too of which only some points were, which no search can
    walk."""
    for prefix in ("drawn", "spaces") if drawn else ("spaces",):
        for path in sorted((data / family).glob(f"{prefix}-*.jsonl.gz")):
            yield read(path)


def path_of(workload: str, target: Target, data: Path = DATA, drawn: bool = False) -> Path:
    """Where a recording is kept: with those of the target's family, apart from those of others."""
    name = "".join(c if c.isalnum() else "-" for c in workload)
    return data / target_family(target) / f"{'drawn' if drawn else 'spaces'}-{name}.jsonl.gz"


def write(space: RecordedSpace, path: Path) -> None:
    """One file, the same bytes for the same space."""
    head = {"format": "tunefarm.space", "version": VERSION, "workload": space.workload, "target": space.target}
    weights = {"weights": list(space.weights)} if space.weights else {}
    lines: list[Any] = [{**head, **weights, "about": space.about}]
    for sketch in space.sketches:
        decisions = [[d.name, list(d.values)] for d in sketch.decisions]
        lines.append({"sketch": sketch.name, "decisions": decisions, "trace": json.loads(sketch.trace.to_json())})
    places = {sketch.name: place for place, sketch in enumerate(space.sketches)}
    for (name, point), cost in space.costs.items():
        lines.append([places[name], list(point), None if cost is None else round(1e6 * cost, 3)])
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
    path.write_bytes(gzip.compress(text.encode(), 9, mtime=0))


def read(path: Path) -> RecordedSpace:
    head, *lines = [json.loads(line) for line in gzip.decompress(path.read_bytes()).decode().splitlines()]
    if head.get("format") != "tunefarm.space" or head.get("version") != VERSION:
        raise ValueError(f"{path} is no recorded space of version {VERSION}")
    drawn = [line for line in lines if isinstance(line, dict)]
    costs: dict[tuple[str, tuple[int, ...]], float | None] = {}
    for place, point, cost in (line for line in lines if isinstance(line, list)):
        costs[drawn[place]["sketch"], tuple(point)] = None if cost is None else cost * 1e-6
    sketches = tuple(_sketch(entry, costs) for entry in drawn)
    weights = tuple(head.get("weights", ()))
    return RecordedSpace(head["workload"], head["target"], head["about"], sketches, costs, weights)


def _sketch(entry: dict[str, Any], costs: dict[tuple[str, tuple[int, ...]], float | None]) -> Sketch:
    name = entry["sketch"]
    decisions = tuple(Decision(d, tuple(values)) for d, values in entry["decisions"])
    allowed = {tuple(d.values[i] for d, i in zip(decisions, point)) for sketch, point in costs if sketch == name}

    def is_recorded(values: Values) -> bool:
        return tuple(values.values()) in allowed

    return Sketch(name, Trace.from_json(json.dumps(entry["trace"])), decisions, is_recorded, lambda values: 0.0)


def put(page: Path, mark: str, text: str) -> None:
    """Replace what stands between a page's marks `<!-- MARK: begin -->` and `end`, which have to be there."""
    begin, end = f"<!-- {mark}: begin -->\n", f"<!-- {mark}: end -->"
    before, found, rest = page.read_text().partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"{page} has no marks of {mark!r}")
    page.write_text(f"{before}{begin}{text.rstrip()}\n{end}{after}")


# ----------------------------------------------------------------------------------- thinning


def thinned(sketch: Sketch, most: int) -> tuple[Sketch, list[tuple[int, ...]]]:
    """The sketch with fewer values for its decisions, such that at most `most` points are allowed, and those points.

    Values go that no allowed point has; then, of the decision with the most values, the one between the nearest others.
    The sampling steps of its trace have the values left as their candidates, so the thinned sketch stands for itself.
    """
    kept = [list(d.values) for d in sketch.decisions]
    names = [d.name for d in sketch.decisions]
    allowed = [p for p in itertools.product(*kept) if sketch.allowed(dict(zip(names, p)))]
    kept = [[v for v in values if any(p[at] == v for p in allowed)] for at, values in enumerate(kept)]
    while len(allowed) > most:
        at = max(range(len(kept)), key=lambda i: len(kept[i]))
        values = kept[at]
        inner = range(1, max(2, len(values) - 1))
        crowded = min(inner, key=lambda i: values[min(i + 1, len(values) - 1)] / values[i - 1])
        gone = values.pop(crowded)
        allowed = [p for p in allowed if p[at] != gone]
    trace = Trace(_with_candidates(sketch.trace.steps, kept), (0,) * len(kept))
    decisions = tuple(Decision(name, tuple(values)) for name, values in zip(names, kept))
    points = [tuple(values.index(v) for values, v in zip(kept, p)) for p in allowed]
    return replace(sketch, trace=trace, decisions=decisions), points


def draw_points(sketch: Sketch, most: int, seed: int = 0) -> list[tuple[int, ...]]:
    """At most `most` allowed points: half of them any, half of those that the draft thinks most of. A grid of so few
    points would have the ends of each decision only."""
    rng = np.random.default_rng(seed)
    found = {point: None for _ in range(40 * most) if (point := sketch.random(rng)) is not None}
    best = sorted(found, key=sketch.score, reverse=True)[: most // 2]
    return list(dict.fromkeys([*best, *found]))[:most]


def _with_candidates(steps: Sequence[Step], kept: Sequence[Sequence[int]]) -> tuple[Step, ...]:
    domains = iter(kept)

    def changed(step: Step) -> Step:
        if step.prim != "sample_categorical":
            return step
        values = tuple(next(domains))
        return replace(step, attrs=(("candidates", values), ("probs", (1.0 / len(values),) * len(values))))

    return tuple(changed(step) for step in steps)
