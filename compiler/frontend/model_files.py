"""Models by file name: what reads each kind of file, as a module of graphs with the model's own names."""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from compiler.errors import ArgumentError
from compiler.ir.module import IRModule
from compiler.relax.nodes import Function
from compiler.tir.nodes import IntImm, PrimExpr, Var

ENTRY = "main"


@dataclass(frozen=True)
class ModelFile:
    """A model.
    `inputs` are the names of main's parameters; `outputs` those of its results, where the file has some."""

    name: str
    module: IRModule
    inputs: tuple[str, ...]
    outputs: tuple[str, ...] = ()

    def with_sizes(self, sizes: Mapping[str, int]) -> ModelFile:
        """The model with symbolic dimensions fixed, given by name.
        Raises IRError for one that it does not have."""
        if not sizes:
            return self
        main = _main(self.module, self.name)
        functions = dict(self.module.functions)
        entry = next(gvar for gvar in functions if gvar.name_hint == ENTRY)
        bound: dict[str | Var, PrimExpr] = {name: IntImm("int64", size) for name, size in sizes.items()}
        functions[entry] = main.bind_symbolic_vars(bound)
        return ModelFile(self.name, self.module.with_functions(functions), self.inputs, self.outputs)

    @property
    def symbolic(self) -> tuple[str, ...]:
        """The names of the dimensions that are open."""
        return tuple(var.name for var in _main(self.module, self.name).symbolic_vars())


def _main(module: IRModule, name: str) -> Function:
    main = module.get(ENTRY)
    if not isinstance(main, Function):
        raise ArgumentError(f"{name} has no graph function {ENTRY!r}")
    return main


def _onnx(path: Path, _: str) -> ModelFile:
    needs("onnx", str(path))
    from compiler.frontend.onnx.from_onnx import import_model  # loads onnx

    found = import_model(path)
    return ModelFile(path.stem, found.module, found.inputs, tuple(output.name for output in found.outputs))


def _exported(path: Path, _: str) -> ModelFile:
    needs("torch", str(path))
    from compiler.frontend.torch.exported import from_exported_file  # loads torch

    return _plain(path.stem, from_exported_file(path))


def needs(package: str, what: str) -> None:
    """Raise ArgumentError, with the command to run, if a package of an optional extra is missing."""
    if importlib.util.find_spec(package) is None:
        extra = "torch" if package.startswith("torch") else package
        raise ArgumentError(f"{what} needs {package}, which is not installed", hint=f"pip install 'tunefarm[{extra}]'")


def _python(path: Path, attribute: str) -> ModelFile:
    if not attribute:
        raise ArgumentError(f"which model of {path}?", hint=f"{path}:NAME, of a module or a function that gives one")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    code = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(code)
    found = getattr(code, attribute, None)
    if callable(found) and not isinstance(found, IRModule):
        found = found()
    if not isinstance(found, IRModule):
        raise ArgumentError(f"{path}:{attribute} is no IRModule, but {'missing' if found is None else type(found)}")
    return _plain(attribute, found)


def _plain(name: str, module: IRModule) -> ModelFile:
    return ModelFile(name, module, tuple(param.name_hint for param in _main(module, name).params))


READERS: Mapping[str, Callable[[Path, str], ModelFile]] = {".onnx": _onnx, ".pt2": _exported, ".py": _python}
"""What reads a file, by its suffix. `.pt2` is what `torch.export.save` writes, `.py` a Python file with a name."""


_NAMED = re.compile(r"torchvision:(?P<name>\w+)(?:@(?P<weights>\w+))?")


def is_named_model(text: str) -> bool:
    """Whether it names a model that is exported on first use: torchvision:NAME[@WEIGHTS]."""
    return _NAMED.fullmatch(text) is not None


def is_model_file(text: str) -> bool:
    """Whether `read_model_file` can read a file of this name."""
    return is_named_model(text) or _split(text)[0].suffix in READERS


def read_model_file(text: str) -> ModelFile:
    """The model of FILE, of FILE.py:NAME, whose code runs, or of torchvision:NAME.

    Raises ArgumentError for an unknown kind of file and for one that is not there, and what its frontend raises.
    """
    path, attribute = split_model_file(text)
    if path.suffix not in READERS:
        raise ArgumentError(f"{text} is no model", hint=f"models are files that end in {', '.join(READERS)}")
    if not path.is_file():
        raise ArgumentError(f"there is no file {path}")
    return READERS[path.suffix](path, attribute)


def split_model_file(text: str) -> tuple[Path, str]:
    """Split FILE.py:NAME into the file and the NAME; NAME is "" for other files.
    A model of torchvision is first exported to a file in the user's cache. Raises ArgumentError for an unknown model,
    or if torchvision is not installed."""
    named = _NAMED.fullmatch(text)
    return (_exported_here(named["name"], named["weights"] or ""), "") if named is not None else _split(text)


def _split(text: str) -> tuple[Path, str]:
    file, colon, attribute = text.rpartition(":")
    return (Path(file), attribute) if colon and file.endswith(".py") else (Path(text), "")


def _exported_here(name: str, weights: str) -> Path:
    needs("torch", f"torchvision:{name}")
    needs("torchvision", f"torchvision:{name}")
    from compiler.frontend.torch.vision import export_vision, torchvision_version  # loads torch

    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "tunefarm" / "models"
    path = cache / f"torchvision-{torchvision_version()}" / f"{name}{'-' + weights if weights else ''}.pt2"
    if not path.is_file():
        export_vision(name, weights, path)
    return path
