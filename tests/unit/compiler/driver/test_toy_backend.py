"""The backend seam: a target kind, a device and a search space, added here alone, go the way that all others go."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tunefarm as tvm
from compiler.artifact import Artifact
from compiler.driver.backend import BACKENDS, Backend
from compiler.driver.build import compile_artifact
from compiler.errors import ArgumentError, ArtifactError, CodegenError, DeviceError, TargetError
from compiler.runtime.core import device as devices
from compiler.runtime.core.backends import DEVICE_BACKENDS, DeviceBackend
from compiler.runtime.core.device import Device, cpu
from compiler.runtime.core.ndarray import array, empty
from compiler.runtime.load import load_artifact, load_module
from compiler.target.options import KINDS, register_kind
from compiler.target.target import Target
from compiler.te.operation import compute, placeholder
from compiler.te.prim_func import create_prim_func
from compiler.tir import nodes as n
from compiler.tir import ops
from rpc_server.executor.trial import Trials
from rpc_server.wire.messages import Measured
from rpc_server.wire.trial_messages import EvaluatorOptions, MeasureRequest
from tests.kit.toy_backend import CODE, DEVICE, KIND, TUNING
from tuner.build.worker import BuildRequest, build
from tuner.engine.plan import sketch_search
from tuner.errors import TuningError
from tuner.model.machine import target_family
from tuner.search.base import Candidate
from tuner.space.backend import TUNING_BACKENDS, TuningBackend
from tuner.space.generate import generate
from tuner.task import TuningTask

# --------------------------------------------------------------------------------- a row in each table


@pytest.fixture(autouse=True)
def toy() -> Iterator[None]:
    register_kind("toy", KIND)
    BACKENDS.register("toy", CODE)
    DEVICE_BACKENDS.register("toy", DEVICE)
    TUNING_BACKENDS.register("toy", TUNING)
    yield
    for table in (BACKENDS, DEVICE_BACKENDS, TUNING_BACKENDS):
        table.remove("toy")  # type: ignore[attr-defined]
    devices._apis.pop("ext_dev", None)
    del KINDS["toy"]


def twice_and_one() -> n.PrimFunc:
    a = placeholder((24,), name="a")
    return create_prim_func([a, compute((24,), lambda i: a[i] * 2.0 + 1.0, name="b")])


VALUES = np.arange(24, dtype=np.float32)


def test_it_is_built_run_timed_and_saved(tmp_path: Path) -> None:
    place = tvm.device("toy", 0)
    assert place == Device("ext_dev")
    assert place.device_name == "toy"
    assert tvm.target.Target.from_device(place) == Target("toy")
    module = tvm.build(twice_and_one(), target="toy -tiles=4", name="main")
    assert module.type_key == "toy"
    a, b = array(VALUES, place), empty((24,), device=place)
    module(a, b)
    np.testing.assert_array_equal(b.numpy(), VALUES * 2 + 1)
    result = module.time_evaluator("main", place, number=2, repeat=3)(a, b)
    assert len(result.results) == 3
    assert result.min > 0
    module.save(str(tmp_path / "m.tunefarm"))
    c = empty((24,), device=place)
    load_module(str(tmp_path / "m.tunefarm"))["main"](a, c)
    np.testing.assert_array_equal(c.numpy(), VALUES * 2 + 1)


def test_what_does_not_fit_is_refused() -> None:
    module = tvm.build(twice_and_one(), target="toy")
    with pytest.raises(ArgumentError, match="a is no float32"):
        module(array(VALUES), array(VALUES))
    with pytest.raises(DeviceError, match=r"runs on toys; it cannot be timed on cpu\(0\)\n.*ext_dev\(0\)"):
        module.time_evaluator("default_function", cpu())
    with pytest.raises(TargetError, match="has no option 'speed'"):
        Target("toy -speed=2")
    a = placeholder((4,), name="a")
    casts = create_prim_func([a, compute((4,), lambda i: a[i].astype("int32"), name="b")])
    with pytest.raises(CodegenError, match="the toy has no Cast"):
        compile_artifact(casts, "toy")
    with pytest.raises(ArtifactError, match="no toy code"):
        load_artifact(Artifact("toy", (), (), {}))


def test_a_dict_of_targets_has_a_module_of_each() -> None:
    main, other = tvm.IRModule({"f": twice_and_one()}), tvm.IRModule({"g": twice_and_one()})
    module = tvm.build({"llvm": main, "toy": other})
    assert [m.type_key for m in (module, *module.imported_modules)] == ["llvm", "toy"]


def test_it_is_tuned(tmp_path: Path) -> None:
    task = TuningTask("toy", twice_and_one(), Target("toy"))
    assert [s.name for s in generate(task.func, task.target)] == ["toy"]
    assert target_family(task.target) == "toy-any"
    with pytest.raises(TuningError, match="no block"):
        generate(n.PrimFunc((), n.Evaluate(ops.const(0)), {}), task.target)
    search = sketch_search(task)
    reference = built(search.source(None))
    blobs = {"reference": memoryview(reference.to_bytes())}
    trials = Trials(str(tmp_path), blobs.get, lambda *_: None)
    for candidate in search.strategy.ask(2):
        assert isinstance(candidate, Candidate)
        artifact = built(search.source(candidate))
        assert artifact.target == "toy"
        blobs[artifact.digest] = memoryview(artifact.to_bytes())
        options = EvaluatorOptions(number=1, repeat=2)
        request = MeasureRequest(artifact.digest, "main", 1, options, reference="reference", device_type="ext_dev")
        answer = trials.run(request)
        assert isinstance(answer, Measured)
        assert answer.result.ok, answer.result.text
        assert len(answer.result.costs) == 2
        assert answer.result.environment["toy_temperature"] == 20.0
        search.strategy.tell(candidate, answer.result.mean)
    assert len({c.digest for c in search.strategy.ask(3)}) == 1  # of three tiles, one is left


def built(source: Any) -> Artifact:
    made = build(BuildRequest(source, "toy"))
    assert made.artifact is not None, made.text
    return Artifact.from_bytes(made.artifact)


def test_a_row_is_for_a_kind_and_is_not_replaced_unasked() -> None:
    with pytest.raises(TargetError, match="there is a target kind 'toy'"):
        register_kind("toy", KINDS["toy"])
    with pytest.raises(TargetError, match="target kind 'toy' has a backend"):
        BACKENDS.register("toy", CODE)
    with pytest.raises(TargetError, match="no target kind 'unheard'"):
        BACKENDS.register("unheard", CODE)
    BACKENDS.register("toy", CODE, override=True)


@pytest.mark.parametrize("table", [BACKENDS, DEVICE_BACKENDS, TUNING_BACKENDS])
def test_every_row_is_there(table: Any) -> None:
    for kind in table.kinds:
        assert isinstance(table.find(kind), Backend | DeviceBackend | TuningBackend)
    assert table.find("vulkan") is None
