"""Modules written into files other programs use: objects, shared libraries and tar files."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from compiler.artifact import LINKED, Artifact
from compiler.errors import ArtifactError
from compiler.runtime.core import native
from compiler.runtime.files.checksum import append_checksum
from compiler.runtime.files.described_object import (
    IMPORT,
    MOST_NESTED,
    SECTION,
    described,
    described_object,
    read_records,
)
from compiler.runtime.files.elf import read_object
from compiler.runtime.files.elf_section import RELOCATABLE, elf_kind, read_section, with_flags_of
from compiler.runtime.files.linker import create_shared, create_tar
from compiler.target.cpu_features import architecture
from compiler.target.target import Target

AnyFunction = Callable[..., Any]


class Exported(Protocol):
    """A module that can be written to a file. One with code of its own has an `artifact` too."""

    @property
    def static_code(self) -> bytes | None: ...
    @property
    def is_part_of_importer(self) -> bool: ...
    @property
    def imported_modules(self) -> Sequence[Exported]: ...


def bundle(module: Exported, depth: int = 0, addons: Sequence[bytes] = ()) -> Artifact:
    """A module's artifact with the modules it imports, and objects to link, as blobs.

    Raises ArtifactError for a module without an artifact.
    """
    artifact = getattr(module, "artifact", None)
    if not isinstance(artifact, Artifact):
        raise ArtifactError(
            f"a {type(module).__name__} cannot be written to a file: it has no artifact",
            hint="modules that `tvm.build` made have one; others are imported again after loading",
        )
    if depth > MOST_NESTED:
        raise ArtifactError(f"modules that import modules more than {MOST_NESTED} deep cannot be written")
    blobs = {name: blob for name, blob in artifact.blobs.items() if not name.startswith(IMPORT)}
    travelling = [m for m in module.imported_modules if m.static_code is None and not m.is_part_of_importer]
    for index, imported in enumerate(travelling):
        blobs[f"{IMPORT}{index}"] = bundle(imported, depth + 1).to_bytes()
    for index, code in enumerate((*artifact.linked, *static_objects(module), *addons)):
        blobs[f"{LINKED}{index}"] = code
    return Artifact(artifact.target, artifact.cpu_features, artifact.entries, blobs, artifact.meta)


def static_objects(module: Exported) -> list[bytes]:
    """The code of the static libraries a module imports, and of those that these import."""
    found: list[bytes] = []
    for library in module.imported_modules:
        if library.static_code is not None:
            found += [library.static_code, *static_objects(library)]
    return found


def _without_linked(whole: Artifact) -> Artifact:
    blobs = {name: blob for name, blob in whole.blobs.items() if not name.startswith(LINKED)}
    return Artifact(whole.target, whole.cpu_features, whole.entries, blobs, whole.meta)


def _read_addon(name: str, target: str) -> bytes:
    """An addon that no linker makes: it must be an object for the target's machine."""
    try:
        code = Path(name).read_bytes()
    except OSError as error:
        raise ArtifactError(f"cannot read the addon {name!r}: {error.strerror}") from None
    wanted = architecture(Target(target).triple)
    if elf_kind(code) != RELOCATABLE or read_object(code).machine != wanted:
        raise ArtifactError(
            f"the addon {name!r} is no {wanted} object file, so it cannot be linked when the library is loaded",
            hint='compile it first (cc -c -fPIC), or export to ".so", where the linker takes what it knows',
        )
    return code


def export_library(
    module: Exported, file_name: str, fcompile: AnyFunction | None = None, addons: Sequence[str] | None = None,
    workspace_dir: str | None = None, **kwargs: Any,
) -> Any:  # fmt: skip
    """Write a module and those it imports into one library. See `Module.export_library`."""
    path = Path(file_name)
    linked_later = path.suffix == ".tar" or (fcompile is None and path.suffix == ".tunefarm")
    plain = whole = bundle(module)
    if linked_later and addons:
        whole = bundle(module, addons=[_read_addon(str(name), whole.target) for name in addons])
    if fcompile is None and path.suffix == ".tunefarm":
        path.write_bytes(whole.to_bytes())
        return None
    if fcompile is None:
        fcompile = create_tar if path.suffix == ".tar" else create_shared
    suffix = getattr(fcompile, "object_format", "o")
    as_text = suffix in _TEXTS
    if suffix not in ("o", "obj") and not (as_text and not linked_later):
        raise ArtifactError(
            f"fcompile asks for modules as {suffix!r}, but they cannot be written so",
            hint=f"its object_format may be: o, obj, {', '.join(_TEXTS)} (the last three not in a tar file)",
        )
    with tempfile.TemporaryDirectory(prefix="tunefarm-") as scratch:
        folder = Path(workspace_dir) if workspace_dir is not None else Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        o = "o" if as_text else suffix
        alone = _without_linked(whole)
        code = _TEXTS[suffix](module) if as_text else described_object(whole if linked_later else alone)
        files = {f"lib0.{suffix}": code}
        if not linked_later:
            support = native.compiled(Target(whole.target).triple)
            built = whole.blobs["object"]
            support = with_flags_of(support, built) if elf_kind(built) is not None else support
            files[f"devc.{o}"] = described(support, alone) if as_text else support
        files.update((f"static{index}.{o}", code) for index, code in enumerate(plain.linked))
        for name, data in files.items():
            (folder / name).write_bytes(data)
        inputs = [*(str(folder / name) for name in files), *map(str, addons or ())]
        result = fcompile(str(path), inputs, **kwargs)
    append_checksum(path, SECTION)
    return result


def _source(module: Exported, fmt: str) -> str:
    get_source = getattr(module, "get_source", None)
    if get_source is None:
        raise ArtifactError(f"a {type(module).__name__} has no source")
    return str(get_source(fmt))


def missing_support(objects: Sequence[str]) -> bytes | None:
    """Return the runtime's native part as an object if saved modules among these files need it; else None."""
    read = [code for name in objects if elf_kind(code := Path(name).read_bytes()) == RELOCATABLE]
    symbols = [read_object(code) for code in read]
    defined = {name for found in symbols for name in found.defined}
    for code, found in zip(read, symbols):
        section = read_section(code, SECTION)
        if section is not None and any(name.startswith(_OWN) for name in found.undefined - defined):
            return with_flags_of(native.compiled(Target(read_records(section)[0].target).triple), code)
    return None


_OWN = "tunefarm_"  # what the names of the native part begin with


def bitcode(module: Exported) -> bytes:
    """Return LLVM's bytes of the text kept when the module was built.
    Raises ArtifactError when it was not kept."""
    import llvmlite.binding as llvm

    return bytes(llvm.parse_assembly(_source(module, "ll")).as_bitcode())


_TEXTS: dict[str, Callable[[Exported], bytes]] = {
    "ll": lambda module: _source(module, "ll").encode(),
    "bc": bitcode,
    "s": lambda module: _source(module, "asm").encode(),
}
"""What a module's code can be written as for a compiler, instead of an object."""
