"""Modules in files other programs use: objects, shared libraries and tar files, written and read.

Each object carries a section with what `load_module` must know: records of (magic, length, artifact without its
object code). The linker joins the records of all objects in a library. Imported modules travel in the record as
blobs "import.<i>", whole artifacts with imports of their own; objects to be linked to a module's own (static libraries,
addons) as blobs "linked.<i>", except into a shared library, where the linker puts them.
"""

from __future__ import annotations

import hashlib
import struct
import tarfile
import tempfile
from collections.abc import Callable, Sequence
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import llvmlite.binding as llvm

from compiler.artifact import LINKED, MAGIC, Artifact
from compiler.errors import ArtifactError, DeviceError
from compiler.runtime.core import native
from compiler.runtime.core.special_modules import StaticLibrary
from compiler.runtime.files.checksum import check_seal, seal_library
from compiler.runtime.files.elf import read_object
from compiler.runtime.files.elf_section import RELOCATABLE, elf_kind, read_section, with_section
from compiler.runtime.files.linker import create_shared, create_tar
from compiler.runtime.files.shared_library import SharedLibrary
from compiler.target.cpu_features import architecture
from compiler.target.target import Target

if TYPE_CHECKING:
    from compiler.runtime.core.module import Module

_SECTION = ".tunefarm"
_RECORD = struct.Struct("<8sQ")
_RECORD_MAGIC = b"TFMODULE"
_MOST_NESTED = 16
_IMPORT = "import."
_ORIGINAL = "original"
_ORIGINAL_LAYOUT = struct.Struct("<32sQ64s")
_ELF_HEADER = 64
_MOST_TAR_BYTES = 1 << 32
AnyFunction = Callable[..., Any]


# -- writing ---------------------------------------------------------------------------------------------
def bundle(module: Module, depth: int = 0, addons: Sequence[bytes] = ()) -> Artifact:
    """A module's artifact with the modules it imports, and objects to link, as blobs.

    Raises ArtifactError for a module without an artifact.
    """
    artifact = getattr(module, "artifact", None)
    if not isinstance(artifact, Artifact):
        raise ArtifactError(f"a {type(module).__name__} cannot be written into a library: it has no artifact")
    if depth > _MOST_NESTED:
        raise ArtifactError(f"modules that import modules more than {_MOST_NESTED} deep cannot be written")
    blobs = {name: blob for name, blob in artifact.blobs.items() if not name.startswith(_IMPORT)}
    travelling = [m for m in module.imported_modules if not isinstance(m, StaticLibrary) and not m.is_part_of_importer]
    for index, imported in enumerate(travelling):
        blobs[f"{_IMPORT}{index}"] = bundle(imported, depth + 1).to_bytes()
    for index, code in enumerate((*artifact.linked, *static_objects(module), *addons)):
        blobs[f"{LINKED}{index}"] = code
    return Artifact(artifact.target, artifact.cpu_features, artifact.entries, blobs, artifact.meta)


def static_objects(module: Module) -> list[bytes]:
    """The code of the static libraries a module imports, and of those that these import."""
    found: list[bytes] = []
    for library in module.imported_modules:
        if isinstance(library, StaticLibrary):
            found += [library.code, *static_objects(library)]
    return found


def _without_linked(whole: Artifact) -> Artifact:
    blobs = {name: blob for name, blob in whole.blobs.items() if not name.startswith(LINKED)}
    return Artifact(whole.target, whole.cpu_features, whole.entries, blobs, whole.meta)


def _read_addon(name: str, target: str) -> bytes:
    """An addon of a library that no linker makes: it has to be an object for the target's machine."""
    try:
        code = Path(name).read_bytes()
    except OSError as error:
        raise ArtifactError(f"cannot read the addon {name!r}: {error.strerror}") from None
    wanted = architecture(Target(target).mtriple)
    if elf_kind(code) != RELOCATABLE or read_object(code).machine != wanted:
        raise ArtifactError(
            f"the addon {name!r} is no {wanted} object file, so it cannot be linked when the library is loaded",
            hint='compile it first (cc -c -fPIC), or export to ".so", where the linker takes what it knows',
        )
    return code


