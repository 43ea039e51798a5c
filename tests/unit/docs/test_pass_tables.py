"""The tables of passes and of their options are those of the code."""

from tests.kit.pass_tables import PAGE, with_tables


def test_the_tables_are_those_that_the_code_makes() -> None:
    written = PAGE.read_text(encoding="utf-8")
    assert written == with_tables(written), "run python -m tests.kit.pass_tables"


def test_an_edited_docstring_is_written_anew() -> None:
    written = PAGE.read_text(encoding="utf-8")
    assert with_tables(written.replace("| Make every buffer one-dimensional. |", "| As it was. |")) == written
