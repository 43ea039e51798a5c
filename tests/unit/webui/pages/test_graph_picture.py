"""The picture of a graph: rows by depth, colours by share, no box upon another."""

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from tuner.records.model_store.facts import GraphCall
from webui.pages.graph_picture import BOX_HEIGHT, BOX_WIDTH, HEATS, CallShare, graph_picture, label_of


@st.composite
def graphs(draw: st.DrawFn) -> list[GraphCall]:
    calls: list[GraphCall] = []
    for number in range(draw(st.integers(0, 14))):
        inputs = draw(st.sets(st.integers(0, number - 1), max_size=3)) if number else set()
        calls.append(GraphCall(name=f"k{number % 4}", workload=None, inputs=tuple(sorted(inputs))))
    return calls


@given(graphs())
def test_calls_are_below_what_they_take_and_apart(calls: list[GraphCall]) -> None:
    picture = graph_picture(calls, {})
    assert len(picture.boxes) == len(calls)
    assert len(picture.lines) == sum(len(call.inputs) for call in calls)
    for call, box in zip(calls, picture.boxes, strict=True):
        assert all(picture.boxes[at].y + BOX_HEIGHT < box.y for at in call.inputs)
        assert 0 <= box.x <= picture.width - BOX_WIDTH
        assert 0 <= box.y <= picture.height - BOX_HEIGHT
    for one, other in combinations(picture.boxes, 2):
        assert abs(one.x - other.x) >= BOX_WIDTH or abs(one.y - other.y) >= BOX_HEIGHT


def test_the_more_time_the_stronger_the_colour() -> None:
    calls = [GraphCall(name=name, workload=None, inputs=()) for name in ("much", "little", "unknown")]
    shares = {"much": CallShare(0.9, "much: 90 %"), "little": CallShare(0.001, "little")}
    much, little, unknown = graph_picture(calls, shares).boxes
    assert (much.heat, little.heat, unknown.heat) == (HEATS, 1, 0)
    assert (much.text, unknown.text) == ("much: 90 %", "unknown")


def test_a_name_that_does_not_fit_keeps_its_beginning_and_its_end() -> None:
    assert label_of("fused_conv2d_add_relu17") == "fused_conv2d_add_relu17"
    long = label_of("fused_conv2d_add_sigmoid_multiply17")
    assert long.startswith("fused_conv2d_")
    assert long.endswith("…tiply17")
    wide = label_of("MaxMinMaxMinMaxMinMaxMin9")
    assert len(wide) < len(long)
