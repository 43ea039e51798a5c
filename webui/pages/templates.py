"""The templates' environment: where they lie, and the filters that format what they show."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from compiler.errors import CompileError
from compiler.schedule.core.trace import Trace
from tuner.kernels.run_models import run_title
from tuner.records.runs.resuming import may_resume, resume_command
from webui import format as formats
from webui.pages.conditions import NOISE, conditions, joules

ENVIRONMENT = Environment(
    loader=FileSystemLoader(Path(__file__).parent),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def trace_text(text: str) -> str:
    """A recorded trace as the Python calls that make it; as JSON when this version cannot read it."""
    try:
        return Trace.from_json(text).to_python()
    except CompileError:
        return pretty(text)


def pretty(text: str) -> str:
    """JSON with one line for each entry of its outer two levels; other text as it is."""
    try:
        data = json.loads(text)
    except ValueError:
        return text
    return _lines(data, 2, "")


def _lines(data: object, depth: int, indent: str) -> str:
    inner = indent + "  "
    match data:
        case dict() if data and depth:
            rows = [f"{inner}{json.dumps(key)}: {_lines(value, depth - 1, inner)}" for key, value in data.items()]
            return "{\n" + ",\n".join(rows) + f"\n{indent}}}"
        case list() if data and depth:
            return "[\n" + ",\n".join(inner + _lines(value, depth - 1, inner) for value in data) + f"\n{indent}]"
        case _:
            return json.dumps(data, ensure_ascii=False)


def words(name: object) -> str:
    """run_timeout as "run timeout"."""
    return str(name).replace("_", " ")


def versions(toolchain: Mapping[str, str]) -> str:
    """A toolchain as "tunefarm 0.1.0, llvm 22.1.0"."""
    return ", ".join(f"{name} {version}" for name, version in toolchain.items())


def first_line(text: str) -> str:
    """The first line that says something, not too long."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return line if len(line) <= 160 else line[:159] + "…"


ENVIRONMENT.filters.update(
    ago=formats.ago, ago_s=formats.ago_s, conditions=conditions, joules=joules, count=formats.count,
    duration=formats.duration, first_line=first_line, key=formats.key, operations=formats.operations,
    percent=formats.percent, rate=formats.rate, size=formats.size, speed=formats.speed, stamp=formats.stamp,
    times=formats.times, run_title=run_title, trace=trace_text, versions=versions, words=words, resumed=resume_command,
    resumable=may_resume,
)  # fmt: skip
ENVIRONMENT.globals["noise_meanings"] = NOISE


def compile_all() -> None:
    """Compile every template now, so that nobody's first page waits for it."""
    for name in ENVIRONMENT.list_templates(extensions=["html"]):
        ENVIRONMENT.get_template(name)
