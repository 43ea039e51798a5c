"""Config spaces: what each knob's policies make, indices, filters, fallbacks, refusals."""

from __future__ import annotations

import pytest

import tunefarm as tvm
from tunefarm import autotvm, te
from tunefarm.autotvm.task.space import AnnotateSpace, ReorderSpace, SplitEntity, SplitSpace, VirtualAxis


def sizes(axis, *args, **kwargs):
    return [e.size for e in SplitSpace(VirtualAxis(axis), *args, **kwargs)]


def test_a_split_by_factors_divides():
    assert sizes(12) == [[-1, 1], [-1, 2], [-1, 3], [-1, 4], [-1, 6], [-1, 12]]
    three = sizes(12, num_outputs=3)
    assert all(12 % (b * c) == 0 for _, b, c in three)
    assert len(three) == len({tuple(s) for s in three}) == 18  # ordered pairs whose product divides 12
    assert three[:3] == [[-1, 1, 1], [-1, 2, 1], [-1, 3, 1]]  # the innermost is the slowest to change


def test_the_other_split_policies():
    assert sizes(12, "power2") == [[-1, 1], [-1, 2], [-1, 4], [-1, 8]]
    assert sizes(12, "power2", no_tail=True) == [[-1, 1], [-1, 2], [-1, 4]]
    assert sizes(12, "verbose") == [[-1, 1], [-1, 2], [-1, 3], [-1, 4], [-1, 6], [-1, 8], [-1, 12]]
    assert sizes(12, "candidate", candidate=[[-1, 5], [2, 6]]) == [[-1, 5], [2, 6]]


def test_a_split_is_bounded_and_filtered():
    assert sizes(12, max_factor=4) == [[-1, 1], [-1, 2], [-1, 3], [-1, 4]]
    assert sizes(12, filter=lambda e: e.size[-1] > 3) == [[-1, 4], [-1, 6], [-1, 12]]


def test_reorder_policies():
    a, b, c = (VirtualAxis(n) for n in (2, 3, 4))

    def perms(policy, **options):
        return [e.perm for e in ReorderSpace([a, b, c], policy, **options)]

    assert perms("identity") == [[0, 1, 2]]
    assert len(perms("all")) == 6
    assert perms("candidate", candidate=[[c, a, b]]) == [[2, 0, 1]]
    assert perms("interleave", spatial=[[a, b]], reduce=[[c]]) == [[0, 1, 2], [0, 2, 1], [2, 0, 1]]


def test_a_reorder_knows_the_loops_of_splits():
    space = autotvm.ConfigSpace()
    yo, yi = space.define_split("y", 8, num_outputs=2)
    xo, xi = space.define_split("x", 8, num_outputs=2)
    out = space.define_reorder("order", [yo, xo, yi, xi], policy="candidate", candidate=[[yo, xo, xi, yi]])
    assert space["order"].perm == [0, 1, 3, 2]
    assert len(out) == 4


def test_annotation_policies():
    def anns(count, policy, **options):
        return [e.anns for e in AnnotateSpace([VirtualAxis(4)] * count, policy, **options)]

    assert anns(2, "unroll") == [["unroll", "unroll"]]
    assert len(anns(3, "try_unroll")) == 8
    assert anns(2, "try_vec") == [["none", "none"], ["none", "vec"], ["vec", "none"]]
    assert [len(anns(count, "try_unroll_vec")) for count in (1, 2, 3)] == [3, 8, 20]  # one vector at most
    assert anns(2, "try_unroll_vec")[-3:] == [["unroll", "vec"], ["vec", "none"], ["vec", "unroll"]]
    assert anns(3, "bind_gpu") == [["fuse", "blockIdx.x", "threadIdx.x"]]
    assert anns(3, "bind_gpu_virtual") == [["blockIdx.x", "vthread", "threadIdx.x"]]
    assert anns(2, "locate_cache") == [["locate_cache", "none"], ["none", "locate_cache"]]
    assert anns(1, "candidate", candidate=[["parallel"]]) == [["parallel"]]


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda c: c.define_split("y", 8, policy="prime"), "no split policy is called 'prime'"),
        (lambda c: c.define_split("y", 8, policy="candidate"), "needs candidate="),
        (lambda c: c.define_split("y", 8, filter=lambda e: False), "knob 'y' has no choices"),
        (lambda c: c.define_split("y", "i"), "a te axis or a positive length"),
        (lambda c: c.define_reorder("o", [c.axis(2)], policy="random"), "no reorder policy"),
        (lambda c: c.define_annotate("a", [c.axis(2)], policy="bold"), "no annotation policy"),
        (lambda c: c["nothing"], "no knob 'nothing'"),
    ],
)
def test_what_makes_no_sense_is_refused(wrong, says):
    with pytest.raises(ValueError, match=says):
        wrong(autotvm.ConfigSpace())


def test_an_unknown_option_of_a_knob_is_named():
    with pytest.raises(TypeError, match="max_facter"):
        autotvm.ConfigSpace().define_split("y", 8, max_facter=4)


def space_of_two():
    space = autotvm.ConfigSpace()
    space.define_split("y", 8, num_outputs=2)
    space.define_knob("fast", [False, True, "very"])
    return space


