"""One in forty cases of ONNX's node suite, chosen by digest; of those that take long to compile, one in two hundred.
`make test-models` runs four times as many."""

from tests.conformance.__main__ import made_cases, unlike_page
from tests.conformance.cases import read
from tests.conformance.page import PAGE
from tests.conformance.suite import run


def test_a_part_of_the_suite_does_what_the_page_says() -> None:
    path = made_cases(40)
    outcomes = run(path, [case.name for case in read(path)], jobs=1)
    assert len(outcomes) > 20
    assert not [o for o in outcomes if o.wrong or o.stage == "crash"]
    assert unlike_page(outcomes, PAGE.read_text()) == []
