"""Models of trees in LightGBM's text format, read and evaluated here.

Training a model needs LightGBM; using one needs only numpy. A text comes from a store or a file that others can
write to, so it is limited in size and checked in full before it is used. Every child is a later node or a leaf of
its tree, every feature one we have, every number finite.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tuner.model.errors import ModelError
from tuner.model.features import NAMES
from tuner.model.types import Floats, Ints

MOST_BYTES = 8 << 20
_BLOCK = 128
_MOST_TREES = 2000
_MOST_LEAVES = 4096
_DEFAULT_LEFT = 2  # of a split's decision type: where missing values go, which features never are


@dataclass(frozen=True)
class Forest:
    """All trees' nodes one after the other: the inner nodes of a tree, then its leaves.
    Each leaf is its own child. `children` has two entries a node, left and right. `text` is what it was read from."""

    text: str
    roots: Ints
    feature: Ints
    threshold: Floats
    children: Ints
    value: Floats
    depth: int

    @property
    def trees(self) -> int:
        return len(self.roots)

    def predict(self, matrix: Floats) -> Floats:
        """A score for each row of a (candidates, len(NAMES)) array; higher is better."""
        blocks = [self._scores(matrix[at : at + _BLOCK]) for at in range(0, len(matrix), _BLOCK)]
        return np.concatenate(blocks) if blocks else np.zeros(0)

    def _scores(self, matrix: Floats) -> Floats:
        """Score so few candidates at a time that their places in a tree stay in the cache."""
        flat, row = np.ascontiguousarray(matrix).ravel(), (np.arange(len(matrix)) * matrix.shape[1])[:, None]
        at = np.repeat(self.roots[None, :], len(matrix), axis=0)
        for _ in range(self.depth):
            goes_right = flat.take(row + self.feature.take(at)) > self.threshold.take(at)
            at = self.children.take(2 * at + goes_right)
        scores: Floats = self.value.take(at).sum(axis=1)
        return scores

    @staticmethod
    def parse(text: str) -> Forest:
        """The model that LightGBM wrote as `text`. Raises ModelError, which says what is wrong with it."""
        if len(text) > MOST_BYTES:
            raise ModelError(f"the model is longer than {MOST_BYTES >> 20} MiB")
        head, *trees = text.split("\nTree=")
        facts = _facts(head)
        if not head.startswith("tree\n") or facts.get("version") not in ("v3", "v4"):
            raise ModelError("not a model in LightGBM's text format")
        if facts.get("feature_names", "").split() != list(NAMES):
            raise ModelError(
                "the model was trained on other features than this version has", hint="tunefarm cost-model train"
            )
        if facts.get("num_class") != "1" or not 0 < len(trees) <= _MOST_TREES:
            raise ModelError(f"the model has {len(trees)} trees of {facts.get('num_class')} classes")
        return _joined(text, [_tree(number, _facts(tree)) for number, tree in enumerate(trees)])


@dataclass(frozen=True)
class _Tree:
    feature: Ints
    threshold: Floats
    left: Ints
    right: Ints
    value: Floats
    depth: int


def _facts(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


def _tree(number: int, facts: dict[str, str]) -> _Tree:
    try:
        leaves = int(facts["num_leaves"])
        if not 1 <= leaves <= _MOST_LEAVES or int(facts["num_cat"]) != 0:
            raise ValueError(f"{leaves} leaves, {facts['num_cat']} categorical splits")
        value = _numbers(facts, "leaf_value", leaves)
        if leaves == 1:
            return _single(value)
        feature = _numbers(facts, "split_feature", leaves - 1).astype(np.int64)
        threshold = _numbers(facts, "threshold", leaves - 1)
        kind = _numbers(facts, "decision_type", leaves - 1).astype(np.int64)
        left, right = (_numbers(facts, name, leaves - 1).astype(np.int64) for name in ("left_child", "right_child"))
        if ((kind & ~_DEFAULT_LEFT) != 0).any():
            raise ValueError("a split that is no comparison of numbers")
        if (feature < 0).any() or (feature >= len(NAMES)).any():
            raise ValueError("a split by an unknown feature")
        return _Tree(feature, threshold, left, right, value, _depth(left, right, leaves))
    except (KeyError, ValueError) as error:
        raise ModelError(f"tree {number} of the model is broken: {error}") from None


def _single(value: Floats) -> _Tree:
    nothing = np.zeros(0, np.int64)
    return _Tree(nothing, np.zeros(0), nothing, nothing, value, 0)


def _numbers(facts: dict[str, str], name: str, count: int) -> Floats:
    numbers = np.array([float(word) for word in facts[name].split()])
    if len(numbers) != count or not np.isfinite(numbers).all():
        raise ValueError(f"{name} is not {count} numbers")
    return numbers


def _depth(left: Ints, right: Ints, leaves: int) -> int:
    """How deep the tree is.
    Raises ValueError unless every node but the first is the child of one before it."""
    depth = np.zeros(len(left), np.int64)
    reached = np.zeros(len(left), bool)
    reached[0] = True
    seen: set[int] = set()
    for node, children in enumerate(zip(left.tolist(), right.tolist())):
        for child in children:
            fine = node < child < len(left) if child >= 0 else ~child < leaves
            if not fine or child in seen or not reached[node]:
                raise ValueError(f"node {node} has the child {child}")
            seen.add(child)
            if child >= 0:
                depth[child] = depth[node] + 1
                reached[child] = True
    return int(depth.max()) + 1


def _joined(text: str, trees: list[_Tree]) -> Forest:
    roots, feature, threshold, children, value = [], [], [], [], []
    start = 0
    for tree in trees:
        inner, leaves = len(tree.feature), len(tree.value)
        own = np.arange(start + inner, start + inner + leaves)  # a leaf leads to itself
        pairs = np.stack([tree.left, tree.right], axis=1)
        roots.append(start)
        feature += [tree.feature, np.zeros(leaves, np.int64)]
        threshold += [tree.threshold, np.zeros(leaves)]
        children += [np.where(pairs >= 0, start + pairs, start + inner + ~pairs).ravel(), np.repeat(own, 2)]
        value += [np.zeros(inner), tree.value]
        start += inner + leaves
    return Forest(
        text=text,
        roots=np.array(roots),
        feature=np.concatenate(feature),
        threshold=np.concatenate(threshold),
        children=np.concatenate(children),
        value=np.concatenate(value),
        depth=max(tree.depth for tree in trees),
    )
