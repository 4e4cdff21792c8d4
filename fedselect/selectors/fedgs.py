"""Selector ``fedgs``: graph-based sampling (Wang et al., AAAI 2023)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Literal, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedselect.data import Federation
from fedselect.errors import ConfigError, DataError
from fedselect.options import check_choice, check_count, check_number
from fedselect.randomness import generator
from fedselect.rounds.protocol import Outcome, RoundContext, RoundFeedback, Selection
from fedselect.rounds.scenario import Scenario
from fedselect.selectors.base import (
    SELECTORS,
    SelectorBase,
    check_federation,
    check_size,
    check_solving,
    data_weights,
    no_clients,
    solved,
    uninterrupted,
)
from fedselect.selectors.constraints import RoundConstraints, constraints_of, describe
from fedselect.selectors.geometry import (
    ClientDistances,
    Kinds,
    LearnedGraph,
    Matrix,
    Points,
    Scale,
    adjacency,
    check_geometry,
    check_unused,
    described,
    oracle_features,
    without_matrix,
)
from fedselect.selectors.proof_budget import ProofBudget
from graphs import (
    ProtocolError,
    SecureSimilarity,
    dependency_graph,
    distances,
    edge_scores,
    secure_similarity,
    similarity,
)
from solvers import InvalidProblem, Solution, solve
from solvers.dispersion import Memory
from solvers.reading import Unreadable, read_matrix
from solvers.registry import find
from solvers.solution import proves

#: Selections among which one is drawn, at most, and clients up to which they are looked for.
_DRAWN, _MOST_DRAWN = 200, 300

#: Entries of the matrix that are read to find them, at most, so that a run does not depend on the clock: some .3 s. Not
#: swept.
_DRAWING = 50_000_000

#: Masks to both parties, a masked vector each way, a blinded number, a share from each; see `graphs.secure_product`.
MESSAGES_A_PAIR = 7

_log = logging.getLogger(__name__)

#: Warnings that this process has logged: a comparison builds the same selector for every seed.
_said: set[str] = set()


class FedGS(SelectorBase):
    r"""Select clients far apart on the 3DG while balancing how often each was selected (Eqs. 14-18).

    Each round solves a `solvers.dispersion.DispersionProblem` over the available clients; the updates are weighted
    by data size, :math:`n_k / \sum_{i \in S} n_i` (Eq. 18). The counts v advance for every selected client, returned
    or not, as in Algorithm 1. The authors' code runs Gurobi for 5 s and keeps no bound; here a selection carries its
    `solvers.Solution`. By default a round is proved where that is cheap in proportion to the run, and decided
    heuristically elsewhere (`fedselect.selectors.proof_budget.ProofBudget`), which counts work and not time:
    decisions are a function of the seed, but where the round's own time limit ends a proof.

    The 3DG is given, or learned (``learned``): in the first ``warmup`` rounds every available client that has not been
    heard trains, the updates are compared and discarded, and no turn is counted, as in the authors' code, which does
    so in round 0. A client that is heard later joins the graph then.

    Parameters
    ----------
    size : int
        Clients to select, M; all of the available if they are fewer.
    distances : (N, N) array-like, or Points, or Kinds
        Shortest-path distances H of the 3DG, from `graphs.distances`; or, for more clients than a matrix has room for,
        one of the geometries of `fedselect.selectors.geometry`.
    alpha : float
        Weight α of the distances against the balance of the counts.
    scale : {"turns", "pairs", "paper"}
        Unit of α, for distances up to 1; see `DispersionProblem.fedgs`. Under ``"turns"`` it is a turn: with α = 1 no
        distance outweighs one selection more, whatever the number of clients and the size. Under ``"pairs"``, the
        authors' code's, α = 1 is worth (N - 1) / m turns: about 10 where 10 of 100 are selected, 100 where 100 of
        10 000 are. ``"paper"`` is Eq. 14 as printed, where α = 1 only breaks ties.
    method : str
        Any method registered for the dispersion problem.
    bound_by : str, optional
        A second method, whose bound is put beside the decision; see `fedselect.selectors.base.solved`.
    time_limit : float, optional
        Seconds for each of the two, in every round. Left out, ``"auto"`` without ``bound_by`` on a matrix or points
        has the proof budget; all others have the context's limit.
    ties : {"id", "random"}
        Which of several selections of the same value is taken. ``"id"``: the one that the method returns.
        ``"random"``: one of all optima, each with the same probability, by the run's seed;
        `Selection.inclusion` has every client's probability, ``notes["draw"]`` among how many the draw was and whether
        these are proved to be all of them (the best 200 are looked for). Where the method keeps no pool, the round is
        not proved, or more than 300 clients are available, costs rise by less than a millionth of a turn, at random in
        each round, so that one selection of that value is best; no probabilities are known then.
    within : float
        Under ``"random"``, share of the optimum that a drawn selection's value may be worse by: 0 for optima alone.
    learned : LearnedGraph, optional
        Where the distances come from as clients are heard; ``distances`` are then those of before.
    warmup : int
        First rounds, in which clients train for the graph alone.
    truth : (N, N) array-like of bool, optional
        The oracle's edges, to score the learned ones by in a run's record; no decision sees them.
    edges : (N, N) array-like of bool, optional
        The graph's edges, where it is not learned; those of ``truth`` if left out. The record says how many are right.
    cost : mapping of str to int, optional
        ``messages`` sent for the graph before the first round, and ``numbers`` in them; the notes of the selections
        start from there.
    constraints : RoundConstraints, optional
        Side constraints of every round, for a method that keeps them; in the warm-up, budgets over the run alone.

    Raises
    ------
    ConfigError, DataError
        When an option is out of range or the distances are not a distance matrix.
    UnknownMethod, InvalidOption
        For ``method`` and ``bound_by``, as `fedselect.selectors.base.check_solving` has it.
    """

    def __init__(
        self,
        size: int,
        *,
        distances: ArrayLike | Points | Kinds,
        alpha: float = 1.0,
        scale: Scale = "turns",
        method: str = "auto",
        bound_by: str | None = None,
        time_limit: float | None = None,
        ties: Literal["id", "random"] = "id",
        within: float = 0.0,
        learned: LearnedGraph | None = None,
        warmup: int = 0,
        truth: ArrayLike | None = None,
        edges: ArrayLike | None = None,
        cost: Mapping[str, int] | None = None,
        constraints: RoundConstraints | None = None,
    ) -> None:
        self.size = check_size(size)
        self.learned, self.warmup = learned, check_count("warmup", warmup, least=0)
        self.alpha, self.scale = alpha, scale
        self.ties = check_choice("ties", ties, "id", "random")
        self.within = check_number("within", within)
        if within and ties != "random":
            raise ConfigError('within says among which selections ties="random" draws; give both')
        self.method, self.bound_by, self.time_limit = method, bound_by, time_limit
        self.geometry: ClientDistances = distances if isinstance(distances, ClientDistances) else _matrix(distances)
        check_solving(self.geometry.problem, method, bound_by, time_limit)
        n = self.n_clients = self.geometry.n_clients
        self.constraints = constraints
        if constraints is not None and constraints.n_clients != n:
            raise ConfigError(f"constraints are stated over {constraints.n_clients} clients, the distances over {n}")
        try:
            # Stating the first round's problem with all clients available checks the distances, alpha and scale.
            every = np.ones(n, dtype=np.bool_)
            problem = self.geometry.state(np.zeros(n, dtype=np.int64), every, min(self.size, n), alpha, scale)
        except InvalidProblem as error:
            raise DataError(f"FedGS cannot select with these distances or options: {error}") from error
        if isinstance(self.geometry, Matrix):
            self.geometry = Matrix(cast("Any", problem).distances)  # checked, read-only
        self.counts = np.zeros(n, dtype=np.int64)
        self.heard = np.zeros(n, dtype=np.bool_)  #: clients whose update has come in the warm-up
        self.truth = None if truth is None else np.asarray(truth, dtype=np.bool_)
        self.edges = self.truth if edges is None else np.asarray(edges, dtype=np.bool_)
        self.cost = {"messages": 0, "numbers": 0} | dict(cost or {})
        self._noted = learned is None and cost is None and not warmup  # whether the record has the present graph
        #: Carried from round to round by a method that can use it, as long as rounds are stated on the same distances.
        self.memory = Memory()
        entry = find(self.geometry.problem, method)
        self._remembers, self._keeps_pool = "memory" in entry.options, entry.pool and entry.work
        is_budgeted = (
            method == "auto" and bound_by is None and time_limit is None and not isinstance(self.geometry, Kinds)
        )
        self.proofs = ProofBudget(n) if is_budgeted else None

    @classmethod
    def of(
        cls,
        federation: Federation,
        size: int,
        *,
        graph: Literal["reference", "paper"] = "reference",
        epsilon: float | None = None,
        **options: Any,
    ) -> Self:
        """Build the selector on the 3DG of a federation's label distributions, which the server does not know.

        Parameters
        ----------
        federation : Federation
            The clients.
        size : int
            Clients to select, M.
        graph : {"reference", "paper"}
            Preset of `graphs.dependency_graph`.
        epsilon : float, optional
            Least similarity of an edge; the preset's by default.
        **options
            Further arguments of the constructor.
        """
        check_federation(cls, federation)
        of_labels = similarity(federation.label_distributions)
        h = distances(dependency_graph(of_labels, preset=graph, epsilon=epsilon))
        return cls(size, distances=h, **options)

    @property
    def alpha_in_turns(self) -> float:
        """Turns that α is worth: what a swap of two clients can gain at most by distances up to 1."""
        return turns_of(self.alpha, self.scale, self.geometry.n_clients, self.size)

    @property
    def distances(self) -> NDArray[np.float64]:
        """The matrix that rounds are stated on: between clients or, of `Kinds`, between these; `Points` have none."""
        if isinstance(self.geometry, Points):
            raise AttributeError("distances between points are never all there; geometry.points has the points")
        return self.geometry.distances  # type: ignore[attr-defined]  # a Matrix or Kinds

    def _select(self, round: RoundContext) -> Selection:
        """Solve this round's dispersion problem; in the warm-up, select the clients that have not been heard."""
        round = self.within_budgets(round)
        if round.round < self.warmup:
            clients = np.flatnonzero(round.available & ~self.heard)
            return Selection(clients, np.zeros(clients.size), notes=self._notes())
        if not round.available.any():
            return replace(no_clients(), notes=self._notes())
        size = self.size
        stated: dict[str, Any] = {}
        gave_way: dict[str, Any] = {}
        if self.constraints is not None:
            size, stated, gave_way = self.constraints.of_round(round, self.size)
        solution, clients, inclusion, drawn = self._decided(round, size, stated)
        notes = self._notes() | drawn
        weights = data_weights(round.sizes, clients)
        if self.constraints is not None and solution.x is not None:
            prices = getattr(solution, "prices", None)
            notes["constraints"] = describe(solution.problem.constraints, solution.x, stated, gave_way, prices)  # type: ignore[attr-defined]
        return Selection(clients, weights, inclusion, "renormalise", solution=solution, notes=notes)

    def _decided(
        self, round: RoundContext, size: int, stated: dict[str, Any]
    ) -> tuple[Solution, NDArray[np.int64], NDArray[np.float64] | None, dict[str, Any]]:
        """Decide a round: its solution, the ids of the selected, probabilities where it is a draw, and notes of that.

        ``stated`` are its side constraints over all N clients.
        """
        problem = self.geometry.state(self.counts, round.available, size, self.alpha, self.scale, **stated)
        draws = self.ties == "random" and self._keeps_pool and problem.n <= _MOST_DRAWN
        if self.ties == "random" and not draws:
            problem = self._perturbed(problem, round)
        options: dict[str, Any] = {"memory": self.memory} if self._remembers else {}

        def decide(problem: Any) -> Solution:
            if self.proofs is not None:
                return self.proofs.solve(problem, round, **options)
            return solved(problem, self.method, round, self.time_limit, bound_by=self.bound_by, **options)[1]

        solution, inclusion, notes = decide(problem), None, {}
        if draws and solution.status == "optimal":
            solution, inclusion, notes["draw"] = self._drawn(solution, round)
        elif draws:
            solution = decide(self._perturbed(problem, round))
        return solution, solution.selected, inclusion, notes

    def _perturbed(self, problem: Any, round: RoundContext) -> Any:
        """Return the problem with costs that rise at random by so little that values keep their order.

        A turn is worth 2 / (N - 1); a selection's costs rise by less than a millionth of that.
        """
        least = 2e-6 / max(1, self.counts.size - 1) / min(self.size, problem.n)
        return replace(problem, costs=problem.costs + least * round.rng.random(problem.n))

    def _drawn(self, solution: Solution, round: RoundContext) -> tuple[Solution, NDArray[np.float64], dict[str, Any]]:
        """Draw one of the selections within the tolerance; return it, each client's probability, and the note."""
        pool = uninterrupted(
            solve(
                solution.problem, self.method, seed=solution.seed, start=solution.x, pool=_DRAWN, within=self.within,
                work_limit=_DRAWING // solution.problem.n,
            )
        )  # fmt: skip
        taken = pool.pool[int(round.rng.integers(len(pool.pool)))]
        inclusion = np.zeros(self.counts.size)
        for each in pool.pool:
            inclusion[each.selected] += 1.0
        x = np.isin(solution.problem.clients, taken.selected).astype(np.int64)  # type: ignore[attr-defined]
        bound = solution.bound if pool.bound is None else pool.bound
        status: Literal["optimal", "feasible"] = (
            "optimal" if proves(solution.problem, taken.objective, bound) else "feasible"
        )
        drawn = replace(solution, x=x, objective=taken.objective, status=status)
        is_all = pool.pool_complete and not pool.details["pool"]["tied"]
        note = {"among": len(pool.pool), "within": self.within, "is_all": is_all}
        return drawn, inclusion / len(pool.pool), note

    def update(self, feedback: RoundFeedback) -> None:
        """Count the selected clients, or note those heard; learn the graph from what they sent."""
        selected = feedback.outcomes >= Outcome.RETURNED
        back = np.flatnonzero(feedback.outcomes == Outcome.RETURNED)
        if feedback.round < self.warmup:
            self.heard[back] = True
            if self.constraints is not None:
                self.constraints.spend(feedback)
            messages = int(selected.sum()) + back.size
            sizes = [feedback.updates[client].size for client in back[:1].tolist() if client in feedback.updates]
            self.cost["messages"] += messages
            self.cost["numbers"] += sum(sizes) * messages
        else:
            self.counts += selected
            if self.constraints is not None:
                self.constraints.update(feedback)
        if self.learned is not None:
            self._learn(self.learned, back.tolist(), feedback)

    def state_dict(self) -> dict[str, Any]:
        """Return counts and all else that the rounds so far have left; a given graph is not part of it."""
        state: dict[str, Any] = {"counts": self.counts.copy(), "memory": self.memory.state_dict()}
        if self.proofs is not None:
            state["proofs"] = self.proofs.state_dict()
        if self.learned is not None:
            state["learned"] = self.learned.state_dict()
        if self.constraints is not None:
            state |= self.constraints.state_dict()
        return state | {"heard": self.heard.copy(), "cost": dict(self.cost), "noted": self._noted}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the selection counts, and the rest where there is any."""
        self.counts = np.asarray(state["counts"], dtype=np.int64).copy()
        if "memory" in state:
            self.memory.load_state_dict(state["memory"])
        if self.proofs is not None and "proofs" in state:
            self.proofs.load_state_dict(state["proofs"])
        if "heard" in state:
            self.heard = np.array(state["heard"], dtype=np.bool_)
            self.cost, self._noted = {key: int(count) for key, count in state["cost"].items()}, bool(state["noted"])
        if self.constraints is not None:
            self.constraints.load_state_dict(state)
        if self.learned is not None:
            self.learned.load_state_dict(state["learned"])
            self.geometry = Matrix(self.learned.distances)

    def _learn(self, learned: LearnedGraph, clients: list[int], feedback: RoundFeedback) -> None:
        """Take in what the clients sent, and state later rounds on the graph that this makes."""
        clients = [client for client in clients if learned.wants(client)]
        features = feedback.embeddings if learned.kind == "functional" else feedback.updates
        missing = [client for client in clients if client not in features]
        if missing:
            raise ConfigError(
                f"selector 'fedgs' compares clients by {learned.kind} features, and the engine has none of client "
                f"{missing[0]}: a simulation without training has no updates, and embeddings need the model and "
                "held-out samples (validation_fraction) at the server"
            )
        if learned.observe({client: features[client] for client in clients}):
            self.geometry, self._noted = Matrix(learned.distances), False
            self.memory = Memory()

    def _notes(self) -> dict[str, Any]:
        """Return the graph's cost so far and, once after each change, its edges and how many of them are right."""
        if self.learned is None and self._noted and not any(self.cost.values()):
            return {}
        note: dict[str, Any] = dict(self.cost)
        if self.learned is not None:
            note["known"] = int(self.learned.known.sum())
        edges = self.edges if self.learned is None else self.learned.edges
        if not self._noted and edges is not None:
            note |= described(edges, self.truth)
        self._noted = True
        return {"graph": note}