def described_object(whole: Artifact) -> bytes:
    """An artifact's object file, with the section that tells `load_module` what is in it."""
    code = whole.blobs.get("object")
    if code is None:
        raise ArtifactError("the module holds no object code to write")
    if elf_kind(code) is None:
        raise ArtifactError(
            f"objects and libraries are written for 64-bit little-endian machines only, not for {whole.target}",
            hint='save or export to a file ending in ".tunefarm"',
        )
    blobs = {name: blob for name, blob in whole.blobs.items() if name != "object"}
    # the new section changes the header and adds to the end, so this much gives the original back
    blobs[_ORIGINAL] = _Original(hashlib.sha256(code).digest(), len(code), code[:_ELF_HEADER]).pack()
    record = Artifact(whole.target, whole.cpu_features, whole.entries, blobs, whole.meta).to_bytes()
    return with_section(code, _SECTION, _RECORD.pack(_RECORD_MAGIC, len(record)) + record)


class _Original(NamedTuple):
    """How to find an object's own bytes again in the file that also describes it."""

    sha256: bytes
    size: int
    header: bytes

    def pack(self) -> bytes:
        return _ORIGINAL_LAYOUT.pack(*self)

    def restore(self, data: bytes) -> bytes:
        code = self.header + data[_ELF_HEADER : self.size]
        if len(code) != self.size or hashlib.sha256(code).digest() != self.sha256:
            raise ArtifactError("its code is damaged: it does not match its sha256")
        return code


def export_library(
    module: Module,
    file_name: str,
    fcompile: AnyFunction | None = None,
    addons: Sequence[str] | None = None,
    workspace_dir: str | None = None,
    **kwargs: Any,
) -> Any:
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
    if suffix not in ("o", "obj"):
        raise ArtifactError(
            f"fcompile asks for modules as {suffix!r}, but they can be written as object files only",
            hint='leave out its object_format attribute, or set it to "o"',
        )
    with tempfile.TemporaryDirectory(prefix="tunefarm-") as scratch:
        folder = Path(workspace_dir) if workspace_dir is not None else Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        files = {f"lib0.{suffix}": described_object(whole if linked_later else _without_linked(whole))}
        if not linked_later:
            files[f"devc.{suffix}"] = _support_object(Target(whole.target).mtriple)
        files.update((f"static{index}.{suffix}", code) for index, code in enumerate(plain.linked))
        for name, data in files.items():
            (folder / name).write_bytes(data)
        inputs = [*(str(folder / name) for name in files), *map(str, addons or ())]
        result = fcompile(str(path), inputs, **kwargs)
    seal_library(path, _SECTION)
    return result


@lru_cache(maxsize=8)
def _support_object(triple: str | None) -> bytes:
    """The runtime's native part as an object, so that a library needs nothing of tunefarm beside it."""
    arch = architecture(triple)
    if arch not in native.ARCHITECTURES:
        raise DeviceError(f"a library for {arch} cannot be made self-contained", hint='export to a ".tar" file')
    text = native.source_text(arch)
    native.target_machine()  # initialises LLVM
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple(triple or llvm.get_process_triple())
    machine = target.create_target_machine(opt=2, reloc="pic")
    return bytes(machine.emit_object(llvm.parse_assembly(text)))


# -- reading ---------------------------------------------------------------------------------------------
def load_file(path: str, fmt: str = "") -> Module:
    """Load what `save` or `export_library` wrote; the contents decide, not the name. See `module.load_module`."""
    file = Path(path)
    try:
        data = file.read_bytes()
    except OSError as error:
        raise ArtifactError(f"cannot read the module {str(path)!r}: {error.strerror}") from None
    if data.startswith(MAGIC):
        return unbundle(Artifact.from_bytes(data))
    if data.startswith(b"\x7fELF"):
        try:
            return _load_elf(file, data)
        except ArtifactError as error:
            raise ArtifactError(f"cannot load {str(path)!r}: {error.message}", hint=error.hint) from None
    if file.suffix == ".tar" or fmt == "tar" or data[257:262] == b"ustar":
        return _load_tar(str(path), data)
    raise ArtifactError(
        f"cannot load {str(path)!r}: it is no tunefarm artifact, object, shared library or tar file",
        hint='save modules with `module.save("name.tunefarm")` or `module.export_library("name.so")`',
    )


