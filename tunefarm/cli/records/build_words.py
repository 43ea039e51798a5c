"""The kernels that the words of `tunefarm build` mean.

Workloads, files, and what the web app's store knows.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from compiler.errors import TunefarmError
from compiler.target.target import Target
from tunefarm.cli.records.subject import SubjectError, several_called, task_of
from tunefarm.client import ApiError, Client
from tuner.errors import WorkloadError
from tuner.kernels.files import Item, KernelJob
from tuner.kernels.jobs import read_job, recorded_items
from tuner.kernels.run_models import is_model
from tuner.kernels.spec import SpecError
from tuner.kernels.stored import function_of
from tuner.workloads import WorkloadSpec

_IN_C = re.compile(r"call_extern\([^)]*_[0-9a-f]{32}\"")  # what stands in the store for a kernel in C


def read_words(client: Client, words: Sequence[str]) -> KernelJob:
    """The kernels to build.
    A word that is no workload and no file is the name of a kernel that the web app's store has, or its key's first 8
    digits or more. Raises SubjectError, SpecError, WorkloadError."""
    jobs = [_read(client, word) for word in words]
    families = tuple(family for job in jobs for family in job.families)
    return KernelJob(tuple(item for job in jobs for item in job.items), families=families)


def _read(client: Client, word: str) -> KernelJob:
    try:
        return read_job([word])
    except WorkloadError:
        try:
            item = _stored(client, word)
        except ApiError:
            item = None  # that the word is wrong is worth more than that nobody can be asked about it
        if item is None:
            raise
    return KernelJob((item,))


def _stored(client: Client, word: str) -> Item | None:
    """A kernel that the web app's store has. Raises SubjectError, SpecError."""
    found = [w for w in client.workloads(called=word) if w["name"] == word or w["key"].startswith(word)]
    if len(found) > 1:
        raise several_called(word, [(w["key"], datetime.fromisoformat(w["created_at"])) for w in found])
    if not found:
        return None
    kernel = client.workload(found[0]["key"])
    if kernel["spec"]:
        spec = WorkloadSpec.from_json(kernel["spec"])
        return Item(spec, spec.to_json())
    source = kernel["source"]
    if source and not ("model" in source or is_model(Path(source["file"]))):
        return _of_file(kernel, source)
    if not kernel["function"] or _IN_C.search(kernel["function"]):
        raise SubjectError(f"the store does not say which file defines {kernel['name']}", hint="name it: FILE:NAME")
    return Item(function_of(kernel["function"], kernel["key"]), {"name": kernel["name"]})


def _of_file(kernel: Mapping[str, Any], source: Mapping[str, Any]) -> Item:
    """A kernel of a file that is as it was when the kernel was tuned.

    Only files below the current folder are read: a Python file is run, and the web app may name any. Raises
    SubjectError, SpecError.
    """
    name, path = kernel["name"], Path(source["file"])
    command = shlex.join(["tunefarm", "build", f"{path}:{source['name']}"])
    if path.is_file() and not path.resolve().is_relative_to(Path.cwd().resolve()):
        raise SubjectError(
            f"{name} is defined in {path}, which is not in this folder",
            hint=f"name the file, if it is yours: {command}",
        )
    try:
        (item,) = recorded_items([source])
        same = task_of(item, Target("llvm")).key == kernel["key"]
    except TunefarmError as error:
        raise SpecError(error.message, hint=_how_to_name(path, command, source["name"])) from None
    if not same:
        raise SpecError(f"{path} has changed since {name} was tuned", hint=_how_to_name(path, command, source["name"]))
    return item


def _how_to_name(path: Path, command: str, name: str) -> str:
    if path.is_file():
        return f"put the file back as it was, or build it as it is now: {command}"
    return f"give the file where it is by now: tunefarm build FILE:{name}"
