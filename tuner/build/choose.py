"""Builders by the user's text: a number of processes, or the address of a cluster."""

from __future__ import annotations

from tuner.build.process_builder import CandidateBuilder, ProcessBuilder
from tuner.errors import TuningError


def check_builders(text: str | int) -> str:
    """`text` as options keep it. Raises TuningError for what names no builder."""
    written = str(text).strip()
    if written.startswith(("dask://", "dask+tls://")) and written.count(":") == 2:
        return written
    if written.isdecimal() and int(written) > 0:
        return written
    raise TuningError(
        f"{written!r} names no builders",
        hint="give a number of processes, or dask+tls://HOST:PORT of a Dask scheduler (dask:// on this machine)",
    )


def make_builder(text: str | int, *, import_main: bool = True, insecure: bool = False) -> CandidateBuilder:
    """The builder that "4" or "dask://host:8786" stands for.
    `import_main`: see `ProcessBuilder`, `insecure`: see `DaskBuilder`. Raises TuningError."""
    written = check_builders(text)
    if written.isdecimal():
        return ProcessBuilder(int(written), import_main=import_main)
    from tuner.build.dask_builder import DaskBuilder

    return DaskBuilder(written, insecure=insecure)
