"""Link objects into a shared library with whatever compiler or linker the machine has."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from collections.abc import Sequence
from pathlib import Path

from compiler.errors import TunefarmError
from compiler.runtime.files.elf import elf_machine
from compiler.target.cpu_features import architecture

_DRIVERS = ("cc", "gcc", "clang")
_PLAIN_LINKERS = ("ld.lld", "ld")
_CROSS_TOOLS = {
    "aarch64": "aarch64-linux-gnu-",
    "arm": "arm-linux-gnueabihf-",
    "i386": "i686-linux-gnu-",
    "riscv64": "riscv64-linux-gnu-",
    "x86_64": "x86_64-linux-gnu-",
}
_LIBRARIES = ("-lm", "-lpthread")


class LinkError(TunefarmError, kind="link"):
    """Objects that could not be linked, or no linker to link them with."""


def get_cc() -> str | None:
    """The C compiler found on PATH, or None."""
    return _first_of(_DRIVERS)


def create_shared(
    output: str, objects: str | Sequence[str], options: Sequence[str] | None = None, cc: str | None = None
) -> None:
    """Link objects (or C files) into a shared library with `cc`, or the compiler or linker found.

    Objects for another machine than this go to a compiler for that one, or to ld.lld, which links for any. Raises
    LinkError with the linker's own words, or naming the ways out when there is none.
    """
    inputs = [objects] if isinstance(objects, str) else [str(name) for name in objects]
    command = _command(str(output), inputs, list(options or ()), cc)
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    except OSError as error:
        raise LinkError(f"cannot start the linker {command[0]!r}: {error.strerror}") from None
    if done.returncode != 0:
        raise LinkError(
            f"{command[0]} could not link {output}:\n{done.stderr.strip()[-4000:]}",
            hint="the command was: " + " ".join(command),
            detail={"returncode": done.returncode},
        )


create_shared.output_format = "so"  # type: ignore[attr-defined]


def create_tar(output: str, objects: str | Sequence[str], options: Sequence[str] | None = None) -> None:
    """Put objects into a tar file, which `load_module` links in memory; needs no linker."""
    inputs = [objects] if isinstance(objects, str) else list(objects)
    with tarfile.open(output, "w") as archive:
        for name in inputs:
            archive.add(name, arcname=Path(name).name)


def _command(output: str, inputs: list[str], options: list[str], cc: str | None) -> list[str]:
    wanted = next((machine for name in inputs if (machine := _machine(name)) is not None), architecture(None))
    drivers, linkers = _tools(wanted)
    driver = cc or _first_of(drivers)
    if driver is not None:
        return [driver, "-shared", "-fPIC", "-o", output, *inputs, *options, *_LIBRARIES]
    linker = _first_of(linkers)
    if linker is not None:  # what the C library offers is found when the library is loaded
        return [linker, "-shared", "-o", output, *inputs, *options]
    package = "gcc" if wanted == architecture(None) else f"{drivers[0]}, or lld" if drivers else "lld"
    raise LinkError(
        f"no linker for {wanted} was found to make {output}: looked for {', '.join((*drivers, *linkers))}",
        hint=f"install one (for instance {package}), name yours with cc=..., pass fcompile=..., "
        'or export to a file ending in ".tar" or ".tunefarm", which needs none',
    )


def _tools(machine: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of compilers that link for a machine, and of linkers."""
    if machine == architecture(None):
        return _DRIVERS, _PLAIN_LINKERS
    prefix = _CROSS_TOOLS.get(machine)
    if prefix is None:
        return (), ("ld.lld",)
    return (f"{prefix}gcc", f"{prefix}clang"), ("ld.lld", f"{prefix}ld")


def _first_of(names: Sequence[str]) -> str | None:
    return next((found for name in names if (found := shutil.which(name))), None)


def _machine(name: str) -> str | None:
    """The machine an object file is for; None for a file that is none."""
    try:
        with open(name, "rb") as file:
            return elf_machine(file.read(20))
    except OSError:
        return None
