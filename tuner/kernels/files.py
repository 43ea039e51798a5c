"""What a command line asks to tune: named workloads, files of kernels, models, and the same again on resuming."""

from __future__ import annotations

import hashlib
import importlib.util
import re
import sys
import traceback
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

from compiler.target.target import Target
from compiler.tir.nodes import PrimFunc
from tuner.engine.options import RunOptions
from tuner.engine.plan import Knowledge, TaskSearch, sketch_search
from tuner.kernels.includes import local_headers
from tuner.kernels.kernel import CKernel, FunctionKernel, Kernel, Made, kernel_search
from tuner.kernels.model import is_model, kernels_of_file
from tuner.kernels.space import Config
from tuner.kernels.spec import SpecError, named_workload, parse_spec, run_values
from tuner.task import TuningTask
from tuner.workloads import WorkloadSpec

_FILE = re.compile(r"(?P<path>.+\.(?:py|toml|onnx|pt2))(?::(?P<name>[^:/]+))?")
_FORMS = (
    "a Python file defines FunctionKernel, CKernel or PrimFunc objects, or lists of them, under public names, "
    'or workloads = ["matmul:512,512,512:float32"]'
)


@dataclass(frozen=True)
class Item:
    """One thing to tune. `record` is what a run's options keep of it: enough to find it again."""

    what: WorkloadSpec | Kernel | PrimFunc
    record: Mapping[str, Any]

    def search(self, target: str, options: RunOptions, knowledge: Knowledge | None = None) -> TaskSearch:
        """The engine's task for it; `knowledge` serves what has a derived space."""
        match self.what:
            case WorkloadSpec():
                task = TuningTask.from_spec(self.what, target)
            case PrimFunc():
                task = TuningTask(self.record["name"], self.what, Target(target))
            case _:
                return kernel_search(self.what, target, options.strategy, options.seed)
        weight = float(self.record.get("weight", 1))
        found = sketch_search(task, options.strategy, options.seed, weight=weight, knowledge=knowledge or Knowledge())
        file = Path(self.record.get("file", ""))
        return replace(found, model=file.stem) if is_model(file) else found


@dataclass(frozen=True)
class KernelJob:
    """What to tune, and what a file's [run] table, or its `run` in Python, says of the run."""

    items: tuple[Item, ...]
    run: Mapping[str, Any] = field(default_factory=dict)


def read_job(words: Sequence[str]) -> KernelJob:
    """The job that `words` ask for: workloads, FILE.toml, FILE.py, a model (.onnx, .pt2), or a file with `:NAME` of one
    kernel in it.

    Raises SpecError, WorkloadError.
    """
    jobs = [_read(word) for word in words]
    if sum(bool(job.run) for job in jobs) > 1:
        raise SpecError("two files say how the run goes", hint="keep one of them, or start a run for each file")
    run = next((job.run for job in jobs if job.run), {})
    return KernelJob(tuple(item for job in jobs for item in job.items), run)


def recorded_items(records: Iterable[Mapping[str, Any]]) -> tuple[Item, ...]:
    """The items of a recorded run. Raises SpecError when a file they come from is gone or not the same any more."""
    found = []
    for record in records:
        if "file" not in record:
            found.append(Item(WorkloadSpec.from_json(record), record))
            continue
        hint = "put back the file as it was, or start a new run; what was measured stays in the store"
        if not Path(record["file"]).is_file():
            raise SpecError(f"{record['file']}, which defines {record['name']}, is gone", hint=hint)
        same = [item for item in _kernels(Path(record["file"])).items if item.record == record]
        if not same:
            raise SpecError(f"{record['file']} has changed since the run began", hint=hint)
        found.append(same[0])
    return tuple(found)


def _read(word: str) -> KernelJob:
    parts = _FILE.fullmatch(word)
    if parts is None:
        spec = WorkloadSpec.parse(word)
        return KernelJob((Item(spec, spec.to_json()),))
    path = Path(parts["path"])
    if not path.is_file():
        raise SpecError(
            f"there is no file {parts['path']}", hint="give the path of a kernel's file, or a workload by name"
        )
    job = _kernels(path.resolve())
    if (name := parts["name"]) is None:
        return job
    chosen = tuple(item for item in job.items if item.record.get("name") == name)
    if not chosen:
        names = ", ".join(item.record["name"] for item in job.items if "name" in item.record)
        raise SpecError(f"{parts['path']} defines no kernel {name}", hint=f"it has {names or 'none'}")
    return replace(job, items=chosen)


def _kernels(path: Path) -> KernelJob:
    if is_model(path):
        return _model(path)
    return _toml(path) if path.suffix == ".toml" else _python(path)


