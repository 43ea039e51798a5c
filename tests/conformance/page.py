"""docs/onnx-conformance.md: the scores, and each miss with its reason; and the results of the networks."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from tests.conformance.cases import Case
from tests.conformance.networks import PARAMETERS, Agreement
from tests.conformance.suite import Outcome
from tests.kit.places import DOCS, ROOT
from tests.kit.taken import taken

PAGE = DOCS / "onnx-conformance.md"
NETWORKS = ROOT / "benchmarks" / "results" / "onnx-networks.md"
GOALS = (93.0, 97.0)
"""Percent of the plain cases that are to pass: compiled once by `prepare`, and recompiled at the first run."""


def scores(cases: Sequence[Case], outcomes: Mapping[str, Outcome]) -> tuple[float, float]:
    """The percentages of plain cases that pass: compiled once, and recompiled if need be."""
    held = [outcomes[case.name] for case in cases if case.plain]
    once, all_ = sum(o.passed_once_compiled for o in held), sum(o.passed for o in held)
    return 100 * once / len(held), 100 * all_ / len(held)


def page(cases: Sequence[Case], outcomes: Mapping[str, Outcome]) -> str:
    """The page's text."""
    import onnx

    plain = [case for case in cases if case.plain]
    rows = []
    for title, group in (
        ("plain cases", plain), ("others", [c for c in cases if not c.plain]), ("all", list(cases)),
    ):  # fmt: skip
        held = [outcomes[case.name] for case in group]
        once, twice = sum(o.passed_once_compiled for o in held), sum(o.passed for o in held)
        rows.append(
            f"| {title} | {len(held)} | {once} | {100 * once / len(held):.1f} % | {twice} "
            f"| {100 * twice / len(held):.1f} % |"
        )
    second = sum(case.other_inputs is not None for case in cases)
    needing = [o for o in outcomes.values() if o.passed and o.needs_values]
    missed = [o for o in outcomes.values() if not o.passed]
    wrong = sum(o.wrong for o in missed)
    crashed = sum(o.stage == "crash" for o in missed)
    return f"""# ONNX conformance

`make conformance` writes this page. Do not edit it.

{taken("make conformance")}

The [ONNX backend](frontends.md#as-a-backend-of-onnx) runs the node tests of `onnx` {onnx.__version__}.
Plain cases are those of the default domain on tensors of numpy's own types.

| | cases | compiled once | | recompiled at the first run | |
|---|--:|--:|--:|--:|--:|
{chr(10).join(rows)}

* Compiled once: `prepare(model, recompile=False)` makes one artifact before it sees any value of an input.
* Recompiled: `prepare(model)` may wait for the values of inputs that the graph depends on.
* {second} cases run a second time, with other values of equal shape, against `onnx.reference` in another process.
  Results are compared by the suite's own rule.
* The process of the backend cannot import `onnx.reference`, `onnxruntime` or `torch`.
* {_count(wrong, "result is", "results are")} wrong. {_count(crashed, "case", "cases")} crashed or hung.

## Cases that need values

These pass when they are recompiled. One artifact cannot serve them.

| case | what must be known |
|---|---|
{_table((o.name, o.needs_values) for o in needing)}

## Misses

{_summary(missed)}

| case | reason |
|---|---|
{_table((o.name, o.why) for o in missed)}

The networks of the `onnx` wheel are compared with onnxruntime: [results](../benchmarks/results/onnx-networks.md).
"""


def networks_page(found: Sequence[Agreement]) -> str:
    """The page of the networks' results."""
    rows = "\n".join(
        f"| {a.name} | {PARAMETERS[a.name]} | {a.nodes} | {a.import_s:.2f} | {a.build_s:.1f} | {a.difference:.0e} |"
        for a in found
    )
    return f"""# Results: networks of ONNX

{taken("python -m tests.conformance --networks")}

The networks of the `onnx` wheel's `data/light`, with random weights, against onnxruntime. Seconds are of a processor.

| network | million parameters | nodes | import, s | build, s | largest difference, relative |
|---|--:|--:|--:|--:|--:|
{rows}
"""


def listed(text: str, title: str) -> set[str]:
    """The cases that a section of the page lists."""
    section = text.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]
    return set(re.findall(r"^\| `(test_\w+)` \|", section, re.MULTILINE))


def _count(number: int, one: str, more: str) -> str:
    return f"{number or 'No'} {one if number < 2 else more}"


def _table(rows: Any) -> str:
    return "\n".join(f"| `{name}` | {_reason(why)} |" for name, why in rows)


def _reason(why: str) -> str:
    """A reason without what differs from case to case."""
    why = re.sub(r" \(opset \d+\) at node '[^']*'", "", why)
    return why.replace("|", "\\|")


def _summary(missed: Sequence[Outcome]) -> str:
    kinds = Counter(o.stage if o.stage != "prepare" else f"prepare: {o.error}" for o in missed)
    return "\n".join(f"* {kind}: {number}" for kind, number in kinds.most_common())
