"""Which question a tracker answers next: never one peer's many before another's first."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpc_server.errors import ProtocolError
from tracker.questions import MOST_WAITING, Questions


def test_who_has_taken_little_is_answered_at_once():
    questions = Questions()
    assert questions.is_free(b"1", "eve", 0.0)
    questions.took(b"1", "eve", 1.0, 0.0)
    assert not questions.is_free(b"1", "eve", 0.1)
    assert not questions.is_free(b"2", "eve", 0.1)  # another connection of the same key
    assert questions.is_free(b"3", "ann", 0.1)
    assert questions.is_free(b"1", "eve", 10.0)  # it is forgotten


def test_a_flood_of_one_key_on_many_connections_comes_after_anothers_first():
    questions = Questions()
    for number in range(MOST_WAITING):
        for conn in (b"1", b"2"):
            questions.add(conn, "eve", number)
    with pytest.raises(ProtocolError, match="wait for their answers"):
        questions.add(b"1", "eve", MOST_WAITING)
    assert questions.next(0.0) == (b"1", "eve", 0)
    questions.took(b"1", "eve", 0.01, 0.01)
    questions.add(b"3", "ann", 7)  # while eve's first was answered
    assert questions.next(0.01) == (b"3", "ann", 7)
    questions.took(b"3", "ann", 0.1, 0.1)
    assert questions.next(0.1) == (b"2", "eve", 0)


@given(st.lists(st.tuples(st.sampled_from([b"a", b"b", b"c"]), st.floats(1e-4, 0.1)), max_size=60))
def test_shares_of_time_differ_by_one_answer_at_most(asked):
    questions = Questions()
    for route, cost in asked:
        questions.add(route, "", cost)
    spent = dict.fromkeys([b"a", b"b", b"c"], 0.0)
    left = {route: [cost for r, cost in asked if r == route] for route in spent}
    longest = max((cost for _, cost in asked), default=0.0)
    while (taken := questions.next(0.0)) is not None:
        route, _, cost = taken
        assert cost == left[route].pop(0)
        questions.took(route, "", cost, 0.0)
        spent[route] += cost
        waiting = [spent[r] for r, costs in left.items() if costs]
        assert not waiting or max(waiting) - min(waiting) <= longest + 1e-9
    assert not any(left.values())
    assert not questions
