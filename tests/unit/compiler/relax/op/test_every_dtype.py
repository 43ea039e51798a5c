"""Every operator with every element type: it gives what numpy gives, or refuses with an error that names the type.

The cases of these folders run with the types that matter most to them, at all sizes. Here they run with each of the
others, at one set of sizes: some in `make test`, all of them in `make fuzz`.
"""

from __future__ import annotations

import zlib

import pytest

from tests.kit.compiler.relax_ops import Case, check_another
from tests.kit.compiler.topi import DTYPES
from tests.kit.fuzzing import FUZZ_CASES
from tests.unit.compiler.relax.op.test_coverage import MODULES, cases_of

SHARE = 1 if FUZZ_CASES else 24


def others(module: str) -> list[tuple[Case, str]]:
    distinct = {id(case): case for case in cases_of(module)}.values()
    pairs = [(case, dtype) for case in distinct for dtype in DTYPES if dtype not in (*case.dtypes, *case.unlike)]
    return [(case, dtype) for case, dtype in pairs if zlib.crc32(f"{case.name} {dtype}".encode()) % SHARE == 0]


@pytest.mark.parametrize("module", MODULES)
def test_other_element_types(module: str) -> None:
    for case, dtype in others(module):
        check_another(case, dtype)


def test_some_element_types_are_taken_and_some_refused() -> None:
    """Accepted and refused dtypes differ, so that neither answer can be given to all."""
    case = next(case for case in cases_of("elementwise.test_elements") if case.name == "bitwise_not")
    assert [check_another(case, dtype) for dtype in ("int8", "float32")] == [True, False]