def _matrix(distances: ArrayLike) -> Matrix:
    """Return a matrix of numbers; raise `DataError` for what is none."""
    try:
        found = np.asarray(distances, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"FedGS cannot select with these distances: {error}") from None
    if found.ndim != 2:
        raise DataError(f"FedGS cannot select with these distances: they must be a matrix; got shape {found.shape}")
    return Matrix(found)


def turns_of(alpha: float, scale: Scale, n_clients: int, size: int) -> float:
    """Return the turns that α is worth under a scale: what a swap gains by distances up to 1 over what a turn costs."""
    m = min(size, n_clients)
    if m == 1:
        return 0.0
    return alpha * {"turns": 1.0, "pairs": (n_clients - 1) / m, "paper": (m - 1) / n_clients}[scale]


def outweighed(alpha: float, scale: Scale, n_clients: int, size: int, rounds: int) -> str | None:
    """Say in a sentence that distances outweigh counts: α is worth more turns than a client has in the run.

    None where they do not, and where α is worth a turn or less.
    """
    worth, turns = turns_of(alpha, scale, n_clients, size), rounds * min(size, n_clients) / n_clients
    if worth <= max(1.0, turns):
        return None
    mended = "a smaller alpha keeps" if scale == "turns" else "scale = 'turns' with alpha = 1 keeps"
    return (
        f"FedGS: alpha = {alpha:g} in scale {scale!r} is worth up to {worth:.3g} turns, and a client has "
        f"{turns:.3g} in {rounds} rounds, so that distances outweigh the balance of the counts; {mended} counts even"
    )