def test_indices_count_the_first_knob_fastest():
    space = space_of_two()
    assert (len(space), space.range_length, space.dims) == (12, 12, [4, 3])
    assert space.get(6)["y"].size == [-1, 4]
    assert space.get(6)["fast"].val is True
    assert space.point2knob(6) == [2, 1]
    assert [space.knob2point(space.point2knob(i)) for i in range(12)] == list(range(12))
    with pytest.raises(IndexError, match="12 configs"):
        space.get(12)


def test_a_filter_over_several_knobs_leaves_indices_out():
    space = space_of_two()
    space.multi_filter(lambda c: c["y"].size[-1] < 4 or c["fast"].val is False)
    valid = [i for i in range(12) if space.is_index_valid(i)]
    assert valid == [0, 1, 2, 3, 4, 5, 8, 9]
    assert len(space) == 8
    assert space.get_next_index(5) == 8
    assert [c.index for c in space] == valid


def test_a_config_goes_to_json_and_back():
    config = space_of_two().get(10)
    data = config.to_json_dict()
    assert data == {"index": 10, "code_hash": None, "entity": [["y", "sp", [-1, 4]], ["fast", "ot", "very"]]}
    again = autotvm.ConfigEntity.from_json_dict(data)
    assert again == config
    assert hash(again) == hash(config)
    assert config.get_other_option() == {"fast": "very"}
    assert len(config.get_flatten_feature()) == 3
    with pytest.raises(ValueError, match="not a config"):
        autotvm.ConfigEntity.from_json_dict({"index": 1})
    with pytest.raises(ValueError, match="not the value of a knob"):
        autotvm.ConfigEntity.from_json_dict({"index": 1, "entity": [["y", "zz", 1]]})


def test_a_fallback_takes_first_choices_or_the_largest_within_bounds():
    config = autotvm.FallbackConfigEntity()
    assert config.is_fallback
    config.define_split("y", 24, num_outputs=3)
    config.define_knob("fast", [3, 4])
    assert (config["y"].size, config["fast"].val) == ([-1, 1, 1], 3)
    config.fallback_split("y", [-1, 4, 8])
    assert config["y"].size == [1, 3, 8]
    config["y"] = SplitEntity([-1, 2, 2])
    config.define_split("y", 24, num_outputs=3)  # run again: what was set stays
    assert config["y"].size == [-1, 2, 2]
    with pytest.raises(autotvm.InstantiationError, match="no split"):
        config.fallback_split("y", [0, 0, 0])


def test_entities_are_applied_to_schedules():
    A = te.placeholder((16, 32), name="A")
    B = te.compute((16, 32), lambda i, j: A[i, j] + 1.0, name="B")
    s = te.create_schedule(B.op)
    _, x = s[B].op.axis
    config = autotvm.ConfigSpace()
    config.define_split("x", x, policy="candidate", num_outputs=3, candidate=[[-1, 4, 4]])
    loops = config["x"].apply(s, B, x)
    assert [leaf.var.name for leaf in s[B].leaves] == ["i", "j.outer", "j.inner.outer", "j.inner.inner"]
    config.define_annotate("ann", loops, policy="candidate", candidate=[["parallel", "unroll", "vec"]])
    config["ann"].apply(s, B, loops, axis_lens=[2, 4, 4], max_unroll=8, vec_size=[4, 8], cfg=config)
    assert config.valid()
    kinds = {leaf.var.name: leaf.for_type.name for leaf in s[B].leaf_iter_vars}
    assert kinds["j.inner.inner"] == "VECTORIZED"
    config["ann"].apply(s, B, loops, axis_lens=[2, 16, 3], max_unroll=8, vec_size=[4, 8], cfg=config)
    assert config.errors == ["too long to unroll: 16", "no vector has 3 lanes here"]


def test_indices_are_drawn_and_counted():
    space = autotvm.ConfigSpace()
    space.define_knob("a", [0, 1, 2, 3])
    space.define_knob("b", [0, 1])
    space.multi_filter(lambda config: config["a"].val != 1)
    assert (space.range_length, len(space), space.subrange_length(0, 4)) == (8, 6, 3)
    assert (space.get_next_index(0), space.get_next_index(0, 2), space.get_next_index(4, -1)) == (2, 3, 3)
    assert (space.get_next_index(0, end=2), space.get_next_index(7)) == (None, None)
    assert space.get_rand_index(2, 4, to_exclude=[2]) == 3
    assert space.sample_ints(100) == {0, 2, 3, 4, 6, 7}
    assert len(space.sample_ints(2)) == 2
    assert space.random_walk(0) in (2, 3, 4)
    with pytest.raises(tvm.TVMError, match="no index"):
        space.get_rand_index(1, 2)


def test_the_operations_of_a_schedule_are_counted():
    A = te.placeholder((16, 16))
    k = te.reduce_axis((0, 16))
    C = te.compute((16, 16), lambda i, j: te.sum(A[i, k] * A[k, j], axis=k))
    assert autotvm.task.task.compute_flop(te.create_schedule(C.op)) == 2 * 16**3
    with pytest.raises(RuntimeError, match="no operations to count"):
        autotvm.task.task.compute_flop(te.create_schedule(te.compute((16, 16), lambda i, j: A[i, j]).op))
