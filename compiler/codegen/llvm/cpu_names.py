"""Ask LLVM whether it knows a CPU and its features.

A child process asks, because LLVM aborts the process for an unknown CPU.
"""

from __future__ import annotations

import difflib
import re
import subprocess
import sys
from functools import lru_cache

from compiler.errors import TargetError
from compiler.target.cpu_features import architecture, known_cpus, known_features
from compiler.target.target import Target

_ALWAYS = ("", "generic", "x86-64")
_REFUSED = re.compile(r"^'\+?-?([^']+)' is not a recognized (processor|feature)", re.MULTILINE)
_TRY = """
import sys
import llvmlite.binding as llvm
llvm.initialize_all_targets()
triple, cpu, features = sys.argv[1:]
llvm.Target.from_triple(triple).create_target_machine(cpu=cpu, features=features)
"""


def check_names(target: Target, triple: str) -> None:
    """Raise TargetError for a CPU or feature that LLVM does not know for `triple`.

    The error names what comes close. Names in our tables are accepted at once. Others are tried in a child process,
    once each.
    """
    arch = architecture(triple)
    cpu = target.mcpu
    doubtful = tuple(item for item in target.mattr if item[1:] not in known_features(arch))
    if doubtful or not (cpu in _ALWAYS or cpu in known_cpus(arch)):
        _try_names(triple, cpu, doubtful)


@lru_cache(maxsize=64)
def _try_names(triple: str, cpu: str, features: tuple[str, ...]) -> None:
    command = [sys.executable, "-c", _TRY, triple, cpu, ",".join(features)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = _REFUSED.search(done.stderr)
    if found is None:
        return  # an unknown triple is reported by whoever makes the target machine
    name, what = found[1], {"processor": "CPU", "feature": "CPU feature"}[found[2]]
    arch = architecture(triple)
    choices = known_cpus(arch) if what == "CPU" else known_features(arch)
    close = difflib.get_close_matches(name, choices, 5, 0.5)
    raise TargetError(
        f"LLVM knows no {what} {name!r} for {arch}",
        hint=f"did you mean {', '.join(close)}?" if close else 'leave it out, or use "llvm" for this machine',
    )
