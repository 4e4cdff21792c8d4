"""Selector ``fedgs``: graph-based sampling (Wang et al., AAAI 2023)."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedselect.errors import ConfigError, DataError
from fedselect.rounds.protocol import Outcome, RoundContext, RoundFeedback, Selection
from fedselect.rounds.scenario import Scenario
from fedselect.selectors.registry import SELECTORS, check_size, data_weights
from fedselect.selectors.solving import solved
from graphs import dependency_graph, distances, similarity
from solvers import InvalidProblem
from solvers.dispersion import DispersionProblem, Memory
from solvers.registry import find
from solvers.solving import check_certifier

__all__ = ["FedGS"]


class FedGS:
    r"""Select clients far apart on the 3DG while balancing how often each was selected (Eqs. 14-18).

    Each round solves a `solvers.dispersion.DispersionProblem` over the available clients; the updates are weighted
    by data size, :math:`n_k / \sum_{i \in S} n_i` (Eq. 18). The counts v advance for every selected client, returned
    or not, as in Algorithm 1. The authors' code runs Gurobi for 5 s and keeps no bound; here every selection carries
    its `solvers.Solution`.

    Parameters
    ----------
    distances : (N, N) array-like
        Shortest-path distances H of the 3DG, from `graphs.distances`.
    size : int
        Clients to select, M; all of the available if they are fewer.
    alpha : float
        Weight α of the distances against the balance of the counts.
    scale : {"pairs", "paper"}
        Scale of the distances; see `DispersionProblem.fedgs`.
    method : str
        Any method registered for the dispersion problem.
    certify : str, optional
        A second method, whose bound is put beside the decision; see `fedselect.selectors.solving.solved`.
    time_limit : float, optional
        Seconds for each of the two; the context's limit by default.

    Raises
    ------
    ConfigError, DataError
        When an option is out of range or the distances are not a distance matrix.
    """

    def __init__(
        self,
        distances: ArrayLike,
        size: int,
        *,
        alpha: float = 1.0,
        scale: Literal["pairs", "paper"] = "pairs",
        method: str = "auto",
        certify: str | None = None,
        time_limit: float | None = None,
    ) -> None:
        self.size = check_size(size)
        self.alpha, self.scale = alpha, scale
        self.method, self.certify, self.time_limit = method, certify, time_limit
        find(DispersionProblem, method)  # raises a sentence now rather than in the first round
        if certify is not None:
            check_certifier(DispersionProblem, certify)
        if time_limit is not None and not time_limit > 0:
            raise ConfigError(f"time_limit must be a positive number of seconds; got {time_limit}")
        h = np.asarray(distances, dtype=np.float64)
        n = h.shape[0] if h.ndim else 0
        try:
            # Stating the first round's problem with everyone available checks the distances, alpha and scale.
            problem = DispersionProblem.fedgs(h, np.zeros(n), np.ones(n, dtype=bool), min(self.size, n), alpha, scale)
        except InvalidProblem as error:
            raise DataError(f"FedGS cannot select with these distances or options: {error}") from error
        self.distances = problem.distances
        self.counts = np.zeros(n, dtype=np.int64)
        #: What a method that can use it carries from round to round: every round is stated on the same distances.
        self.memory = Memory()
        self._options: dict[str, Any] = (
            {"memory": self.memory} if "memory" in find(DispersionProblem, method).options else {}
        )

    def select(self, round: RoundContext) -> Selection:
        """Solve this round's dispersion problem."""
        if not round.available.any():
            return Selection(np.empty(0, dtype=np.int64), np.empty(0))
        problem = DispersionProblem.fedgs(
            self.distances, self.counts, round.available, self.size, self.alpha, self.scale
        )
        _, solution = solved(problem, self.method, round, self.time_limit, certify=self.certify, **self._options)
        clients = solution.selected
        return Selection(clients, data_weights(round.sizes, clients), on_failure="renormalise", solution=solution)

    def update(self, feedback: RoundFeedback) -> None:
        """Count who was selected."""
        self.counts += feedback.outcomes >= Outcome.RETURNED

    def state_dict(self) -> dict[str, Any]:
        """Return the selection counts and the memory; the graph is rebuilt from the federation."""
        return {"counts": self.counts.copy(), "memory": self.memory.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the selection counts, and the memory where there is one."""
        self.counts = np.asarray(state["counts"], dtype=np.int64).copy()
        if "memory" in state:
            self.memory.load_state_dict(state["memory"])


@SELECTORS.register("fedgs")
def fedgs(
    scenario: Scenario,
    *,
    alpha: float = 1.0,
    scale: str = "pairs",
    method: str = "auto",
    certify: str | None = None,
    time_limit: float | None = None,
    graph: str = "reference",
    features: str = "labels",
    distances_file: str | None = None,
) -> FedGS:
    """Select clients far apart on the 3DG while balancing how often each was selected.

    The 3DG is the oracle one under the ``graph`` preset of `graphs.dependency_graph` ("reference" or "paper"), from
    the clients' label distributions or, as in the authors' runs on Synthetic(α, β), from the ``"parameters"`` that
    generated their data; unless ``distances_file`` names an N x N matrix to use instead (``.npy``, or text that
    `numpy.loadtxt` reads with commas).
    """
    if graph not in ("reference", "paper"):
        raise ConfigError(f"selector 'fedgs': graph must be 'reference' or 'paper'; got {graph!r}")
    if features not in ("labels", "parameters"):
        raise ConfigError(f"selector 'fedgs': features must be 'labels' or 'parameters'; got {features!r}")
    if distances_file is not None:
        h = _read_distances(distances_file)
        if h.shape != (scenario.clients,) * 2:
            raise DataError(f"{distances_file} holds shape {h.shape}; {scenario.clients} clients need a square matrix")
    else:
        known = scenario.federation.label_distributions
        if features == "parameters":
            if scenario.federation.parameters is None:
                raise ConfigError(
                    f"selector 'fedgs': {scenario.federation.name} has no generating parameters; use labels"
                )
            known = scenario.federation.parameters
        h = distances(dependency_graph(similarity(known), preset=graph))  # type: ignore[arg-type]  # checked above
    return FedGS(h, scenario.size, alpha=alpha, scale=scale, method=method, certify=certify, time_limit=time_limit)  # type: ignore[arg-type]


def _read_distances(path: str) -> NDArray[np.float64]:
    try:
        matrix = np.load(path, allow_pickle=False) if path.endswith(".npy") else np.loadtxt(path, delimiter=",")
    except (OSError, ValueError) as error:
        raise DataError(f"cannot read distances from {path}: {error}") from error
    return np.asarray(matrix, dtype=np.float64)
