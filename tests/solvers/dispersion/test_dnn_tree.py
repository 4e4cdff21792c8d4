"""The DNN tree against enumeration, whatever the threads; symmetries; what an interruption leaves."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from solvers import InvalidOption, solve
from solvers.dispersion import DispersionProblem
from solvers.dispersion.neighbourhood import ascend, greedy_decision
from solvers.dispersion.policy import DEFAULT_POLICY, Policy
from solvers.dispersion.relaxations.slice_form import ScaledProblem
from solvers.dispersion.symmetry import closure
from solvers.dispersion.tree import dnn_tree
from solvers.dispersion.tree.dnn_tree import DNNNode, DNNTree, Setting, process_node
from solvers.dispersion.tree.first_order import FirstOrderTree
from solvers.run import Run
from tests.solvers.dispersion.cases import euclidean_problem, problem_with_a_choice, tolerance, uniform_problem
from tests.thoroughly import few_of


def dnn_run(
    problem: DispersionProblem,
    threads: int = 1,
    group=None,
    batches: int | None = None,
    policy: Policy = DEFAULT_POLICY,
) -> Run:
    """The DNN tree alone, from a poor incumbent."""
    run = Run(problem, "test", None, 0)
    x = np.zeros(problem.n, dtype=np.int64)
    x[: problem.size] = 1
    run.offer(x)
    tree = DNNTree(FirstOrderTree(problem, run, 0.0, policy=policy), threads, group)
    tree.solve_root()
    tree.report()
    while tree.open and (batches is None or batches > 0):
        tree.advance()
        tree.report()
        batches = None if batches is None else batches - 1
    return run


#: Nodes are relaxed down to the last, where the default policy enumerates.
NO_ENUMERATION = Policy(enumerable=1)


@pytest.mark.parametrize("seed", few_of(range(150), 15))
def test_finds_the_optimum(seed):
    rng = np.random.default_rng(seed)
    problem = problem_with_a_choice(rng, 9, left_out=2)
    truth = solve(problem, "brute-force")
    run = dnn_run(problem, policy=NO_ENUMERATION)
    assert run.proved
    assert run.objective == pytest.approx(truth.objective, abs=tolerance(problem, truth.objective))
    assert run.bound >= truth.objective - 2 * problem.rounding


@pytest.mark.parametrize("seed", range(20))
def test_bound_is_valid_after_any_number_of_batches(seed):
    problem = uniform_problem(14, 5, seed)
    truth = solve(problem, "brute-force").objective
    run = dnn_run(problem, batches=seed % 4, policy=NO_ENUMERATION)
    assert run.bound >= truth - 1e-9
    assert run.objective <= truth + 1e-9


@pytest.mark.parametrize("make", [uniform_problem, euclidean_problem])
def test_workers_change_nothing(make):
    problem = make(40, 8, 3)
    one, two = dnn_run(problem, 1), dnn_run(problem, 2)
    assert np.array_equal(one.x, two.x)
    assert (one.bound, one.nodes) == (two.bound, two.nodes)
    truth = solve(problem, "branch-and-bound").objective
    assert one.objective == pytest.approx(truth, abs=tolerance(problem, truth))


def ring(n: int, m: int) -> tuple[DispersionProblem, np.ndarray]:
    """Clients on a circle: every rotation and reflection is a symmetry."""
    step = np.abs(np.arange(n)[:, None] - np.arange(n))
    table = np.random.default_rng(n).integers(1, 50, n // 2 + 1).astype(float)
    table[0] = 0.0
    problem = DispersionProblem(table[np.minimum(step, n - step)], None, size=m, weight=0.5)
    return problem, np.array([np.roll(np.arange(n), 1), np.arange(n)[::-1]])


@pytest.mark.parametrize(("n", "m"), [(10, 4), (12, 5), (13, 4), (14, 6)])
def test_symmetries_keep_an_optimum(n, m):
    problem, generators = ring(n, m)
    group = closure(problem, generators)
    assert len(group) == 2 * n
    truth = solve(problem, "brute-force").objective
    with_group, without = (dnn_run(problem, group=g, policy=NO_ENUMERATION) for g in (group, None))
    assert with_group.objective == without.objective == truth
    assert with_group.proved
    assert with_group.nodes <= without.nodes
    answer = solve(problem, "branch-and-bound", symmetries=generators, moves=0)
    assert answer.status == "optimal"
    assert answer.objective == truth


def test_refused_symmetries():
    problem, generators = ring(10, 4)
    wrong = generators[0].copy()
    wrong[:2] = wrong[1::-1]
    for bad in (np.array([[0] * 10]), np.arange(10), wrong[None], np.zeros((1, 10))):
        with pytest.raises(InvalidOption, match="symmetries"):
            solve(problem, "branch-and-bound", symmetries=bad)
    with pytest.raises(InvalidOption, match="threads"):
        solve(problem, "branch-and-bound", threads=0)


def test_equal_clients_are_one_kind():
    """Many copies of few clients: dominance keeps the tree from telling them apart."""
    rng = np.random.default_rng(4)
    base = np.triu(rng.random((4, 4)), 1)
    base += base.T
    kinds = np.repeat(np.arange(4), 6)
    h = base[np.ix_(kinds, kinds)]
    problem = DispersionProblem(h, np.tile(rng.random(6), 4) * 0.2, size=7, weight=0.1)
    truth = solve(problem, "brute-force").objective
    run = dnn_run(problem, policy=NO_ENUMERATION)
    assert run.proved
    assert run.objective == pytest.approx(truth, abs=1e-9)


@pytest.mark.parametrize(("fixed", "free"), [(4, 5), (3, 5), (2, 2), (1, 3)])
def test_nodes_with_hardly_a_choice(fixed, free):
    """Nothing left to choose, one, everybody: the best completion is found, its value is the bound."""
    scaled = ScaledProblem.of(uniform_problem(9, 4, fixed))
    ones, ids = np.arange(fixed), np.arange(fixed, fixed + free)
    node = DNNNode(ids, ones, np.inf)
    outcome = process_node(Setting(scaled, np.zeros((0, 2), dtype=np.int64)), node, -np.inf, lambda: False)
    assert outcome.children == []
    values = []
    for rest in itertools.combinations(ids, 4 - fixed):
        s = np.zeros(9)
        s[[*ones, *rest]] = 1
        values.append(s @ scaled.quadratic @ s + s @ scaled.linear)
    assert outcome.bound == pytest.approx(max(values), abs=1e-12)
    assert outcome.bound >= max(values)


@pytest.mark.parametrize("threads", [1, 2])
def test_interrupted_runs_keep_their_bound(monkeypatch, threads):
    problem = uniform_problem(40, 8, 1)
    truth = solve(problem, "branch-and-bound").objective
    looks = 0
    process = process_node

    def interrupting(*arguments):
        nonlocal looks
        looks += 1
        if looks > 1:
            raise KeyboardInterrupt
        return process(*arguments)

    monkeypatch.setattr(dnn_tree, "process_node", interrupting)
    policy = Policy(root_iterations=20)
    # With a symmetry, be it none, the DNN tree gets all of the time.
    answer = solve(problem, "branch-and-bound", moves=0, threads=threads, policy=policy, symmetries=[np.arange(40)])
    assert answer.stopped == "interrupted"
    assert answer.bound >= truth - 1e-9


def test_branch_and_bound_turns_to_dnn_nodes():
    answer = solve(uniform_problem(60, 8, 2, weight=5.0), "branch-and-bound")
    assert answer.status == "optimal"
    assert answer.details["iterations"] > 0  # be it that the root suffices
    start = greedy_decision(answer.problem)
    assert answer.objective >= answer.problem.objective(ascend(answer.problem, start))
