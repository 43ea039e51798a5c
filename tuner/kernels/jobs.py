"""The job that a command line asks for: named workloads, files of kernels, models.

It is found again when a run is resumed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from compiler.frontend.model_files import is_named_model
from tuner.kernels.family_jobs import AskedSizes, FamilyItem, recorded_family
from tuner.kernels.files import Item, KernelJob, file_record, has_model, kernels_of_file
from tuner.kernels.model_version import ModelSource, model_source, plan_of
from tuner.kernels.run_models import is_model
from tuner.kernels.spec import SpecError
from tuner.kernels.stored import is_stored, stored_kernel
from tuner.records.store import RecordStore
from tuner.workloads import WorkloadSpec

_FILE = re.compile(r"(?P<path>.+\.(?:py|toml|onnx|pt2))(?::(?P<name>[^:/]+))?")
_PUT_BACK = "put back the file as it was, or start a new run; what was measured stays in the store"


def read_job(
    words: Sequence[str], sizes: Mapping[str, int] | None = None, shapes: AskedSizes | None = None
) -> KernelJob:
    """Return the job that `words` ask for.

    They are workloads, FILE.toml, FILE.py, a model (.onnx, .pt2, FILE.py:NAME of one), or a file with `:NAME` of one
    kernel in it. `sizes` fix symbolic dimensions of models; `shapes` are sizes that they are tuned for. Raises
    SpecError, WorkloadError, FamilyError.
    """
    jobs = [_read(word, sizes or {}, shapes) for word in words]
    if sizes and not any(job.models for job in jobs):
        raise SpecError("sizes of dimensions are for models", hint="a model is FILE.onnx, FILE.pt2 or FILE.py:NAME")
    if sum(bool(job.run) for job in jobs) > 1:
        raise SpecError("two files say how the run goes", hint="keep one of them, or start a run for each file")
    run = next((job.run for job in jobs if job.run), {})
    families = tuple(family for job in jobs for family in job.families)
    models = tuple(dict.fromkeys(model for job in jobs for model in job.models))
    return KernelJob(tuple(item for job in jobs for item in job.items), run, models, families)


def recorded_job(records: Iterable[Mapping[str, Any]], store: RecordStore | None = None) -> KernelJob:
    """Return what a recorded run tunes.
    `store` has the functions of what came from it. Raises SpecError when a file it comes from is gone or not the
    same any more."""
    known = tuple(records)
    items = recorded_items((record for record in known if "family" not in record), store)
    families = tuple(_recorded_family(record) for record in known if "family" in record)
    return KernelJob(items, families=families)


def _recorded_family(record: Mapping[str, Any]) -> FamilyItem:
    what = record["family"]
    if "file" not in what:
        return recorded_family(record)
    path = _unchanged(what)
    same = [family for family in _kernels(path).families if family.record == record]
    if not same:
        raise SpecError(f"{path} has changed since the run began", hint=_PUT_BACK)
    return same[0]


def recorded_items(records: Iterable[Mapping[str, Any]], store: RecordStore | None = None) -> tuple[Item, ...]:
    """The items of a recorded run.
    `store` has the functions of those that came from it. Raises SpecError when a file they come from is gone or not
    the same any more."""
    found = []
    for record in records:
        if is_stored(record):
            found.append(Item(stored_kernel(record, store), record))
            continue
        if "file" not in record:
            found.append(Item(WorkloadSpec.from_json(record), record))
            continue
        path = _unchanged(record)
        same = [item for item in _recorded(record).items if item.record == record]
        if not same:
            raise SpecError(f"{path} has changed since the run began", hint=_PUT_BACK)
        found.append(same[0])
    return tuple(found)


def recorded_models(records: Iterable[Mapping[str, Any]]) -> tuple[ModelSource, ...]:
    """The models in files that a recorded run tunes kernels of.
    Raises SpecError where a file cannot be read."""
    found = {}
    for record in records:
        path = Path(record.get("file", ""))
        if "file" in record and ("model" in record or is_model(path)):
            text = f"{path}:{record['model']}" if "model" in record else str(path)
            found[text, str(record.get("sizes"))] = model_source(text, record.get("sizes"))
    return tuple(found.values())


def _unchanged(record: Mapping[str, Any]) -> Path:
    path = Path(record["file"])
    if not path.is_file():
        raise SpecError(f"{path}, which defines {record['name']}, is gone", hint=_PUT_BACK)
    return path


def _recorded(record: Mapping[str, Any]) -> KernelJob:
    """The job of a record's file, or of the model in it."""
    if "model" in record or "sizes" in record:
        text = f"{record['file']}:{record['model']}" if "model" in record else record["file"]
        return _model(model_source(text, record.get("sizes")))
    return _kernels(Path(record["file"]))


