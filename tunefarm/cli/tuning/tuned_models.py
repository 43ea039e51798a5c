"""Compare a run's models with their untuned builds, and give back the slower kernels in the store."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from compiler import hooks
from compiler.errors import TunefarmError
from compiler.target.target import Target
from tunefarm.cli.models.configs import stored_configs
from tunefarm.model_schedules import schedules_of
from tuner.devices.fleet import Fleet
from tuner.engine.options import RunOptions
from tuner.faces.kernel_schedules import draft_of
from tuner.goals import Goal
from tuner.kernels.jobs import recorded_models
from tuner.kernels.model import model_kernels
from tuner.kernels.model_guard import GuardedModel, guarded
from tuner.kernels.model_version import ModelSource, model_source, plan_of
from tuner.kernels.stored import check_profilable, is_stored
from tuner.records.lookup.keys import candidate_digest
from tuner.records.model import Run, RunState
from tuner.records.store import RecordStore


def guard_models(store: RecordStore, run: Run, options: RunOptions, fleet: Fleet) -> dict[str, GuardedModel]:
    """Compare the models that the run tuned whole with their untuned builds, on a device of `fleet`.

    Returns the comparisons by the models' names. A run that did not finish, or that made energy small, has none. Nor
    has a model that was tuned from the store, unless that holds its ONNX file.
    """
    hooks.name_answer(hooks.SCHEDULES, "tuner.faces.kernel_schedules:KERNEL_SCHEDULES")  # as an untuned build has it
    if run.state is not RunState.FINISHED or options.objective != Goal.TIME:
        return {}
    tuned = {str(record.get("name", "")) for record in options.workloads}
    device_class = next((trial.device_class for trial in store.trials.all(run.id) if trial.device_class), "")
    found: dict[str, GuardedModel] = {}
    with tempfile.TemporaryDirectory(prefix="tunefarm-models-") as folder:
        models = {source.name: source for source in recorded_models(options.workloads)}
        for name, source in (models | _kept_models(store, options.workloads, Path(folder))).items():
            if {kernel.name for kernel in plan_of(source).kernels} <= tuned:
                guard = _guard(store, source, options.target, device_class, fleet)
                found |= {} if guard is None else {name: guard}
    return found


def _kept_models(
    store: RecordStore, records: Iterable[Mapping[str, Any]], folder: Path
) -> dict[str, ModelSource]:  # fmt: skip
    """The models of the store that a run tuned kernels of, and whose files it holds, by name."""
    found = {}
    for name, digest in {(str(record["model"]), str(record["version"])) for record in records if is_stored(record)}:
        with suppress(TunefarmError):
            version = store.models.version_of(store.models.find(name).id, digest)
            check_profilable(version)
            path = folder / f"{digest}.onnx"
            with path.open("wb") as file:
                file.writelines(store.models.file(version.id))
            found[name] = model_source(str(path), version.sizes)
    return found


def _guard(
    store: RecordStore, model: ModelSource, target: str, device_class: str, fleet: Fleet
) -> GuardedModel | None:  # fmt: skip
    chosen = Target(target)
    module = model.read().module
    known = stored_configs(store, model_kernels(module, chosen), target, device_class)
    found = guarded(module, chosen, None, schedules_of(known).find, fleet)
    for kernel in found.given_back if found else ():
        draft = draft_of(kernel.func, chosen)
        keep: Collection[str] = () if draft is None else (candidate_digest(draft.to_json()),)
        store.best.give_back(kernel.key, target, device_class, keep)
    return found
