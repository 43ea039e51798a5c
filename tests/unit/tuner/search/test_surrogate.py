"""The Gaussian process that learns a run's task, and the algebra it does by hand."""

from __future__ import annotations

import numpy as np

from tuner.search.surrogate import Surrogate, _backward, _cholesky, _forward


def data(count: int, seed: int = 0):
    rng = np.random.default_rng(seed)
    rows = rng.random((count, 6))
    return rows, 4 * rows[:, 0] + np.sin(5 * rows[:, 1])  # the logarithm of the cost


def test_the_algebra_is_numpys():
    rng = np.random.default_rng(1)
    half = rng.normal(size=(30, 30))
    matrix = half @ half.T + np.eye(30)
    root, column = _cholesky(matrix), rng.normal(size=30)
    np.testing.assert_allclose(root, np.linalg.cholesky(matrix), atol=1e-9)
    np.testing.assert_allclose(_forward(root, column[:, None])[:, 0], np.linalg.solve(root, column))
    np.testing.assert_allclose(_backward(root, column), np.linalg.solve(root.T, column))


def test_it_learns_and_is_unsure_far_from_what_it_saw():
    rows, logs = data(60)
    surrogate = Surrogate.fit(rows, np.zeros(60), np.exp2(logs), np.zeros(60))
    unseen, truth = data(40, seed=2)
    expected = surrogate.expected(unseen, np.zeros(40))
    assert np.corrcoef(expected, truth)[0, 1] > 0.95
    assert surrogate.deviation(unseen + 50).min() > 2 * surrogate.deviation(rows).max()


def test_a_prior_that_is_right_helps_where_nothing_was_seen():
    rows, logs = data(12)
    surrogate = Surrogate.fit(rows, -logs, np.exp2(logs), -logs)
    unseen, truth = data(40, seed=3)
    assert np.corrcoef(surrogate.expected(unseen, -truth), truth)[0, 1] > 0.95


def test_a_prior_that_is_wrong_is_not_followed():
    rows, logs = data(60)
    surrogate = Surrogate.fit(rows, logs, np.exp2(logs), logs)  # promises most of the worst
    unseen, truth = data(40, seed=3)
    assert np.corrcoef(surrogate.expected(unseen, truth), truth)[0, 1] > 0.8


def test_equal_costs_and_equal_rows_do_no_harm():
    surrogate = Surrogate.fit(np.ones((5, 3)), np.ones(5), np.ones(5), np.ones(5))
    assert np.isfinite(surrogate.expected(np.zeros((2, 3)), np.zeros(2))).all()
    assert np.isfinite(surrogate.deviation(np.zeros((2, 3)))).all()


def test_many_trials_are_thinned():
    rows, logs = data(500)
    surrogate = Surrogate.fit(rows, np.zeros(500), np.exp2(logs), np.zeros(500))
    assert len(surrogate.rows) <= 192
