"""Link objects into a shared library with whatever compiler or linker the machine has."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from collections.abc import Sequence
from pathlib import Path

from compiler.errors import TunefarmError

_DRIVERS = ("cc", "gcc", "clang")
_PLAIN_LINKERS = ("ld.lld", "ld")
_LIBRARIES = ("-lm", "-lpthread")


class LinkError(TunefarmError):
    """Objects that could not be linked, or no linker to link them with."""

    kind = "link"


def get_cc() -> str | None:
    """The C compiler found on PATH, or None."""
    return next((found for name in _DRIVERS if (found := shutil.which(name))), None)


def create_shared(
    output: str, objects: str | Sequence[str], options: Sequence[str] | None = None, cc: str | None = None
) -> None:
    """Link objects (or C files) into a shared library with `cc`, or the compiler or linker found.

    Raises LinkError with the linker's own words, or naming the ways out when there is none.
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
    driver = cc or get_cc()
    if driver is not None:
        return [driver, "-shared", "-fPIC", "-o", output, *inputs, *options, *_LIBRARIES]
    linker = next((found for name in _PLAIN_LINKERS if (found := shutil.which(name))), None)
    if linker is not None:  # what the C library offers is found when the library is loaded
        return [linker, "-shared", "-o", output, *inputs, *options]
    raise LinkError(
        f"no linker was found to make {output}: looked for {', '.join((*_DRIVERS, *_PLAIN_LINKERS))}",
        hint="install one (for instance the package gcc), name yours with cc=..., pass fcompile=..., "
        'or export to a file ending in ".tar" or ".tunefarm", which needs none',
    )
