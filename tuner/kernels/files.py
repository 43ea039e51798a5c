"""Files of kernels, in TOML and Python: the items that they ask to tune."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from compiler.ir.module import IRModule
from compiler.target.target import Target
from compiler.tir.nodes import PrimFunc
from tuner.engine.options import RunOptions
from tuner.engine.plan import Knowledge, TaskSearch, sketch_search
from tuner.families.sizes import SizeList
from tuner.kernels.family_jobs import FamilyItem, KernelFamily, family_item, family_record, weighed
from tuner.kernels.hand_schedules import HandSchedules
from tuner.kernels.includes import local_headers
from tuner.kernels.kernel import CKernel, FunctionKernel, Kernel, Made, kernel_search
from tuner.kernels.model_version import ModelSource
from tuner.kernels.run_models import model_name
from tuner.kernels.space import Config
from tuner.kernels.spec import (
    CTable,
    CTexts,
    FamilyTable,
    SizesTable,
    SpecError,
    family_table,
    named_workload,
    parse_spec,
    run_values,
)
from tuner.task import TuningTask
from tuner.workloads import WorkloadSpec

_FORMS = (
    "a Python file defines FunctionKernel, CKernel, PrimFunc or HandSchedules objects, or lists of them, under public "
    'names, or workloads = ["matmul:512,512,512:float32"]'
)


@dataclass(frozen=True)
class Item:
    """One thing to tune. `record` is what a run's options keep of it: enough to find it again."""

    what: WorkloadSpec | Kernel | PrimFunc | HandSchedules
    record: Mapping[str, Any]

    def search(self, target: str, options: RunOptions, knowledge: Knowledge | None = None) -> TaskSearch:
        """The engine's task for it; `knowledge` serves what has a derived space."""
        match self.what:
            case WorkloadSpec():
                task = TuningTask.from_spec(self.what, target)
            case PrimFunc():
                task = TuningTask(self.record["name"], self.what, Target(target))
            case HandSchedules():
                return self.what.search(target)
            case _:
                return kernel_search(self.what, target, options.strategy, options.seed)
        weight = float(self.record.get("weight", 1))
        return sketch_search(
            task, options.strategy, options.seed, weight=weight, knowledge=knowledge or Knowledge(), model=self.model
        )

    @property
    def model(self) -> str:
        """The name of the model that it is a kernel of, or ""."""
        return model_name(self.record)


@dataclass(frozen=True)
class KernelJob:
    """Items to tune, the settings of a file's [run] table, or its `run` in Python, and the models in it."""

    items: tuple[Item, ...]
    run: Mapping[str, Any] = field(default_factory=dict)
    models: tuple[ModelSource, ...] = ()
    families: tuple[FamilyItem, ...] = ()

    @property
    def records(self) -> tuple[Mapping[str, Any], ...]:
        """The records that a run's options keep of all that is tuned: the items, then the families."""
        return (*(item.record for item in self.items), *(family.record for family in self.families))


def kernels_of_file(path: Path) -> KernelJob:
    """The kernels of a TOML or Python file, and how it says that they are tuned. Raises SpecError."""
    return _toml(path) if path.suffix == ".toml" else _python(path)


def has_model(path: Path, name: str) -> bool:
    """Whether a Python file calls a module of graphs so, or a function that gives one."""
    found = vars(_module(str(path), _digest(_text(path, "tune")))).get(name)
    return isinstance(found, IRModule | FunctionType)


def file_record(path: Path, digest: str, name: str) -> dict[str, str]:
    """The record that a run keeps of a kernel in a file."""
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
    families = [_family(table, path.parent) for table in spec.families]
    for table in spec.kernels:
        texts = _c_texts(table, path.parent)
        digest = _digest(text, *texts.all)
        if table.sized is None:
            items.append(Item(table.kernel(texts), file_record(path, digest, table.name)))
        else:
            families.append(_c_family(table, texts, file_record(path, digest, table.family), path.parent))
    return KernelJob(tuple(items), spec.run, families=tuple(families))


def _c_texts(table: CTable, folder: Path) -> CTexts:
    """The texts of the files that a kernel in C names. Raises SpecError for one that cannot be read."""
    file = folder / table.source
    source = _text(file, f"{table.where}: source")
    more = tuple((Path(name).name, _text(folder / name, f"{table.where}: source")) for name in table.more)
    headers = dict(
        header for text in (source, *(text for _, text in more)) for header in local_headers(text, file.parent)
    )
    rival = "" if table.rival is None else _text(folder / table.rival.source, f"{table.rival.where}: source")
    return CTexts(source, tuple(sorted(headers.items())), more, rival)


def _family(table: FamilyTable, folder: Path) -> FamilyItem:
    return family_item(table.spec, _weighed(table.sized, folder), table.sized.portfolio)


def _weighed(sized: SizesTable, folder: Path) -> SizeList:
    return weighed(sized.sizes, None if sized.traffic is None else folder / sized.traffic)


