"""Capability expressions: what parses, what matches, and how a bad one is refused."""

from __future__ import annotations

import pytest

from tracker.capability import Capabilities, CapabilityError, is_word, parse_capability, parse_number

GIB = 1024**3
CPU = Capabilities.of(
    "zen3",
    ("cpu", "lab-a"),
    {"arch": "znver3", "cores": 8, "memory": 16 * GIB, "features": ("avx2", "fma"), "cpu_model": "AMD EPYC 7B13"},
)


@pytest.mark.parametrize(
    "text",
    [
        "zen3",
        "cpu",
        "*",
        "cpu lab-a",
        "cpu, lab-a & zen3",
        "arch=znver3",
        "arch==znver3",
        "arch=znver4|znver3",
        "arch=znver*",
        "arch!=sm_90",
        "cores>=8",
        "cores >= 8",
        "cores<9",
        "cores=8",
        "memory>=16GiB",
        "memory>15GiB memory<=16GiB",
        "features=avx2",
        "features!=avx512f",
        'cpu_model="AMD EPYC 7B13"',
        "key=zen3",
        "tag=lab-*",
        "absent!=1",
    ],
)
def test_matches(text: str) -> None:
    assert parse_capability(text).matches(CPU)


@pytest.mark.parametrize(
    "text",
    [
        "gpu",
        "cpu gpu",
        "arch=sm_90",
        "arch!=znver3",
        "cores>8",
        "cores>=16",
        "memory>=80GiB",
        "features=avx512f",
        "arch>=3",
        "absent=1",
        "absent>=1",
        "key!=zen3",
        "tag!=cpu",
    ],
)
def test_does_not_match(text: str) -> None:
    assert not parse_capability(text).matches(CPU)


@pytest.mark.parametrize("text", ["arch=sm_90", "arch=sm_90a", "arch=sm_9*", "arch=sm_80|sm_90", "arch!=sm_80"])
def test_a_variant_of_an_architecture_is_that_architecture(text: str) -> None:
    assert parse_capability(text).matches(Capabilities.of("gpu", (), {"arch": "sm_90a"}))
    assert not parse_capability("arch!=sm_90").matches(Capabilities.of("gpu", (), {"arch": "sm_90a"}))


def test_memory_is_nominal() -> None:
    reported = Capabilities.of("gpu", (), {"memory": int(79.6 * GIB)})
    assert parse_capability("memory>=80GiB").matches(reported)
    assert not parse_capability("memory>80GiB").matches(reported)
    assert not parse_capability("memory>=96GiB").matches(reported)


def test_order_and_spacing_do_not_matter() -> None:
    assert parse_capability("cores>=8,  cpu") == parse_capability("cpu cores >= 8 cpu")
    assert str(parse_capability("cores>=8,  cpu")) == "cores>=8 cpu"


@pytest.mark.parametrize("text", ["cpu", "*", "a b c=1|2", 'model="x y"', "device=b/0|a/0 cpu", "memory>=8GiB"])
def test_text_round_trips(text: str) -> None:
    predicate = parse_capability(text)
    assert parse_capability(str(predicate)) == predicate


def test_naming_devices() -> None:
    predicate = parse_capability("cpu device=a/0|b/0")
    assert predicate.admits("a/0")
    assert not predicate.admits("c/0")
    assert parse_capability("device=a/0 device=b/0").devices == frozenset()
    assert parse_capability("cpu").admits("anything")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "empty"),
        ("  , ", "empty"),
        ("cores>=", "'>=' at column 6 is no term"),
        ("cpu cores>=lots", "'cores>=lots' at column 5"),
        ("cores>=8|9", "alternatives"),
        ("arch=a||b", "empty value"),
        ("device!=a", "must be `device=ID`"),
        ("cpu (gpu)", "'(gpu)' at column 5 is no term"),
        ("cpu|edge", "'|edge' at column 4 is no term"),
        ("x" * 2000, "2000 characters"),
        (" ".join(f"t{i}" for i in range(40)), "40 terms"),
    ],
)
def test_bad_expressions_are_refused(text: str, says: str) -> None:
    with pytest.raises(CapabilityError) as caught:
        parse_capability(text)
    assert says in caught.value.message
    assert caught.value.kind == "capability"


def test_the_hint_for_one_of_two_keys() -> None:
    with pytest.raises(CapabilityError) as caught:
        parse_capability("cpu|edge")
    assert "give their boxes a common tag" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("8", 8),
        ("2.5", 2.5),
        ("1KiB", 1024),
        ("1kB", 1000),
        ("3g", 3e9),
        ("80GiB", 80 * GIB),
        ("x", None),
        ("1XB", None),
    ],
)
def test_numbers(text: str, value: float | None) -> None:
    assert parse_number(text) == value


def test_words() -> None:
    assert is_word("rk3399-gpu")
    assert is_word("host:9091/0")
    assert not is_word("two words")
    assert not is_word("a=b")
    assert not is_word("")
