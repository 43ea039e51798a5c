"""The space of a kernel of one's own: values, constraints, and what is wrong with them."""

from __future__ import annotations

import numpy as np
import pytest

from tuner.errors import TuningError
from tuner.kernels.csource import Argument, CSource, KernelCompileError
from tuner.kernels.kernel import CKernel, kernel_search
from tuner.kernels.space import KernelSpace, config_json, config_of
from tuner.records.lookup.keys import candidate_digest

TARGET = "llvm"


def space(*constraints, **parameters) -> KernelSpace:
    usual = {"TILE": [1, 2, 4, 8], "UNROLL": [1, 2, 4], "KIND": ["row", "column"]}
    return KernelSpace(parameters or usual, constraints)


def allowed(given: KernelSpace) -> list[dict[str, object]]:
    sketch = given.sketch("kernel")
    found = []
    for flat in range(sketch.size):
        point, rest = [], flat
        for decision in sketch.decisions:
            rest, at = divmod(rest, len(decision.values))
            point.append(at)
        if sketch.is_allowed(tuple(point)):
            found.append(config_of(sketch.trace_json(tuple(point))))
    return found


def test_every_combination_is_a_config():
    assert len(allowed(space())) == 24


@pytest.mark.parametrize(
    ("constraint", "check"),
    [
        ("TILE * UNROLL <= 8", lambda c: c["TILE"] * c["UNROLL"] <= 8),
        ("TILE % UNROLL == 0 and not KIND == 'row'", lambda c: c["TILE"] % c["UNROLL"] == 0 and c["KIND"] != "row"),
        ("1 < TILE < 8 or UNROLL == 4", lambda c: 1 < c["TILE"] < 8 or c["UNROLL"] == 4),
        ("max(TILE, UNROLL) - min(TILE, 2) >= abs(-2)", lambda c: max(c["TILE"], c["UNROLL"]) - min(c["TILE"], 2) >= 2),
        ("TILE / UNROLL > 1.5", lambda c: c["TILE"] / c["UNROLL"] > 1.5),
        ("-TILE + 2 ** UNROLL // 3 > 0", lambda c: -c["TILE"] + 2 ** c["UNROLL"] // 3 > 0),
        (lambda c: c["KIND"] == "row", lambda c: c["KIND"] == "row"),
    ],
)
def test_constraints_leave_out_what_they_say(constraint, check):
    found = allowed(space(constraint))
    assert found == [config for config in allowed(space()) if check(config)]
    assert 0 < len(found) < 24


@pytest.mark.parametrize(
    ("constraint", "message"),
    [
        ("TILE *", "can't be read"),
        ("SIZE > 1", "names SIZE, which is no parameter"),
        ("__import__('os')", "has Call"),
        ("TILE.real > 1", "has Attribute"),
        ("[TILE]", "has List"),
        ("(lambda: 1)()", "has Call"),
        ("TILE if UNROLL else 1", "has IfExp"),
    ],
)
def test_a_constraint_is_no_program(constraint, message):
    with pytest.raises(TuningError, match=message):
        space(constraint)


def test_a_constraint_that_fails_is_named():
    with pytest.raises(TuningError, match=r"'1 / \(TILE - 1\) > 0' failed for"):
        allowed(space("1 / (TILE - 1) > 0"))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"TILE": []}, "needs a list of values"),
        ({"TILE": "124"}, "needs a list of values"),
        ({"TILE": [1, 1]}, "a value twice"),
        ({"my tile": [1]}, "is no name for a parameter"),
    ],
)
def test_a_space_that_is_none_is_refused(parameters, message):
    with pytest.raises(TuningError, match=message):
        KernelSpace(parameters)
    with pytest.raises(TuningError, match="needs a parameter"):
        KernelSpace({})


