"""Code loaded into this process: artifacts, and what `save` and `export_library` wrote."""

from __future__ import annotations

import tarfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

from compiler.artifact import MAGIC, Artifact
from compiler.errors import ArtifactError, UnreadableModuleError
from compiler.runtime.core.backends import DEVICE_BACKENDS
from compiler.runtime.core.code.cpu_module import LibraryModule, check_runnable
from compiler.runtime.core.module import Module
from compiler.runtime.files.checksum import verify_checksum
from compiler.runtime.files.combined import combined, in_one_library
from compiler.runtime.files.described_object import IMPORT, MOST_NESTED, ORIGINAL, SECTION, read_records, with_object
from compiler.runtime.files.elf_section import RELOCATABLE, SHARED, elf_kind, read_section
from compiler.runtime.files.model_library import model_in
from compiler.runtime.files.shared_library import SharedLibrary
from compiler.runtime.vm import model_file
from compiler.runtime.vm.executable import Program
from compiler.runtime.vm.vm_executable import VMModule
from compiler.target.target import Target

_MOST_TAR_BYTES = 1 << 32
_BITCODE = b"BC\xc0\xde"


def load_artifact(artifact: Artifact) -> Module:
    """Load an artifact's code by the backend of its target's kind.

    Object code goes into this process; a GPU's is loaded when used. Raises ArtifactError when this machine cannot run
    it, or it is not what its manifest says.
    """
    target = Target(artifact.target)
    backend = DEVICE_BACKENDS.find(target.kind)
    if backend is None:
        raise ArtifactError(f"the artifact is for {target.kind}, not for a CPU or another device known here: {target}")
    return backend.load(artifact)


def load_module(path: str, fmt: str = "") -> Module:
    """Load a module, and those it imports, from an artifact, an object, a shared library or a tar file.

    The file is what `save` or `export_library` wrote; its contents decide, `fmt` only where they do not. Raises
    ArtifactError for a file that cannot be read, is damaged, or was not written by tunefarm.
    """
    file = Path(path)
    try:
        with file.open("rb") as opened:
            if model_file.is_model(opened.read(8)):
                return _model(model_file.read_file(file))
        if (model := _model_library(file)) is not None:
            return _model(model_file.read(model))
        data = file.read_bytes()
    except OSError as error:
        raise UnreadableModuleError(f"cannot read the module {str(path)!r}: {error.strerror}") from None
    if data.startswith(MAGIC):
        return unbundle(Artifact.from_bytes(data))
    if data.startswith(b"\x7fELF"):
        try:
            return _load_elf(file, data)
        except ArtifactError as error:
            raise ArtifactError(f"cannot load {str(path)!r}: {error.message}", hint=error.hint) from None
    if file.suffix == ".tar" or fmt == "tar" or data[257:262] == b"ustar":
        return _load_tar(str(path), data)
    if file.suffix in (".ll", ".bc") or data.startswith(_BITCODE):
        raise ArtifactError(
            f"cannot load {str(path)!r}: code of LLVM does not say what its functions take",
            hint='`module.export_library("name.so")` and `module.save("name.o")` write files that do',
        )
    raise ArtifactError(
        f"cannot load {str(path)!r}: it is no tunefarm artifact, object, shared library or tar file",
        hint='save modules with `module.save("name.tunefarm")` or `module.export_library("name.so")`',
    )


def _model(program: Program) -> VMModule:
    """An executable with the modules it imports."""
    module = VMModule(program)
    for imported in program.modules:
        module.import_module(unbundle(imported))
    return module


def _model_library(file: Path) -> memoryview | None:
    """A model's file in a shared library; None in another file."""
    with file.open("rb") as opened:
        if elf_kind(opened.read(64)) != SHARED:
            return None
    try:
        return model_in(file)
    except ArtifactError:
        return None  # said again where the whole file is read


def unbundle(whole: Artifact, load: Callable[[Artifact], Module] | None = None, depth: int = 0) -> Module:
    """The module in an artifact, with the modules it imports. `load` makes the module itself."""
    if depth > MOST_NESTED:
        raise ArtifactError(f"the artifact's imports are nested more than {MOST_NESTED} deep")
    imports = sorted((n for n in whole.blobs if n.startswith(IMPORT)), key=lambda name: (len(name), name))
    own = {name: blob for name, blob in whole.blobs.items() if name not in (*imports, ORIGINAL)}
    artifact = Artifact(whole.target, whole.cpu_features, whole.entries, own, whole.meta)
    module = (load or load_artifact)(artifact)
    for name in imports:
        module.import_module(unbundle(Artifact.from_bytes(whole.blobs[name]), depth=depth + 1))
    return module


def _load_elf(file: Path, data: bytes) -> Module:
    section = read_section(data, SECTION)
    if section is None:
        raise ArtifactError(
            "it does not say what its functions take: it was not written by tunefarm",
            hint="`load_static_library(path, func_names)` takes a bare object along for `import_module`",
        )
    records = read_records(section)
    if elf_kind(data) == RELOCATABLE:  # linked in memory
        if len(records) != 1:
            raise ArtifactError(f"the object describes {len(records)} modules; only a library can hold several")
        return unbundle(with_object(records[0], data))
    verify_checksum(data)
    for record in records:
        check_runnable(record)
    code = SharedLibrary(file, data)
    joined = in_one_library(records) if len(records) > 1 else records
    modules = [unbundle(record, lambda artifact: LibraryModule(artifact, code)) for record in joined]
    for extra in modules[1:]:
        modules[0].import_module(extra)
    return modules[0]


def _load_tar(path: str, data: bytes) -> Module:
    objects: list[bytes] = []
    try:
        with tarfile.open(fileobj=BytesIO(data), mode="r:") as archive:
            for member in archive:
                if member.issparse() or member.size > len(data):  # its holes would be read as zeros, without end
                    raise ArtifactError(f"cannot load {path!r}: {member.name!r} in it is sparse, or cut short")
                if member.isfile() and 0 <= member.size <= _MOST_TAR_BYTES:
                    content = archive.extractfile(member)
                    objects.append(content.read() if content is not None else b"")
    except (tarfile.TarError, EOFError, ValueError, OverflowError) as error:
        raise ArtifactError(f"cannot load {path!r}: it is no whole tar file: {error}") from None
    described = [code for code in objects if code.startswith(b"\x7fELF") and read_section(code, SECTION) is not None]
    if not described:
        raise ArtifactError(f"cannot load {path!r}: it holds no module written by tunefarm")
    whole = [with_object(read_records(read_section(code, SECTION) or b"")[0], code) for code in described]
    if len(whole) == 1:
        return unbundle(whole[0])
    try:
        return load_artifact(combined(whole))
    except ArtifactError as error:
        raise ArtifactError(f"cannot load {path!r}: {error.message}", hint=error.hint) from None
