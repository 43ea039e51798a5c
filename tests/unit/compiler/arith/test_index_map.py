"""Index maps: applying, shapes, equality, and the way back checked over whole index spaces."""

from __future__ import annotations

from itertools import product

import pytest

from compiler.arith.analyzer import Analyzer
from compiler.arith.index_map import IndexMap
from compiler.errors import IRError
from compiler.tir.ops import as_int, const
from compiler.tir.visit import substitute

MAPS = [
    (lambda i, j: [j, i], (3, 5)),
    (lambda i, j: [i // 4, j, i % 4], (12, 5)),
    (lambda i, j: [i * 5 + j], (3, 5)),
    (lambda i, j: [i // 2, j // 3, i % 2, j % 3], (6, 6)),
    (lambda i, j: [j % 2 * 6 + i, j // 2], (6, 8)),
    (lambda i: [i // 12, i // 4 % 3, i % 4], (24,)),
]


def values(exprs):
    return tuple(map(as_int, exprs))


@pytest.mark.parametrize(("mapping", "shape"), MAPS)
def test_the_inverse_leads_back(mapping, shape):
    forth = IndexMap.from_func(mapping)
    back = forth.inverse(shape)
    places = set()
    for point in product(*map(range, shape)):
        place = values(forth.map_indices(point))
        assert values(back.map_indices(place)) == point
        places.add(place)
    sizes = values(forth.map_shape(shape))
    assert places == set(product(*map(range, sizes)))


@pytest.mark.parametrize(
    ("mapping", "shape"),
    [
        *MAPS,
        (lambda i, j: [i // 4, j, i % 4], (13, 5)),
        (lambda i, j: [i * 8 + j], (3, 5)),
        (lambda i, j: [i * 3, j % 4, j // 4], (3, 6)),
        (lambda i, j: [j // 4, i * 18 + j % 4 * 3], (2, 7)),
        (lambda i: [i // 12, i // 4 % 3, i % 4], (31,)),
        (lambda i, j: [i // 4, j], (1, 3)),
    ],
)
def test_a_place_is_padding_or_leads_back(mapping, shape):
    forth = IndexMap.from_func(mapping)
    back, beyond = forth.non_surjective_inverse(shape)
    elements = {values(forth.map_indices(point)): point for point in product(*map(range, shape))}
    for place in product(*map(range, values(forth.map_shape(shape)))):
        given = dict(zip(back.initial_indices, map(const, place)))
        padding = bool(as_int(Analyzer().simplify(substitute(beyond, given))))
        assert padding == (place not in elements)
        assert padding or values(back.map_indices(place)) == elements[place]


def test_equivalence():
    one = IndexMap.from_func(lambda i, j: [(i * 4 + j) // 4, j])
    assert one.is_equivalent_to(IndexMap.from_func(lambda a, b: [(a * 4 + b) // 4, b]))
    assert not one.is_equivalent_to(IndexMap.from_func(lambda a, b: [b, a]))
    assert not one.is_equivalent_to(IndexMap.from_func(lambda a: [a, a]))


def test_any_number_of_indices():
    assert len(IndexMap.from_func(lambda i, *rest: [*rest, i], ndim=4).initial_indices) == 4
    with pytest.raises(IRError, match="say with ndim="):
        IndexMap.from_func(lambda *rest: rest)
    with pytest.raises(IRError, match="takes 2 indices, 3 are needed"):
        IndexMap.from_func(lambda i, j: [i, j], ndim=3)


@pytest.mark.parametrize(
    ("mapping", "shape"),
    [
        (lambda i, j: [i], (3, 3)),
        (lambda i, j: [i + j], (3, 3)),
        (lambda i, j: [i // 4, j, i % 4], (13, 5)),
        (lambda i, j: [i * i, j], (3, 3)),
        (lambda i, j: [i, j + 1], (3, 3)),
    ],
)
def test_what_has_no_inverse(mapping, shape):
    with pytest.raises(IRError, match="no inverse"):
        IndexMap.from_func(mapping).inverse(shape)


def test_wrong_ranks():
    two = IndexMap.from_func(lambda i, j: [j, i])
    for call in (two.map_indices, two.map_shape, two.inverse):
        with pytest.raises(IRError):
            call((3,))
