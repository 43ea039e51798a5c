"""Trials on a real server: times, the check against a reference, artifacts sent once."""

import numpy as np
import pytest

from compiler.errors import ArgumentError
from rpc_server.box.server import Server
from rpc_server.client.connect import open_session
from rpc_server.wire.trial_messages import EvaluatorOptions, FailureKind, MeasureRequest
from tests.kit.farm.rpc_kernels import kernel, with_features

QUICK = EvaluatorOptions(number=3, repeat=4)


@pytest.fixture(scope="module")
def server():
    with Server(port=0, sessions=2, warm=2, blob_capacity=1 << 20) as running:
        yield running


def ask(candidate, reference=None, **changes):
    options = {"options": QUICK, "timeout_s": 120.0, **changes}
    digest = None if reference is None else reference.digest
    artifacts = [a for a in (candidate, reference) if a is not None]
    return MeasureRequest(artifact=candidate.digest, reference=digest, **options), artifacts


def test_times_come_back(remote):
    result = remote.measure(*ask(kernel("add_one")))
    assert result.ok
    assert result.text == ""
    assert len(result.costs) == 4
    assert all(0 < cost < result.elapsed_s for cost in result.costs)  # seconds
    assert result.mean == pytest.approx(np.mean(result.costs))
    assert result.elapsed_s > 0
    assert {"load_1m", "preempted", "number"} <= result.environment.keys()


def test_min_repeat_and_flush(remote):
    longer = EvaluatorOptions(number=1, repeat=2, min_repeat_ms=20)
    result = remote.measure(*ask(kernel("add_one"), options=longer))
    assert result.ok
    assert result.environment["number"] * result.costs[-1] >= 0.0199
    cold = EvaluatorOptions(number=1, repeat=2, flush_cache=True, cooldown_interval_ms=1)
    assert remote.measure(*ask(kernel("add_one"), options=cold)).ok


def test_agreeing_with_the_reference(remote):
    for _ in range(2):  # once computed, once kept
        result = remote.measure(*ask(kernel("add_one"), kernel("add_one", name="naive"), entry=""))
        assert result.ok, result.text
    almost = remote.measure(*ask(kernel("almost"), kernel("add_one", name="naive")))
    assert almost.ok, almost.text


def test_a_reference_is_its_own_reference(server):
    with open_session("127.0.0.1", server.port, wait_s=60) as session:
        result = session.measure(*ask(kernel("add_one"), kernel("add_one")))  # nothing is kept in this session yet
        assert result.ok, result.text
        assert session.measure(*ask(kernel("add_one", name="again"), kernel("add_one"))).ok


def test_a_wrong_kernel_has_no_time(remote):
    result = remote.measure(*ask(kernel("negate"), kernel("add_one")))
    assert result.failure is FailureKind.WRONG_RESULT
    assert result.costs == ()
    assert "output b: 1024 of 1024 elements differ" in result.text
    strict = remote.measure(*ask(kernel("almost"), kernel("add_one"), rtol=1e-9, atol=0.0))
    assert strict.ok  # never stricter than the dtype's own precision allows


def test_a_reference_of_another_shape_is_a_mismatch(remote):
    result = remote.measure(*ask(kernel("add_one"), kernel("add_one", n=512)))
    assert result.failure is FailureKind.WRONG_RESULT
    assert "512" in result.text


@pytest.mark.parametrize("kind", ["segfault", "exit", "forever"])
def test_a_reference_that_fails_is_blamed_itself(remote, kind):
    result = remote.measure(*ask(kernel("add_one"), kernel(kind), reference_timeout_s=0.8))
    assert not result.ok
    assert result.text.startswith("the reference, not the candidate")
    assert remote.measure(*ask(kernel("add_one"), kernel("add_one"))).ok


def test_the_reference_is_kept_through_a_crash(remote):
    reference = kernel("add_one", name="naive")
    assert remote.measure(*ask(kernel("add_one"), reference)).ok
    assert remote.measure(*ask(kernel("segfault"), reference)).failure is FailureKind.CRASH
    assert remote.measure(*ask(kernel("add_one"), reference)).ok


def test_a_slow_reference_does_not_eat_the_candidates_time(server):
    """At one of some attempts: a busy machine may take the candidate's three seconds for other things."""
    for _ in range(10):
        with open_session("127.0.0.1", server.port, wait_s=60) as session:  # nothing is kept in it yet
            result = session.measure(*ask(kernel("idle"), kernel("sleepy"), timeout_s=3.0))
        if result.ok:
            return
    pytest.fail(result.text)


def test_refused_and_missing(remote):
    refused = remote.measure(*ask(with_features(kernel("add_one"), "avx-of-tomorrow")))
    assert refused.failure is FailureKind.UPLOAD
    assert "avx-of-tomorrow" in refused.text
    lost = remote.measure(*ask(kernel("add_one"), entry="other"))
    assert lost.failure is FailureKind.LAUNCH
    assert "other" in lost.text
    request, _ = ask(kernel("negate", n=64))
    with pytest.raises(ArgumentError, match="not passed"):
        remote.measure(request, [])


def test_artifacts_the_box_dropped_are_sent_again(remote):
    first = kernel("add_one")
    assert remote.measure(*ask(first)).ok
    for i in range(6):  # more than the box's store holds
        remote.upload(bytes([i]) * (400 << 10), target="filler")
    assert remote.measure(*ask(first)).ok