@SELECTORS.register("fedgs")
def fedgs(
    scenario: Scenario,
    *,
    alpha: float = 1.0,
    scale: Scale = "turns",
    method: str = "auto",
    bound_by: str | None = None,
    time_limit: float | None = None,
    ties: Literal["id", "random"] = "id",
    within: float = 0.0,
    graph: Literal["reference", "paper"] = "reference",
    epsilon: float | None = None,
    features: Literal["labels", "parameters", "secure", "functional", "update"] = "labels",
    noise: float = 0.0,
    fraction_bits: int | None = None,
    warmup: int | None = None,
    distances_file: str | None = None,
    geometry: Literal["graph", "points", "kinds"] = "graph",
    metric: Literal["hellinger", "euclidean"] | None = None,
    points_file: str | None = None,
    constraints: dict[str, Any] | None = None,
    clients_file: str | None = None,
) -> FedGS:
    """Select clients far apart on the 3DG while balancing how often each was selected.

    The 3DG is made under the ``graph`` preset of `graphs.dependency_graph`, with its ``epsilon``, of what ``features``
    says:

    ``"labels"``, ``"parameters"``: the oracle's, from the clients' label distributions or, as in the authors' runs on
    Synthetic(α, β), from what generated their data. ``"secure"``: the label distributions again, masked: every pair of
    clients runs the scalar-product protocol of `graphs.secure_similarity` before the first round, with its ``noise``
    and ``fraction_bits``, which make what a similarity reveals less exact. ``"functional"``, ``"update"``: learned in
    training, from averaged embeddings of noise (Eq. 12; the data set needs a validation_fraction) or from model updates
    (Eq. 11), in ``warmup`` rounds (1; 0 for the others) and from each client that is first heard later.

    ``distances_file`` names an N x N matrix to use instead (``.npy``, or text that `numpy.loadtxt` reads with commas).
    ``features``, ``graph`` and ``epsilon`` other than the defaults are refused beside it.

    Beyond some ten thousand clients there is no room for a graph. ``geometry="points"`` takes labels or parameters, or
    the rows of a ``points_file``, as points, at the ``metric``'s distances (by default Hellinger's for labels,
    Euclidean ones for others). ``"kinds"`` finds the clients whose rows are equal, at most 5 000 kinds of them, and
    makes the 3DG over their kinds, or takes the ``metric`` between them. Options that a geometry has no use for are
    refused, and ``features`` other than the default beside a ``points_file``.

    ``constraints`` is a table of side constraints (`fedselect.selectors.constraints.constraints_of`), which may speak
    of the columns of a ``clients_file``.
    """
    given = {"metric": metric, "points_file": points_file, "noise": noise or None, "fraction_bits": fraction_bits}
    given |= {"warmup": warmup, "distances_file": distances_file, "epsilon": epsilon}
    given |= {"graph": None if graph == "reference" else graph}
    check_geometry(geometry, {name: value for name, value in given.items() if value is not None})
    said = outweighed(alpha, scale, scenario.n_clients, scenario.size, scenario.rounds)
    if said is not None and said not in _said:
        _said.add(said)
        _log.warning(said)
    build = partial(
        FedGS,
        scenario.size,
        alpha=alpha,
        scale=scale,
        method=method,
        bound_by=bound_by,
        time_limit=time_limit,
        constraints=constraints_of(scenario, constraints, clients_file),
        ties=ties,
        within=within,
    )
    if geometry != "graph":
        clients = without_matrix(scenario, geometry, metric, features, points_file, graph, epsilon)
        return build(distances=clients)
    return build(**graph_of(scenario, "fedgs", features, graph, epsilon, warmup, distances_file, noise, fraction_bits))