def _c_family(table: CTable, texts: CTexts, record: Mapping[str, str], folder: Path) -> FamilyItem:
    """A kernel in C at many sizes, each of which compiles the same source."""
    assert table.sized is not None
    assert table.at is not None
    at = table.at
    sizes = _weighed(table.sized, folder)
    kernel = KernelFamily(table.family, lambda size: at(size).kernel(texts), sizes, table.sized.portfolio)
    return FamilyItem(kernel, sizes, kernel.portfolio, family_record(record, sizes, kernel.portfolio))


# ------------------------------------------------------------------------------ Python


@dataclass(frozen=True)
class FileMake:
    """`make` of the FunctionKernel that a file calls `name`, or of its KernelFamily at `sizes`.

    Build workers get this and read the file themselves, for the module has no name to import it by; a cluster's workers
    need it at the same path.
    """

    path: str
    digest: str
    name: str
    sizes: tuple[tuple[str, int], ...] = ()

    def __call__(self, config: Config) -> Made:
        module = _module(self.path, self.digest)
        if self.sizes:
            family = vars(module)[self.name]
            assert isinstance(family, KernelFamily)
            kernel: object = family.at(dict(self.sizes))
        else:
            kernel = _named(module)[self.name]
        assert isinstance(kernel, FunctionKernel)
        return kernel.make(config)


def _python(path: Path) -> KernelJob:
    digest = _digest(_text(path, "tune"))
    module = _module(str(path), digest)
    found = _named(module)
    items = _workloads(module, path.name)
    families = _families(module, path, digest)
    if not found and not items and not families:
        raise SpecError(f"{path} defines no kernel", hint=_FORMS)
    for name, what in found.items():
        if isinstance(what, FunctionKernel):
            what = replace(what, make=FileMake(str(path), digest, name))
        items.append(Item(what, file_record(path, digest, name)))
    run = vars(module).get("run")
    values = run_values(run, f"{path.name}: run") if isinstance(run, dict) else {}
    return KernelJob(tuple(items), values, families=tuple(families))


def _families(module: ModuleType, path: Path, digest: str) -> list[FamilyItem]:
    """Return a module's `families`, as TOML's tables have them, and the KernelFamily objects it names."""
    listed = vars(module).get("families")
    tables = listed if isinstance(listed, list | tuple) else ()
    items = [
        _family(family_table(table, f"{path.name}: families[{at}]"), path.parent) for at, table in enumerate(tables)
    ]
    for name, value in vars(module).items():
        if isinstance(value, KernelFamily) and not name.startswith("_"):
            kernel = replace(value, at=partial(_kernel_here, str(path), digest, name, value))
            record = family_record(file_record(path, digest, name), value.sizes, value.portfolio)
            items.append(FamilyItem(kernel, value.sizes, value.portfolio, record))
    return items


def _kernel_here(path: str, digest: str, name: str, family: KernelFamily, sizes: Mapping[str, int]) -> Kernel:
    """A family's kernel at one size.
    A Python one is made in build workers, which read the file themselves."""
    kernel = family.at(sizes)
    if isinstance(kernel, FunctionKernel):
        return replace(kernel, make=FileMake(path, digest, name, tuple(sizes.items())))
    return kernel


def _workloads(module: ModuleType, file: str) -> list[Item]:
    """The workloads that a module names in a list of text called `workloads`, as the key of a TOML file."""
    words = vars(module).get("workloads")
    if not isinstance(words, list | tuple) or not any(isinstance(word, str) for word in words):
        return []
    specs = [named_workload(word, f"{file}: workloads[{at}]") for at, word in enumerate(words)]
    return [Item(spec, spec.to_json()) for spec in specs]


def run_file(path: Path) -> ModuleType:
    """A Python file run as a module: for what it registers.
    Raises SpecError when it cannot be read or fails."""
    full = str(path.resolve())
    return _module(full, _digest(_text(Path(full), "run")))


def _named(module: ModuleType) -> dict[str, Kernel | PrimFunc | HandSchedules]:
    """The kernels of a module by their names, `name[0]` in a list, each object once.
    A function that is only another kernel's reference, or scheduled by hand, is left out."""
    found: dict[str, Kernel | PrimFunc | HandSchedules] = {}
    for name, value in vars(module).items():
        if name.startswith("_"):
            continue
        several = isinstance(value, list | tuple)
        for at, one in enumerate(value if several else (value,)):
            new = all(one is not known for known in found.values())
            if new and isinstance(one, FunctionKernel | CKernel | PrimFunc | HandSchedules):
                found[f"{name}[{at}]" if several else name] = one
    references: list[object] = [k.reference for k in found.values() if isinstance(k, FunctionKernel)]
    references += [k.what for k in found.values() if isinstance(k, HandSchedules)]
    return {name: k for name, k in found.items() if all(k is not reference for reference in references)}


@lru_cache(maxsize=32)
def _module(path: str, digest: str) -> ModuleType:
    """The file run as a module, with its folder to import from.
    Raises SpecError when it is another file by now, or fails."""
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
