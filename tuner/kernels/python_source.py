"""Python over numpy arrays, made an artifact that every box can run: what kernels are compared with."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from compiler.artifact import PYTHON, ArgSpec, Artifact, EntryPoint
from compiler.python_text import parsed_module
from compiler.target.target import Target
from tuner.errors import TuningError
from tuner.kernels.csource import Argument
from tuner.kernels.space import Config


@dataclass(frozen=True)
class PythonSource:
    """`text` defines a function `entry` of numpy arrays, one for each of `arguments` in that order.
    It writes into the outputs or returns them. It may import numpy, and what else the boxes have."""

    text: str
    entry: str
    arguments: tuple[Argument, ...]

    def __post_init__(self) -> None:
        try:
            body = parsed_module(self.text).body
        except SyntaxError as error:
            raise TuningError(f"the source of {self.entry} is not Python: line {error.lineno}: {error.msg}") from None
        defined = {node.name for node in body if isinstance(node, ast.FunctionDef)}
        if self.entry not in defined:
            known = ", ".join(sorted(defined)) or "no function"
            raise TuningError(f"the source defines no function {self.entry!r}", hint=f"it defines {known}")

    def compile(self, config: Config, target: str) -> Artifact:
        """The function as an artifact. It has no parameters: every `config` gives the same."""
        specs = tuple(ArgSpec(a.name, a.dtype, a.shape) for a in self.arguments)
        outputs = tuple(at for at, argument in enumerate(self.arguments) if argument.output)
        return Artifact(
            target=str(Target(target).resolved()),
            cpu_features=(),
            entries=(EntryPoint("main", self.entry, specs, outputs),),
            blobs={PYTHON: self.text.encode()},
            meta={},
        )