def graph_of(
    scenario: Scenario,
    name: str,
    features: str,
    graph: Literal["reference", "paper"],
    epsilon: float | None,
    warmup: int | None,
    distances_file: str | None,
    noise: float = 0.0,
    fraction_bits: int | None = None,
) -> dict[str, Any]:
    """Build the 3DG of a scenario, given or learned: arguments of `FedGS`, by the options of selector ``fedgs``.

    ``name`` is the selector's, for its messages.
    """
    learned, cost, edges, truth = None, None, None, None
    if distances_file is not None:
        stated = {"features": features != "labels", "graph": graph != "reference", "epsilon": epsilon is not None}
        check_unused(name, "distances_file", [option for option, is_stated in stated.items() if is_stated])
    if (noise or fraction_bits is not None) and (features != "secure" or distances_file is not None):
        option = "noise" if noise else "fraction_bits"
        raise ConfigError(
            f"selector {name!r}: {option} is of the masked similarities; give features = 'secure' and no distances_file"
        )
    if features in ("functional", "update"):
        if features == "functional" and not scenario.federation.validation:
            raise ConfigError(
                f"selector {name!r}: functional features need held-out samples, and {scenario.federation.name} has "
                "none; give the data set a validation_fraction, or use update features"
            )
        learned = LearnedGraph(scenario.n_clients, features, preset=graph, epsilon=epsilon)  # type: ignore[arg-type]
        truth = adjacency(_oracle(scenario, "labels"), graph)
        h = learned.distances
    elif distances_file is not None:
        h = _read_distances(distances_file)
        if h.shape != (scenario.n_clients,) * 2:
            raise DataError(f"{distances_file} has shape {h.shape}; {scenario.n_clients} clients need a square matrix")
    elif features == "secure":
        found = _masked(scenario, name, noise, fraction_bits)
        edges = adjacency(found.matrix, graph, epsilon)
        pairs = scenario.n_clients * (scenario.n_clients - 1) // 2
        cost = {"messages": MESSAGES_A_PAIR * pairs, "numbers": sum(found.transcript.sent.values())}
        h = distances(dependency_graph(found.matrix, preset=graph, epsilon=epsilon))
        truth = adjacency(_oracle(scenario, "labels"), graph)
        _warn_of_edges(edges, truth, noise, epsilon)
    else:
        h = distances(dependency_graph(_oracle(scenario, features), preset=graph, epsilon=epsilon))
    return {
        "distances": h,
        "learned": learned,
        "warmup": (1 if learned is not None else 0) if warmup is None else warmup,
        "truth": truth,
        "edges": edges,
        "cost": cost,
    }


