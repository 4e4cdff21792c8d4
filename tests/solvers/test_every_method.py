"""What every registered method promises, whatever it does: a new method is tested by being registered.

Cases and promises are those of `solvers.testing`, which users have, too.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable

import numpy as np
import pytest

from solvers import InvalidAnswer, Method, Problem, SolversError, instances, method, methods, solve
from solvers.allocation import AllocationProblem
from solvers.balance import BalanceProblem
from solvers.capping import CappingProblem
from solvers.coverage import CoverageProblem
from solvers.deadline import DeadlineProblem
from solvers.dispersion import DispersionProblem, KindDispersionProblem, PointDispersionProblem, QuadraticProblem
from solvers.participation import CutoffProblem
from solvers.problem import FAMILIES
from solvers.schedule import DiverseScheduleProblem, ScheduleProblem
from solvers.testing import PROMISES, ContractBroken, check_method
from solvers.testing.cases import CASES, accepted
from solvers.weighting import ExclusionProblem, OptimizationErrorProblem, TotalErrorProblem

for family in FAMILIES:
    importlib.import_module(f"solvers.{family}")


# -- the promises -------------------------------------------------------------------------------------------------

EVERY = [
    pytest.param(
        kind, entry, id=f"{kind.__name__}-{entry.name}",
        marks=pytest.mark.skipif(bool(entry.missing), reason=f"needs {', '.join(entry.missing)}"),
    )
    for kind in CASES for entry in methods(kind)
]  # fmt: skip

every_method = pytest.mark.parametrize(("kind", "entry"), EVERY)


def test_every_problem_type_states_its_cases():
    kinds = {kind for kind in Problem.types() if kind.__module__.startswith("solvers.") and methods(kind)}
    assert {kind.__name__ for kind in kinds} == {kind.__name__ for kind in CASES}


@every_method
@pytest.mark.parametrize("promise", PROMISES)
def test_every_method_keeps_its_promises(kind, entry, promise):
    PROMISES[promise](kind, entry)


def many_points() -> Problem:
    return PointDispersionProblem(np.random.default_rng(9).random((3000, 5)), None, size=300)


def many_kinds() -> Problem:
    where = np.random.default_rng(9).random((60, 5))
    between = np.linalg.norm(where[:, None] - where, axis=2)
    return KindDispersionProblem(
        between, np.arange(3000) % 60, np.random.default_rng(9).random(3000), size=300, weight=1e-3
    )


def line_of_points(n: int = 3000) -> PointDispersionProblem:
    places, costs = (np.random.default_rng(seed).random(n) for seed in (9, 10))
    return PointDispersionProblem(places[:, None], costs, size=n // 10)


def enumerable() -> Problem:
    h = np.triu(np.random.default_rng(9).random((30, 30)), 1)
    return DispersionProblem(h + h.T, None, size=8)


def equally_important() -> Problem:
    rng = np.random.default_rng(9)
    n = 3000
    return ExclusionProblem(np.full(n, 1 / n), rng.exponential(size=n), 1.0, rng.random(n) * 0.8 + 0.2, np.zeros(n))


def squared_bias() -> Problem:
    rng = np.random.default_rng(9)
    pi, variances, alpha = rng.uniform(0.1, 1, 300), rng.uniform(0.5, 2, 300), rng.dirichlet(np.ones(300))
    return TotalErrorProblem(pi, variances, 1.0, 1.0, importance=alpha, bias="chi2")


def valued_uploads(n: int = 2000) -> Problem:
    rng = np.random.default_rng(9)
    ready, upload = rng.lognormal(3, 1, n), rng.lognormal(0, 1, n)
    return DeadlineProblem(ready, upload, 1000.0, upload + 0.1)


def many_uploads() -> Problem:
    rng = np.random.default_rng(9)
    return DeadlineProblem(rng.lognormal(3, 1, 20_000), rng.lognormal(0, 1, 20_000), 1000.0)


def far_apart(n: int = 400) -> Problem:
    where = np.random.default_rng(9).random((n, 6))
    return CoverageProblem(2.0 - np.linalg.norm(where[:, None] - where, axis=2), size=40)


def diverse_rounds() -> Problem:
    rng = np.random.default_rng(9)
    upper = np.triu(rng.random((60, 60)), 1)
    return DiverseScheduleProblem(rng.random((200, 60)) < 0.8, size=8, distances=upper + upper.T, weight=0.02)


def shares_of_labels(n: int = 300) -> Problem:
    rng = np.random.default_rng(9)
    return BalanceProblem([rng.multinomial(100, rng.dirichlet(np.full(10, 0.3))) for _ in range(n)], size=10)


def as_quadratic(problem: DispersionProblem) -> Problem:
    return QuadraticProblem(np.diag(problem.costs) - problem.weight * problem.distances, problem.size, "min")


#: A library instance of each type, or a large one, on which a slow method is still at work when the time is over.
BUSY: dict[type[Problem], str | Callable[[], Problem]] = {
    PointDispersionProblem: many_points,
    KindDispersionProblem: many_kinds,
    DispersionProblem: "fedgs-digits-dirichlet-n100-m10-ideal-r5",
    QuadraticProblem: lambda: as_quadratic(instances.load("fedgs-digits-dirichlet-n100-m10-ideal-r5")),
    ExclusionProblem: "cafed-clustered-n24-r50",
    OptimizationErrorProblem: "theorem2-opt-clustered-n24-r30",
    TotalErrorProblem: "theorem2-tv-clustered-n24-r30",
    CappingProblem: "e3cs-digits-n30-m5-quota0-r100",
    AllocationProblem: "fedss-digits-dirichlet-n300-m60-groups20-r30",
    CutoffProblem: "fedau-cutoff-digits-n30-t200-r0",
    DeadlineProblem: valued_uploads,
    CoverageProblem: far_apart,
    BalanceProblem: shares_of_labels,
    ScheduleProblem: lambda: ScheduleProblem(np.random.default_rng(9).random((60, 3000)) < 0.2, size=90),
    DiverseScheduleProblem: diverse_rounds,
}


#: The same for methods that are for some problems only.
BUSY_SPECIAL: dict[tuple[type[Problem], str], Callable[[], Problem]] = {
    (DispersionProblem, "brute-force"): enumerable,
    (AllocationProblem, "brute-force"): lambda: AllocationProblem(np.full(7, 11), np.arange(7.0), 40),
    (PointDispersionProblem, "brute-force"): lambda: PointDispersionProblem(np.eye(24), size=12),
    (KindDispersionProblem, "brute-force"): lambda: KindDispersionProblem(1 - np.eye(24), kinds=range(24), size=12),
    (PointDispersionProblem, "line"): line_of_points,
    (DispersionProblem, "line"): lambda: line_of_points(900).expanded(),
    (QuadraticProblem, "brute-force"): lambda: as_quadratic(enumerable()),
    (QuadraticProblem, "line"): lambda: as_quadratic(line_of_points(900).expanded()),
    (DeadlineProblem, "moore-hodgson"): many_uploads,
    (DeadlineProblem, "brute-force"): lambda: DeadlineProblem(np.zeros(20), np.ones(20), 20.0),
    (DeadlineProblem, "dynamic-programme"): lambda: DeadlineProblem(np.zeros(500), np.arange(500), 50_000.0),
    (CoverageProblem, "brute-force"): lambda: CoverageProblem(np.eye(24), size=8),
    (CoverageProblem, "milp"): lambda: far_apart(120),
    (CoverageProblem, "cp-sat"): lambda: far_apart(120),
    (ScheduleProblem, "brute-force"): lambda: ScheduleProblem(np.ones((5, 8)), size=3),
    (DiverseScheduleProblem, "brute-force"): lambda: DiverseScheduleProblem(
        np.ones((5, 8)), size=3, distances=1.0 - np.eye(8)
    ),
    (BalanceProblem, "brute-force"): lambda: shares_of_labels(22),
    (ExclusionProblem, "sorting"): equally_important,
    (TotalErrorProblem, "newton"): squared_bias,
}


def busy(kind: type[Problem], entry: Method) -> Problem:
    source = BUSY_SPECIAL.get((kind, entry.name), BUSY[kind])
    return instances.load(source) if isinstance(source, str) else source()


#: `auto` of every type is stopped every time, all other methods in the thorough part.
STOPPED = [
    each
    if each.values[1].name == "auto"
    else pytest.param(*each.values, id=each.id, marks=[*each.marks, pytest.mark.thorough])
    for each in EVERY
]


@pytest.mark.parametrize(("kind", "entry"), STOPPED)
def test_time_limit(kind, entry, watchdog):
    """The method ends, and says what kept it from more. By how much it is late is measured by a benchmark."""
    solve(accepted(kind, entry), entry.name)  # loads and compiles
    problem = busy(kind, entry)
    solution = solve(problem, entry.name, time_limit=0.2)
    if solution.x is not None:
        assert problem.violation(solution.x) <= problem.tolerance
    if solution.status != "optimal":
        assert solution.stopped in ("time-limit", "iterations", "error")


@pytest.fixture
def scratch_methods():
    from solvers.registry import restore, snapshot

    before = snapshot()
    yield
    restore(before)


def test_a_method_of_ones_own_is_played_and_a_bound_alone_is_a_relaxation(scratch_methods):
    @method(DispersionProblem, "mine", kind="relaxation")
    def mine(problem, run, *, slack: float = 0.0):
        run.tighten(problem.trivial_bound(), slack)

    tested = check_method("mine")
    assert tested == [
        f"{kind}: {promise}" for kind in ("DispersionProblem", "QuadraticProblem") for promise in PROMISES
    ]


def too_tight(problem, run):
    """A bound below the optimum, on some problems."""
    run.tighten(problem.trivial_bound() - 0.3 * problem.scale)


def at_random(problem, run):
    """Another decision in every call."""
    return np.isin(problem.clients, np.random.default_rng().permutation(problem.clients)[: problem.size])


def unannotated(problem, run, *, swaps=3):
    """An option that takes anything."""
    return problem.feasible.round(problem.linear)


def unproved(problem, run):
    """Exact by its own account."""
    run.tighten(problem.trivial_bound())
    return problem.feasible.round(problem.linear)


def as_ids(problem, run):
    """Ids of all clients where all are selected, in falling order."""
    return problem.clients[::-1][-problem.size :]


def one_too_many(problem, run):
    """More clients than allowed, where there are."""
    return np.arange(problem.n) <= problem.size


def too_few(problem, run):
    """The last id alone."""
    return problem.clients[-1:]


def test_ids_are_taken_where_all_are_selected(scratch_methods):
    method(DispersionProblem, "mine", kind="heuristic")(as_ids)
    assert len(check_method("mine", DispersionProblem)) == len(PROMISES)


@pytest.mark.parametrize(
    ("function", "kind", "sentence"),
    [
        (one_too_many, "heuristic", "on the case 'random' method 'mine' .* infeasible decision"),
        (too_few, "heuristic", "on the case 'random' .* it names 1 clients; this problem selects 3"),
        (too_tight, "relaxation", "states the bound .*, but a decision is worth"),
        (at_random, "heuristic", "answers differently under the same seed"),
        (unannotated, "heuristic", "as its option 'swaps'; annotate it"),
        (unproved, "exact", "is exact, but does not prove its decision: status 'feasible'"),
    ],
)
def test_a_broken_promise_is_a_sentence(scratch_methods, function, kind, sentence):
    method(DispersionProblem, "mine", kind=kind)(function)
    with pytest.raises((ContractBroken, InvalidAnswer), match=sentence):
        check_method("mine", DispersionProblem)


def test_what_cannot_be_played_is_a_sentence():
    with pytest.raises(SolversError, match="no method 'none' is registered for a DispersionProblem"):
        check_method("none", DispersionProblem)
    with pytest.raises(SolversError, match="there are no cases of a Problem"):
        check_method("auto", Problem)
