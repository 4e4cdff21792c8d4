"""Group clients by their label distributions: a Gaussian mixture, the number of groups by silhouette (FedSS, §V-A)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from solvers.checks import frozen_array, integer, number, one_of
from solvers.errors import InvalidProblem
from solvers.options import AtLeast, AtMost


@dataclass(frozen=True, eq=False)
class Grouping:
    """Groups of clients.

    Attributes
    ----------
    labels : (N,) ndarray of int
        Group of each client, 0 … K − 1 in order of first appearance.
    scores : dict of int to float
        Best silhouette found for each number of (non-empty) groups, 1 included at 0.
    """

    labels: NDArray[np.int64]
    scores: dict[int, float]

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Number of clients in each group, N_k."""
        return np.bincount(self.labels)

    @property
    def score(self) -> float:
        """Silhouette of this grouping (Eq. 23), or of the sample that it was made from."""
        return self.scores[int(self.labels.max()) + 1]


def group_clients(
    distributions: ArrayLike,
    largest: int,
    *,
    covariance: Literal["diag", "spherical", "tied", "full"] = "diag",
    regularisation: float = 1e-6,
    restarts: int = 10,
    sample: int = 1000,
    seed: int = 0,
) -> Grouping:
    """Group clients by label distribution, with the number of groups of the best silhouette.

    With at most ``sample`` clients every number of mixture components from 2 to ``largest`` is tried that is below
    that of clients and not above that of different distributions; clients go to their likeliest component. Empty
    components are dropped, and of equal scores (to 1e-9) the fewest groups win. One group scores 0 by convention, so
    it is chosen when no split scores better.

    The paper leaves range, covariance and start open. A full covariance of points on a simplex is singular, hence
    diagonal ones by default, with k-means starts, which find identical label groups where random ones merge them.

    Parameters
    ----------
    distributions : (N, L) array-like
        Label counts or shares of each client; rows are divided by their sums.
    largest : int
        Most groups: at most the number S of clients to sample, or not every group can have one.
    covariance : {"diag", "spherical", "tied", "full"}
        Shape of the mixture's covariances.
    regularisation : float
        Added to the variances; identical clients have none.
    restarts : int
        k-means starts for each number of components.
    sample : int
        Of more clients than this, mixtures and scores are those of so many, drawn at random, and numbers of components
        from twenty on go up by a tenth each; then every client goes to its likeliest component.
    seed : int
        Makes it repeatable; below 2³².

    Returns
    -------
    Grouping
        Labels and scores.

    Raises
    ------
    InvalidProblem
        When an argument is not as described, or no mixture can be fitted, as with a regularisation of 0.
    """
    counts = frozen_array(distributions, "distributions", ndim=2)
    if counts.size == 0 or counts.min() < 0 or (counts.sum(axis=1) == 0).any():
        raise InvalidProblem("distributions must hold non-negative rows with a positive sum, one for each client")
    integer(largest, "largest", AtLeast(1))
    integer(restarts, "restarts", AtLeast(1))
    integer(sample, "sample", AtLeast(2))
    one_of(covariance, "covariance", ("diag", "spherical", "tied", "full"))
    number(regularisation, "regularisation", AtLeast(0))
    integer(seed, "seed", AtLeast(0), AtMost(2**32 - 1))
    points = everyone = counts / counts.sum(axis=1, keepdims=True)
    if len(everyone) > sample:
        points = everyone[np.sort(np.random.default_rng(seed).choice(len(everyone), sample, replace=False))]
    apart = _distances(points)
    labels, scores = np.zeros(len(points), dtype=np.int64), {1: 0.0}
    best, chosen = 0.0, None
    # More groups than distinct clients would split identical ones, which only lowers the score.
    most = min(largest, len(points) - 1, len(np.unique(points, axis=0)))
    if most >= 2:
        from sklearn.mixture import GaussianMixture
    components = 2
    while components <= most:
        mixture = GaussianMixture(
            components,
            covariance_type=covariance,
            reg_covar=regularisation,
            n_init=restarts,
            init_params="kmeans",
            random_state=seed,
        )
        try:
            found = _in_order(mixture.fit_predict(points))
        except ValueError as error:  # variances of 0, where nothing is added to them
            sentence = f"no mixture of {components} can be fitted with regularisation {regularisation:g}: {error}"
            raise InvalidProblem(sentence) from error
        groups, score = int(found.max()) + 1, _score(apart, found)
        scores[groups] = max(score, scores.get(groups, -1.0))
        fewer = groups < labels.max() + 1 and score >= best - 1e-9
        if score > best + 1e-9 or fewer:
            labels, best, chosen = found, score, mixture
        components += 1 if len(everyone) <= sample else max(1, components // 10)
    if len(everyone) > sample:
        labels = np.zeros(len(everyone), dtype=np.int64) if chosen is None else _in_order(chosen.predict(everyone))
        scores[int(labels.max()) + 1] = best  # that of the sample, where a component without any of it has others
    return Grouping(labels, scores)


def silhouette(points: ArrayLike, labels: ArrayLike) -> float:
    """Return Eq. 23: mean of (out − in) / max(in, out), where a lone client counts 0, and so does 0/0.

    scikit-learn's ``silhouette_score`` wherever that is defined; this is 0 for a single group or all alone.

    Parameters
    ----------
    points : (N, L) array-like
        One row for each client.
    labels : (N,) array-like of int
        Group of each client.

    Returns
    -------
    float
        Score in [−1, 1].

    Raises
    ------
    InvalidProblem
        When points or labels are no finite numbers, or their lengths disagree.
    """
    rows, groups = frozen_array(points, "points", ndim=2), frozen_array(labels, "labels", dtype=np.int64)
    if groups.shape[0] != rows.shape[0] or groups.size == 0:
        raise InvalidProblem(f"labels must have one entry per point, {rows.shape[0]}; got {groups.shape[0]}")
    return _score(_distances(rows), _in_order(groups))


def _distances(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Euclidean distances, exactly 0 between equal points."""
    from scipy.spatial.distance import cdist

    return cdist(points, points)


def _in_order(labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Number the groups by first appearance, without gaps."""
    _, where, inverse = np.unique(labels, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(where))[inverse]


def _score(apart: NDArray[np.float64], labels: NDArray[np.int64]) -> float:
    n, groups = labels.size, int(labels.max()) + 1
    if groups == 1:
        return 0.0
    member = np.eye(groups)[labels]
    sizes = member.sum(axis=0)
    sums = apart @ member
    own = sums[np.arange(n), labels]
    alone = sizes[labels] == 1
    inside = own / np.maximum(sizes[labels] - 1.0, 1.0)
    means = sums / sizes
    means[np.arange(n), labels] = np.inf
    outside = means.min(axis=1)
    larger = np.maximum(inside, outside)
    terms = np.divide(outside - inside, larger, out=np.zeros(n), where=(larger > 0) & ~alone)
    return float(terms.mean())