def unbundle(whole: Artifact, load: Callable[[Artifact], Module] | None = None, depth: int = 0) -> Module:
    """The module in an artifact, with the modules it imports. `load` makes the module itself."""
    from compiler.runtime.core.module import load_artifact

    if depth > _MOST_NESTED:
        raise ArtifactError(f"the artifact's imports are nested more than {_MOST_NESTED} deep")
    imports = sorted((n for n in whole.blobs if n.startswith(_IMPORT)), key=lambda name: (len(name), name))
    own = {name: blob for name, blob in whole.blobs.items() if name not in (*imports, _ORIGINAL)}
    artifact = Artifact(whole.target, whole.cpu_features, whole.entries, own, whole.meta)
    module = (load or load_artifact)(artifact)
    for name in imports:
        module.import_module(unbundle(Artifact.from_bytes(whole.blobs[name]), depth=depth + 1))
    return module


def _load_elf(file: Path, data: bytes) -> Module:
    section = read_section(data, _SECTION)
    if section is None:
        raise ArtifactError(
            "it does not say what its functions take: it was not written by tunefarm",
            hint="`load_static_library(path, func_names)` takes a bare object along for `import_module`",
        )
    records = _read_records(section)
    if elf_kind(data) == RELOCATABLE:  # linked in memory
        if len(records) != 1:
            raise ArtifactError(f"the object describes {len(records)} modules; only a library can hold several")
        return unbundle(_with_object(records[0], data))
    check_seal(data)
    from compiler.runtime.core.module import CPUModule, check_runnable

    for record in records:
        check_runnable(record)
    code = SharedLibrary(file, data)
    modules = [unbundle(record, lambda artifact: CPUModule(artifact, code)) for record in records]
    for extra in modules[1:]:
        modules[0].import_module(extra)
    return modules[0]


def _with_object(record: Artifact, data: bytes) -> Artifact:
    """The whole artifact: a record, and the object file it was in."""
    blobs = dict(record.blobs)
    packed = blobs.pop(_ORIGINAL, b"")
    if len(packed) != _ORIGINAL_LAYOUT.size:
        raise ArtifactError("its description is damaged")
    blobs["object"] = _Original(*_ORIGINAL_LAYOUT.unpack(packed)).restore(data)
    return Artifact(record.target, record.cpu_features, record.entries, blobs, record.meta)


def _read_records(section: bytes) -> list[Artifact]:
    records: list[Artifact] = []
    at = 0
    while at < len(section):
        if len(section) - at < _RECORD.size:
            raise ArtifactError("its description is cut short")
        magic, size = _RECORD.unpack_from(section, at)
        at += _RECORD.size
        if magic != _RECORD_MAGIC or size > len(section) - at:
            raise ArtifactError("its description is damaged")
        records.append(Artifact.from_bytes(section[at : at + size]))
        at += size
    if not records:
        raise ArtifactError("its description is empty")
    return records


def _load_tar(path: str, data: bytes) -> Module:
    objects: list[bytes] = []
    try:
        with tarfile.open(fileobj=BytesIO(data), mode="r:") as archive:
            for member in archive:
                if member.isfile() and 0 <= member.size <= _MOST_TAR_BYTES:
                    content = archive.extractfile(member)
                    objects.append(content.read() if content is not None else b"")
    except (tarfile.TarError, EOFError, ValueError, OverflowError) as error:
        raise ArtifactError(f"cannot load {path!r}: it is no whole tar file: {error}") from None
    described = [code for code in objects if code.startswith(b"\x7fELF") and read_section(code, _SECTION) is not None]
    if len(described) != 1:
        raise ArtifactError(f"cannot load {path!r}: it holds {len(described)} modules written by tunefarm, not one")
    records = _read_records(read_section(described[0], _SECTION) or b"")
    return unbundle(_with_object(records[0], described[0]))
