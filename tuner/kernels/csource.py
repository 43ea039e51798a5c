"""C source compiled by the user's compiler, as an artifact that every box can run."""

from __future__ import annotations

import re
import shlex
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from compiler.artifact import LINKED, ArgSpec, Artifact, EntryPoint
from compiler.errors import TunefarmError
from compiler.target.target import Target
from tuner.errors import TuningError
from tuner.kernels.includes import Header, lay_out
from tuner.kernels.march import compiler_version, march_for, substitute_text
from tuner.kernels.space import Config

_C_TYPES = {
    "float32": "float", "float64": "double", "int8": "signed char", "uint8": "unsigned char", "int16": "short",
    "uint16": "unsigned short", "int32": "int", "uint32": "unsigned", "int64": "long long",
    "uint64": "unsigned long long",
}  # fmt: skip
_NAME = re.compile(r"[A-Za-z_]\w{0,200}")
_MOST_TEXT = 8000


class KernelCompileError(TunefarmError, kind="kernel_compile"):
    """The user's compiler refused a config; its output is the message."""


@dataclass(frozen=True)
class Argument:
    """An array argument of the kernel; `output` when the kernel writes it."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    output: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", tuple(self.shape))
        if not _NAME.fullmatch(self.name):
            raise TuningError(f"{self.name!r} is no name of an argument")
        if self.dtype not in _C_TYPES:
            raise TuningError(f"argument {self.name}: no dtype {self.dtype!r} in C", hint=", ".join(_C_TYPES))
        if not self.shape or not all(isinstance(extent, int) and extent > 0 for extent in self.shape):
            raise TuningError(f"argument {self.name}: {self.shape} is no shape")


@dataclass(frozen=True)
class CSource:
    """A kernel in C.
    `text` defines `void entry(T* a, ...)` over `arguments`, in that order; each parameter of the space is a macro of
    its name. `compiler` is the command that compiles it, to which the file, `-c` and `-o` are added. `{mcpu}` in it
    is the target's CPU, or the nearest one that the compiler knows. The code may call the C and math libraries, and
    nothing else. `headers` are the files it includes (see `local_headers`), which go along to where it is compiled.
    `more` are further sources, names and texts, which are compiled in the same way and linked to it. `files` are the
    paths of the source and of these as the user wrote them, if they were read from files."""

    text: str
    entry: str
    arguments: tuple[Argument, ...]
    compiler: str = "cc -O3 -march={mcpu}"
    headers: tuple[Header, ...] = ()
    more: tuple[Header, ...] = ()
    files: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.entry):
            raise TuningError(f"{self.entry!r} is no name of a C function")
        if not any(argument.output for argument in self.arguments):
            raise TuningError(f"no argument of {self.entry} is an output", hint="mark what the kernel writes")
        if not shlex.split(self.compiler):
            raise TuningError("the compiler's command is empty")

    def compile(self, config: Config, target: str) -> Artifact:
        """Compile for `config`. Raises KernelCompileError with its output, TuningError when it can't be run."""
        resolved = Target(target).resolved()
        compiler = self._compiler(resolved)
        with tempfile.TemporaryDirectory(prefix="tunefarm-c-") as folder:
            place = lay_out((*self.headers, *self.more), Path(folder, "source"))
            source, made = place / self._file, Path(folder, "kernel.o")
            source.write_text(f"{self.text}\n{self._packed()}")
            objects = []
            for file in (source, *(place / name for name, _ in self.more)):
                self._run([*self._command(compiler, config), "-c", str(file), "-o", str(made)])
                objects.append(made.read_bytes())
        specs = tuple(ArgSpec(a.name, a.dtype, a.shape) for a in self.arguments)
        outputs = tuple(at for at, argument in enumerate(self.arguments) if argument.output)
        return Artifact(
            target=str(resolved),
            cpu_features=tuple(sorted(resolved.features)),
            entries=(EntryPoint("main", self.entry, specs, outputs),),
            blobs={
                "object": objects[0],
                "c": self.text.encode(),
                **{f"{LINKED}{at}": code for at, code in enumerate(objects[1:])},
            },
            meta={"compiler": shlex.join(compiler), **{f"config.{k}": str(v) for k, v in config.items()}},
        )

    def named(self, name: str) -> CSource:
        """The source with its function under another name, in C and to the linker."""
        if name == self.entry:
            return self
        return replace(self, text=f"#define {self.entry} {name}\n{self.text}", entry=name)

    def command(self, config: Config, target: str) -> list[str]:
        """The command that compiles the source for `config`, with file names as one would give them."""
        files = self.files or (self._file, *(name for name, _ in self.more))
        return [*self._command(self._compiler(Target(target).resolved()), config), "-c", *files]

    @property
    def _file(self) -> str:
        """The name of the source where it is compiled: no other source or header has it."""
        name = f"{self.entry}.c"
        return name if name not in {other for other, _ in (*self.headers, *self.more)} else f"{self.entry}_main.c"

    def version(self) -> str:
        """The first line of what the compiler says of its version; "" where it says nothing."""
        command = shlex.split(self.compiler)[0]
        try:
            return compiler_version(command)
        except OSError as error:
            raise _cannot_run(command, error) from None

    def substitute(self, target: str) -> str:
        """Say which CPU is compiled for, if the compiler does not know the target's; "" if it does."""
        words = shlex.split(self.compiler)
        try:
            return substitute_text(tuple(words), Target(target).resolved()) if "{mcpu}" in self.compiler else ""
        except OSError as error:
            raise _cannot_run(words[0], error) from None

    def _compiler(self, target: Target) -> list[str]:
        """The compiler's command for the target's CPU.
        Raises KernelCompileError if it takes none of its names."""
        words = shlex.split(self.compiler)
        if "{mcpu}" not in self.compiler:
            return words
        try:
            march = march_for(tuple(words), target)
        except OSError as error:
            raise _cannot_run(words[0], error) from None
        if march is None:
            raise KernelCompileError(
                f"{self.compiler!r} takes no name for the CPU {target.mcpu}",
                hint='give the kernel a command that does, for example compiler = "cc -O3 -march=native"',
            )
        return [word.replace("{mcpu}", march) for word in words]

    def _command(self, compiler: Sequence[str], config: Config) -> list[str]:
        # position independent, since a box loads the code wherever it has room
        return [*compiler, "-fPIC", *(f"-D{name}={_macro(value)}" for name, value in config.items())]

    def _packed(self) -> str:
        """The entry as boxes call it: an array of 8-byte slots, a pointer in each."""
        given = ", ".join(f"({_C_TYPES[a.dtype]}*)slots[{at}]" for at, a in enumerate(self.arguments))
        return f"int {self.entry}_packed(void** slots) {{ {self.entry}({given}); return 0; }}\n"

    def _run(self, command: Sequence[str]) -> None:
        try:
            done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        except OSError as error:
            raise _cannot_run(command[0], error) from None
        if done.returncode != 0:
            output = (done.stderr or done.stdout).strip() or f"it ended with status {done.returncode}"
            raise KernelCompileError(f"{shlex.join(command[:-4])}\n{output[:_MOST_TEXT]}")


def _cannot_run(command: str, error: OSError) -> TuningError:
    return TuningError(
        f"the compiler {command!r} can't be run: {error.strerror or error}",
        hint="name one that is installed, with its full path if it is not on PATH",
    )


def _macro(value: object) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)
