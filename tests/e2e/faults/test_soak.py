"""A short soak; `make soak` runs longer ones."""

from tests.e2e import soak


def test_a_short_soak(capsys):
    assert soak.main(["20", "3"]) == 0, capsys.readouterr().out
    told = capsys.readouterr().out
    assert told.count("held:") == 4
    assert "faults:" in told
