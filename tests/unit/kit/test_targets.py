"""CI runs every target of the Makefile: in `make test`, or in its shortest form."""

from __future__ import annotations

from tests.kit.places import ci_script


def test_every_target_runs() -> None:
    shortest = ci_script("shortest")
    assert set(shortest.documented()) == {*shortest.TARGETS, *shortest.APART}


def test_every_benchmark_has_a_shortest_form() -> None:
    bench = ci_script("bench")
    assert set(bench.scripts()) == set(bench.QUICK)
    assert set(bench.QUICK) >= bench.RECORDERS
