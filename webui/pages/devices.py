"""One device: how it is now, its checks, its benchmarks, and what it measured last."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fastapi import APIRouter
from starlette.responses import HTMLResponse, Response

from tuner.records.errors import RecordNotFound
from tuner.records.model import DeviceRecord, Trial
from tuner.records.store import RecordStore
from webui.context import Ctx
from webui.fleet import recorded_device
from webui.format import size
from webui.pages.render import render

router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)

_EVENTS = 50
_TRIALS = 30
_SHOWN_APART = frozenset({"cpu_model", "cores", "target", "features", "hostname", "device_class"})
_SIZES = frozenset({"memory", "gpu_memory"})
_ONLY_OF_GPUS = frozenset({"gpu_memory", "multiprocessors"})


@router.get("/devices/{name:path}")
def device(context: Ctx, name: str) -> Response:
    fleet = context.fleet.view()
    known = context.store.devices.named(name)
    now = next((found for found in fleet.devices if found.name == name), None)
    if now is None:
        if not known:
            raise RecordNotFound(f"there is no device {name}", hint="the overview lists those there are")
        now = recorded_device(known[-1])  # the tracker has forgotten it
    trials = context.store.devices.trials(name, _TRIALS)
    return render(
        context, "device.html", "Overview", device=now, problem=fleet.problem,
        hardware=hardware(known[-1] if known else None, {} if now.info is None else now.info.attributes),
        events=context.store.devices.events(name, _EVENTS), benchmarks=context.store.devices.benchmarks(name),
        temperature=next((degrees for trial in trials if (degrees := temperature_of(trial)) is not None), None),
        trials=trials, names=task_names(context.store, trials),
    )  # fmt: skip


def temperature_of(trial: Trial) -> float | None:
    """°C of what measured it, where that was told."""
    return trial.environment.get("gpu_temperature", trial.environment.get("temperature"))


def hardware(known: DeviceRecord | None, attributes: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the machine's facts by name: what the tracker says, and what the records add."""
    facts = {**({} if known is None else known.fingerprint), **attributes}
    left_out = _SHOWN_APART | {name for name in _ONLY_OF_GPUS if not facts.get(name)}
    shown = [(name, _fact(name, value)) for name, value in sorted(facts.items()) if name not in left_out]
    return [(name[:1].upper() + name[1:].replace("_", " "), text) for name, text in shown if text]


def _fact(name: str, value: object) -> str:
    return size(value) if name in _SIZES and isinstance(value, int) else _words(value)


def _words(value: object) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case {"level": level, "kind": kind, "size": int(bytes_)}:  # a cache
            return f"L{level} {kind} {size(bytes_)}"
        case dict():
            return ", ".join(f"{name} {_words(part)}" for name, part in value.items())
        case str() | int() | float():
            return str(value)
        case list() | tuple():
            return ", ".join(map(_words, value))
        case _:
            return ""


def task_names(store: RecordStore, trials: Iterable[Trial]) -> dict[int, tuple[str, float | None]]:
    """Name and operations of each trial's workload, by task."""
    runs = [store.runs.get(run_id) for run_id in dict.fromkeys(trial.run_id for trial in trials)]
    return {task.id: (task.workload.name, task.workload.flops) for run in runs for task in run.tasks}
