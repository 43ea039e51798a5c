"""How a text is laid out: what `script` and `show` take beside the name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, TypedDict

from compiler.errors import IRError


class TextOptions(TypedDict, total=False):
    """Options of `script` and `show`.

    The prefixes stand in the place of T, I and R. `obj_to_underline`: nodes that are marked below their lines, as are
    those that the paths of `path_to_underline` lead to from what is printed.
    `num_context_lines`: how many lines around a mark are shown. `obj_to_annotate` and `path_to_annotate` say which
    comments stand beside which nodes. `verbose_expr`: say every dtype, and define what the text only uses.
    `syntax_sugar=False`: declare buffers in lines of their own, and spell the root block.
    `tvm_version`: "0.17" or "0.27", for a text that this version of Apache TVM reads.
    The others are accepted for programs that give them; texts are always plain, and say every dtype that matters.
    """

    tir_prefix: str
    ir_prefix: str
    relax_prefix: str
    print_line_numbers: bool
    obj_to_underline: Sequence[Any] | None
    style: str | None
    syntax_sugar: bool
    num_context_lines: int
    int_dtype: str
    float_dtype: str
    buffer_dtype: str
    module_alias: str
    verbose_expr: bool
    show_all_struct_info: bool
    black_format: bool | None
    path_to_underline: Sequence[Any] | None
    path_to_annotate: Any
    obj_to_annotate: Any
    tvm_version: str | None


_VERSIONS = ("0.17", "0.27")
_PREFIXES = {"tir_prefix": "T", "ir_prefix": "I", "relax_prefix": "R"}
_STRING = r"(\"(?:\\.|[^\"\\])*\")"


def tvm_version(options: TextOptions | None) -> str | None:
    """Return the version of Apache TVM that is to read the text, None where none was asked for.
    Raises IRError for versions whose texts are not known."""
    version = options.get("tvm_version") if options else None
    if version is not None and version not in _VERSIONS:
        raise IRError(f"texts for Apache TVM {version} are not known", hint=f"known are {', '.join(_VERSIONS)}")
    return version


def arranged(text: str, options: TextOptions, texts: Sequence[str] = (), notes: Sequence[tuple[str, str]] = ()) -> str:
    """Lay out `text` as the options say.

    `texts` are those of the nodes to underline. `notes` are those of nodes to annotate, with the comments.
    """
    lines = text.splitlines()
    for shown, note in notes:
        lines = _annotated(lines, shown, note)
    whole = len(lines)
    for shown in texts:
        lines = _underlined(lines, shown.splitlines())
    context = options.get("num_context_lines", -1)
    if len(lines) > whole and context is not None and context >= 0:
        lines = _near_marks(lines, context)
    text = "\n".join(lines)
    for option, prefix in _PREFIXES.items():
        wanted = options.get(option, prefix)
        if wanted != prefix:
            text = re.sub(rf"{_STRING}|\b{prefix}(?=\.)", lambda found, new=wanted: found[1] or new, text)  # type: ignore[misc]
    if options.get("print_line_numbers"):
        lines = text.splitlines()
        text = "\n".join(f"{number:>{len(str(len(lines)))}} {line}" for number, line in enumerate(lines, 1))
    return text


def _annotated(lines: list[str], shown: str, note: str) -> list[str]:
    """`lines` with a comment behind the first line where the first line of `shown` stands."""
    wanted = shown.splitlines()[0].strip()
    at = next((at for at, line in enumerate(lines) if wanted in line), None)
    return lines if at is None else [*lines[:at], f"{lines[at]}  # {note}", *lines[at + 1 :]]


def _near_marks(lines: list[str], context: int) -> list[str]:
    """The lines at most `context` lines from one that is marked, and how many are skipped between them."""
    marks = [at for at, line in enumerate(lines) if line.strip() and not line.strip().strip("^")]
    kept = {near for at in marks for near in range(at - 1 - context, at + context + 1)}
    found: list[str] = []
    skipped = 0
    for at, line in enumerate(lines):
        if at in kept:
            found += [_skipping(skipped)] if skipped else []
            found.append(line)
        skipped = 0 if at in kept else skipped + 1
    return [*found, _skipping(skipped)] if skipped else found


def _skipping(count: int) -> str:
    return f"(... {count} line{'' if count == 1 else 's'} skipped ...)"


def _underlined(lines: list[str], marked: list[str]) -> list[str]:
    """`lines` with marks below each place where the lines of `marked` stand, whatever their indentation."""
    wanted = [line.strip() for line in marked]
    stripped = [line.strip() for line in lines]
    if len(wanted) == 1:
        inside: list[str] = []
        for line in lines:
            inside.append(line)
            at = line.find(wanted[0])
            if at >= 0:
                inside.append(" " * at + "^" * len(wanted[0]))
        return inside
    starts = {at for at in range(len(lines)) if stripped[at : at + len(wanted)] == wanted}
    found: list[str] = []
    left = 0
    for at, line in enumerate(lines):
        left = len(wanted) if at in starts else left
        found.append(line)
        if left:
            found.append(" " * (len(line) - len(line.lstrip())) + "^" * len(line.strip()))
            left -= 1
    return found