def _masked(scenario: Scenario, name: str, noise: float, fraction_bits: int | None) -> SecureSimilarity:
    """Compute the similarities of label distributions under masks; the noise is the same under the same seed."""
    try:
        return secure_similarity(
            scenario.federation.label_distributions,
            fraction_bits=fraction_bits,
            noise=noise,
            keep_transcript=False,
            rng=generator(scenario.seed, "noise", 1) if noise else None,
        )
    except ProtocolError as error:
        raise ConfigError(f"selector {name!r}: {error}") from error


#: A private graph whose edges agree less than this with the exact ones (F1) is said to.
_EDGES_KEPT = 0.9


def _warn_of_edges(edges: NDArray[np.bool_], exact: NDArray[np.bool_], noise: float, epsilon: float | None) -> None:
    """Log a warning where noise or rounding leaves a graph whose F1 is below 0.9."""
    scores = edge_scores(edges, exact)
    if scores.f1 < _EDGES_KEPT:
        mend = f"; epsilon = {4 * noise:g}, four times the noise, removes edges that are noise alone"
        mend = mend if 0 < 4 * noise < 1 and (epsilon or 0.0) < 4 * noise else ""
        said = (
            f"the private graph has {scores.predicted} edges, the exact one {scores.true}, {scores.true_positives} of "
            f"them common (F1 {scores.f1:.2f}){mend}"
        )
        if said not in _said:
            _said.add(said)
            _log.warning(said)


def _oracle(scenario: Scenario, features: str) -> NDArray[np.float64]:
    """Return similarities of features that the server does not know."""
    return similarity(oracle_features(scenario, features))


def _read_distances(path: str) -> NDArray[np.float64]:
    try:
        matrix = read_matrix(path)
    except (OSError, Unreadable) as error:
        raise DataError(f"cannot read distances from {path}: {error}") from error
    return np.asarray(matrix, dtype=np.float64)
