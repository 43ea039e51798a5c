"""The items that a command line asks to tune: named workloads, files of kernels, models.

They are found again when a run is resumed.
"""

from __future__ import annotations

import hashlib
import importlib.util
import re
import sys
import traceback
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from compiler.frontend.model_files import is_named_model
from compiler.ir.module import IRModule
from compiler.target.target import Target
from compiler.tir.nodes import PrimFunc
from tuner.engine.options import RunOptions
from tuner.engine.plan import Knowledge, TaskSearch, sketch_search
from tuner.families.sizes import SizeList
from tuner.kernels.family_jobs import (
    AskedSizes,
    FamilyItem,
    KernelFamily,
    family_item,
    family_record,
    recorded_family,
    weighed,
)
from tuner.kernels.hand_schedules import HandSchedules
from tuner.kernels.includes import local_headers
from tuner.kernels.kernel import CKernel, FunctionKernel, Kernel, Made, kernel_search
from tuner.kernels.model import is_model
from tuner.kernels.model_version import ModelSource, model_source, plan_of
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
from tuner.kernels.stored import is_stored, stored_kernel
from tuner.records.store import RecordStore
from tuner.task import TuningTask
from tuner.workloads import WorkloadSpec

_FILE = re.compile(r"(?P<path>.+\.(?:py|toml|onnx|pt2))(?::(?P<name>[^:/]+))?")
_FORMS = (
    "a Python file defines FunctionKernel, CKernel, PrimFunc or HandSchedules objects, or lists of them, under public "
    'names, or workloads = ["matmul:512,512,512:float32"]'
)
_PUT_BACK = "put back the file as it was, or start a new run; what was measured stays in the store"


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
    if name is not None and path.suffix == ".py" and _has_model(path.resolve(), name):
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
    return _toml(path) if path.suffix == ".toml" else _python(path)


def _model(source: ModelSource, shapes: AskedSizes | None = None) -> KernelJob:
    """The kernels of a model, each with its number of calls as weight.
    Those of symbolic sizes are families if `shapes` gives their sizes."""
    more: dict[str, Any] = {"model": source.attribute} if source.attribute else {}
    if source.sizes:
        more["sizes"] = dict(source.sizes)
    items = [
        Item(kernel.func, {**_record(source.path, source.digest, kernel.name), **more, "weight": kernel.weight})
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
    return parts["name"] is not None and path.is_file() and _has_model(path.resolve(), parts["name"])


def _has_model(path: Path, name: str) -> bool:
    """Whether a Python file calls a module of graphs so, or a function that gives one."""
    found = vars(_module(str(path), _digest(_text(path, "tune")))).get(name)
    return isinstance(found, IRModule | FunctionType)


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
    families = [_family(table, path.parent) for table in spec.families]
    for table in spec.kernels:
        texts = _c_texts(table, path.parent)
        digest = _digest(text, *texts.all)
        if table.sized is None:
            items.append(Item(table.kernel(texts), _record(path, digest, table.name)))
        else:
            families.append(_c_family(table, texts, _record(path, digest, table.family), path.parent))
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
        items.append(Item(what, _record(path, digest, name)))
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
            record = family_record(_record(path, digest, name), value.sizes, value.portfolio)
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