def _model(path: Path) -> KernelJob:
    """The kernels of a model, each with the number of its calls as weight."""
    try:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise SpecError(f"{path} can't be read: {error.strerror}") from None
    items = [
        Item(kernel.func, {**_record(path, digest, kernel.name), "weight": kernel.weight})
        for kernel in kernels_of_file(str(path), digest)
    ]
    if not items:
        raise SpecError(f"{path} has no kernel to tune", hint="shapes that are only known at run time can't be tuned")
    return KernelJob(tuple(items))


def _record(path: Path, digest: str, name: str) -> dict[str, str]:
    return {"file": str(path), "digest": digest, "name": name}


def _text(path: Path, asked_by: str) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise SpecError(f"{asked_by}: {path} can't be read: {reason}") from None


def _digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()


# -------------------------------------------------------------------------------- TOML


def _toml(path: Path) -> KernelJob:
    text = _text(path, "tune")
    spec = parse_spec(text, path.name)
    items = [Item(workload, workload.to_json()) for workload in spec.workloads]
    for table in spec.kernels:
        file = path.parent / table.source
        source = _text(file, f"{table.where}: source")
        headers = local_headers(source, file.parent)
        digest = _digest(text, source, *(part for header in headers for part in header))
        items.append(Item(table.kernel(source, headers), _record(path, digest, table.name)))
    return KernelJob(tuple(items), spec.run)


# ------------------------------------------------------------------------------ Python


@dataclass(frozen=True)
class FileMake:
    """`make` of the FunctionKernel that a file calls `name`. Build workers get this and read the file themselves, for
    the module has no name to import it by; a cluster's workers need it at the same path."""

    path: str
    digest: str
    name: str

    def __call__(self, config: Config) -> Made:
        kernel = _named(_module(self.path, self.digest))[self.name]
        assert isinstance(kernel, FunctionKernel)
        return kernel.make(config)


def _python(path: Path) -> KernelJob:
    digest = _digest(_text(path, "tune"))
    module = _module(str(path), digest)
    found = _named(module)
    items = _workloads(module, path.name)
    if not found and not items:
        raise SpecError(f"{path} defines no kernel", hint=_FORMS)
    for name, what in found.items():
        if isinstance(what, FunctionKernel):
            what = replace(what, make=FileMake(str(path), digest, name))
        items.append(Item(what, _record(path, digest, name)))
    run = vars(module).get("run")
    return KernelJob(tuple(items), run_values(run, f"{path.name}: run") if isinstance(run, dict) else {})


def _workloads(module: ModuleType, file: str) -> list[Item]:
    """The workloads that a module names in a list of text called `workloads`, as the key of a TOML file."""
    words = vars(module).get("workloads")
    if not isinstance(words, list | tuple) or not any(isinstance(word, str) for word in words):
        return []
    specs = [named_workload(word, f"{file}: workloads[{at}]") for at, word in enumerate(words)]
    return [Item(spec, spec.to_json()) for spec in specs]


def run_file(path: Path) -> ModuleType:
    """A Python file run as a module: for what it registers. Raises SpecError when it cannot be read or fails."""
    full = str(path.resolve())
    return _module(full, _digest(_text(Path(full), "run")))


def _named(module: ModuleType) -> dict[str, Kernel | PrimFunc]:
    """The kernels of a module by their names, `name[0]` in a list, each object once; a function that is only another
    kernel's reference is left out."""
    found: dict[str, Kernel | PrimFunc] = {}
    for name, value in vars(module).items():
        if name.startswith("_"):
            continue
        several = isinstance(value, list | tuple)
        for at, one in enumerate(value if several else (value,)):
            new = all(one is not known for known in found.values())
            if new and isinstance(one, FunctionKernel | CKernel | PrimFunc):
                found[f"{name}[{at}]" if several else name] = one
    references = [k.reference for k in found.values() if isinstance(k, FunctionKernel)]
    return {name: k for name, k in found.items() if all(k is not reference for reference in references)}


@lru_cache(maxsize=32)
def _module(path: str, digest: str) -> ModuleType:
    """The file run as a module, with its folder to import from. Raises SpecError when it is another file by now, or
    fails."""
    if _digest(_text(Path(path), "build")) != digest:
        raise SpecError(f"{path} has changed since the run began")
    name = f"_tunefarm_{digest[:16]}"
    found = importlib.util.spec_from_file_location(name, path)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules[name] = module  # decorators look their module up
    if (folder := str(Path(path).parent)) not in sys.path:
        sys.path.append(folder)
    try:
        found.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # the user's code: any error of it is theirs to read
        del sys.modules[name]
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
        place = f"{path}, line {lines[-1]}" if lines else path
        raise SpecError(f"{place}: {type(error).__name__}: {error}") from None
    return module
