"""One in ten cases of ONNX's node suite, chosen by digest; of those that take long to compile, one in fifty. And a
network of the `onnx` wheel."""

import pytest

from tests.conformance.__main__ import made_cases, unlike_page
from tests.conformance.cases import read
from tests.conformance.networks import compare
from tests.conformance.page import PAGE
from tests.conformance.suite import run


def test_a_tenth_of_the_suite_does_what_the_page_says() -> None:
    path = made_cases(10)
    outcomes = run(path, [case.name for case in read(path)], jobs=2)
    assert len(outcomes) > 80
    assert not [o for o in outcomes if o.wrong or o.stage == "crash"]
    assert unlike_page(outcomes, PAGE.read_text()) == []


@pytest.mark.parametrize("name", ["squeezenet"])
def test_a_network_agrees_with_onnxruntime(name: str) -> None:
    """The others run in `make conformance`."""
    assert compare(name).difference < 1e-4
