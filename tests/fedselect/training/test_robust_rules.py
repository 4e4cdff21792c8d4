"""Server rules against clients that lie, each beside a literal one."""

import itertools

import numpy as np
import pytest
import torch

from fedselect.errors import ConfigError
from fedselect.training.corruption import CORRUPTIONS
from fedselect.training.robust_rules import squared_distances
from fedselect.training.server_rules import SERVER_RULES
from fedselect.training.settings import TrainingSettings
from solvers import InvalidProblem, solve
from solvers.dispersion import closest


def rounds(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(4, 11))
    updates = rng.normal(size=(n, 6)).astype(np.float32)
    updates[: n // 5] += 20
    weights = rng.dirichlet(np.ones(n)).tolist()
    return n, updates, weights


def by_hand(name, updates, weights, liars):
    n, total = len(updates), sum(weights)
    f = int(liars * n)
    if name == "median":
        return np.median(updates, axis=0) * total
    if name == "trimmed-mean":
        return np.array([np.sort(column)[f : n - f].mean() for column in updates.T]) * total
    far = ((updates[:, None].astype(float) - updates) ** 2).sum(axis=2)
    if name == "closest":
        kept = min(itertools.combinations(range(n), n - f), key=lambda s: far[np.ix_(s, s)].sum())
    else:
        sums = [sum(sorted(np.delete(far[k], k))[: max(n - f - 2, 1)]) for k in range(n)]
        kept = sorted(range(n), key=lambda k: sums[k])[: 1 if name == "krum" else n - f]
    own = sum(weights[k] for k in kept)
    return sum(weights[k] / own * updates[k] for k in kept) * total


@pytest.mark.parametrize("name", ["median", "trimmed-mean", "krum", "multikrum", "closest"])
def test_each_rule_is_its_definition(name):
    for seed in range(20):
        n, updates, weights = rounds(seed)
        liars = 0.0 if seed % 5 == 0 else 0.3
        rule = SERVER_RULES.build(name, **({} if name == "median" else {"liars": liars}))
        given = torch.from_numpy(updates)
        change = rule.change(list(range(n)), weights, given, 0.1)
        np.testing.assert_allclose(change.numpy(), by_hand(name, updates, weights, liars), rtol=2e-5, atol=2e-6)
        assert np.array_equal(given.numpy(), updates)
        assert rule.change([], [], given[:0], 0.1) is None


def test_one_and_two_clients_are_enough():
    for name in ("median", "trimmed-mean", "krum", "multikrum", "closest"):
        for count in (1, 2):
            change = SERVER_RULES.build(name).change(list(range(count)), [0.5] * count, torch.ones(count, 3), 0.1)
            assert change.tolist() == pytest.approx([0.5 * count] * 3)


def test_closest_is_exact_and_in_its_units():
    """Each pair once, against enumeration; its certificate holds for the distances as they are."""
    rng = np.random.default_rng(0)
    for _ in range(30):
        n = int(rng.integers(2, 10))
        m = int(rng.integers(1, n + 1))
        far = squared_distances(torch.from_numpy(rng.normal(size=(n, 4))))
        best = min(sum(far[i, j] for i, j in itertools.combinations(s, 2)) for s in itertools.combinations(range(n), m))
        solution = solve(closest(far, m), certificate=True)
        assert solution.status == "optimal"
        assert solution.objective == pytest.approx(best, rel=1e-12)
        assert solution.bound <= best * (1 + 1e-12)
    with pytest.raises(InvalidProblem, match="non-negative"):
        closest(-np.ones((3, 3)) + np.eye(3), 2)


def test_sparse_liars_change_their_largest_coordinates():
    corrupt = CORRUPTIONS.build("sparse", 10, 0, clients=[3], part=0.2, scale=4.0)
    update = torch.tensor([1.0, -5.0, 2.0, 3.0, 0.5, 0.1, 0.2, 0.3, 0.4, 4.0])
    assert corrupt(3, update, 0).tolist() == pytest.approx([1, 20, 2, 3, 0.5, 0.1, 0.2, 0.3, 0.4, -16])
    assert corrupt(2, update, 0) is update
    assert update[1] == -5.0


def test_a_share_of_half_or_more_is_a_sentence():
    for name in ("trimmed-mean", "krum", "multikrum", "closest"):
        with pytest.raises(ConfigError, match="liars"):
            TrainingSettings(server_rule=name, server_rule_options={"liars": 0.5})


def test_the_share_counts_among_those_that_return_rounded_down():
    updates = torch.ones(8, 3)
    updates[:2] = 1000
    few, enough = (
        SERVER_RULES.build("trimmed-mean", liars=liars).change(list(range(8)), [0.125] * 8, updates, 0.1)
        for liars in (0.2, 0.25)
    )
    assert float(few.min()) > 100
    assert float(enough.max()) == 1