def test_a_config_is_the_same_text_whatever_its_order():
    assert config_json({"B": 2, "A": 1}) == config_json({"A": 1, "B": 2})
    assert config_of(config_json({"A": 1, "B": "x", "C": 0.5})) == {"A": 1, "B": "x", "C": 0.5}
    for text in ("{", "{}", '{"format": "tunefarm.trace"}'):
        with pytest.raises(TuningError):
            config_of(text)


# ------------------------------------------------------------------------------------------ C

ARGUMENTS = (Argument("x", "float32", (16,)), Argument("y", "float32", (16,), output=True))
SOURCE = "void twice(const float* x, float* y) { for (int i = 0; i < 16; i += STEP) for (int j = 0; j < STEP; ++j) y[i + j] = 2 * x[i + j]; }"  # noqa: E501


def test_c_source_becomes_an_artifact_that_runs():
    from compiler.runtime.core.ndarray import array
    from compiler.runtime.load import load_artifact

    made = CSource(SOURCE, "twice", ARGUMENTS, "cc -O2").compile({"STEP": 4}, TARGET)
    x, y = np.arange(16, dtype="float32"), array(np.zeros(16, "float32"))
    load_artifact(made)["main"](array(x), y)
    np.testing.assert_array_equal(y.numpy(), 2 * x)
    assert made.meta["config.STEP"] == "4"


def test_what_the_compiler_says_is_kept():
    with pytest.raises(KernelCompileError, match="STEP"):
        CSource(SOURCE, "twice", ARGUMENTS, "cc -O2").compile({}, TARGET)


def test_a_compiler_that_is_not_there_is_named():
    with pytest.raises(TuningError, match="'no-such-cc' can't be run"):
        CSource(SOURCE, "twice", ARGUMENTS, "no-such-cc -O2").compile({"STEP": 1}, TARGET)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"entry": "a b"}, "no name of a C function"),
        ({"arguments": ARGUMENTS[:1]}, "is an output"),
        ({"compiler": " "}, "command is empty"),
    ],
)
def test_a_source_that_is_none_is_refused(change, message):
    given = {"text": SOURCE, "entry": "twice", "arguments": ARGUMENTS, "compiler": "cc"}
    with pytest.raises(TuningError, match=message):
        CSource(**{**given, **change})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("x", "float16", (4,)), "no dtype 'float16' in C"),
        (("x y", "float32", (4,)), "no name of an argument"),
        (("x", "float32", ()), "is no shape"),
        (("x", "float32", (0,)), "is no shape"),
    ],
)
def test_an_argument_that_is_none_is_refused(given, message):
    with pytest.raises(TuningError, match=message):
        Argument(*given)


def kernel(**changes) -> CKernel:
    source = CSource(SOURCE, "twice", ARGUMENTS, "cc -O2")
    given = {"name": "twice", "source_code": source, "space": space(STEP=[1, 2, 4]), "reference": {"STEP": 1}}
    return CKernel(**{**given, **changes})


def test_the_key_changes_with_the_source_and_nothing_else():
    from compiler.target.target import Target

    def key(given: CKernel) -> str:
        return given.task(Target(TARGET)).key

    other = CSource(SOURCE.replace("2 *", "3 *"), "twice", ARGUMENTS, "cc -O2")
    assert key(kernel()) == key(kernel(reference={"STEP": 2}))
    assert key(kernel()) != key(kernel(source_code=other))


def test_a_reference_is_a_config_of_the_space():
    with pytest.raises(TuningError, match="STEP = 8 is none of"):
        kernel(reference={"STEP": 8})
    with pytest.raises(TuningError, match="a config has STEP"):
        kernel(reference={})


def test_recorded_configs_are_recognised():
    search = kernel_search(kernel(), TARGET, "random")
    (candidate,) = search.strategy.ask(1)
    assert search.recognise(candidate.digest, candidate.trace_json) == candidate
    text = config_json({"STEP": 16})
    assert search.recognise(candidate_digest(text), text) is None
    assert search.recognise("0", "{") is None