def _read(word: str, sizes: Mapping[str, int], shapes: AskedSizes | None) -> KernelJob:
    if is_named_model(word):
        return _model(model_source(word, sizes), shapes)
    parts = _FILE.fullmatch(word)
    if parts is None:
        spec = WorkloadSpec.parse(word)
        return KernelJob((Item(spec, spec.to_json()),))
    path = Path(parts["path"])
    if not path.is_file():
        raise SpecError(
            f"there is no file {parts['path']}", hint="give the path of a kernel's file, or a workload by name"
        )
    name = parts["name"]
    if name is not None and path.suffix == ".py" and has_model(path.resolve(), name):
        return _model(model_source(f"{path}:{name}", sizes), shapes)
    job = _model(model_source(str(path), sizes), shapes) if is_model(path) else _kernels(path.resolve())
    if name is None:
        return job
    chosen = tuple(item for item in job.items if item.record.get("name") == name)
    families = tuple(family for family in job.families if family.record["family"].get("name") == name)
    if not chosen and not families:
        records = [*(item.record for item in job.items), *(family.record["family"] for family in job.families)]
        names = ", ".join(record["name"] for record in records if "name" in record)
        raise SpecError(f"{parts['path']} defines no kernel {name}", hint=f"it has {names or 'none'}")
    return replace(job, items=chosen, families=families)


def _kernels(path: Path) -> KernelJob:
    if is_model(path):
        return _model(model_source(str(path)))
    return kernels_of_file(path)


def _model(source: ModelSource, shapes: AskedSizes | None = None) -> KernelJob:
    """The kernels of a model, each with its number of calls as weight.
    Those of symbolic sizes are families if `shapes` gives their sizes."""
    more: dict[str, Any] = {"model": source.attribute} if source.attribute else {}
    if source.sizes:
        more["sizes"] = dict(source.sizes)
    items = [
        Item(kernel.func, {**file_record(source.path, source.digest, kernel.name), **more, "weight": kernel.weight})
        for kernel in plan_of(source).kernels
    ]
    sized = plan_of(source).families
    if shapes is not None and not sized:
        raise SpecError(f"{source.text} has no kernel whose sizes vary", hint="leave --shapes out")
    families = tuple(shapes.item(family.spec) for family in sized) if shapes is not None else ()
    if not items and not families:
        hint = "sizes that are only known at run time can be fixed: --dim NAME=SIZE"
        if sized:
            hint += f"; or tuned for several: --shapes {sized[0].spec.symbols[0]}=1,16,128"
        raise SpecError(f"{source.text} has no kernel to tune", hint=hint)
    return KernelJob(tuple(items), models=(source,), families=families)


def is_file(word: str) -> bool:
    """Whether a word names a file of kernels, or one kernel in it."""
    return _FILE.fullmatch(word) is not None


def names_model(word: str) -> bool:
    """Return whether a word names a model: FILE.onnx, FILE.pt2, torchvision:NAME, or FILE.py:NAME.
    NAME is then a module of graphs, whose file is run."""
    if is_named_model(word):
        return True
    parts = _FILE.fullmatch(word)
    if parts is None or (path := Path(parts["path"])).suffix == ".toml":
        return False
    if path.suffix != ".py":
        return parts["name"] is None
    return parts["name"] is not None and path.is_file() and has_model(path.resolve(), parts["name"])
