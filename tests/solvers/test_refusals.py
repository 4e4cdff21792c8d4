"""What a person mistypes is refused in one sentence, before anything runs."""

import math
import re
from decimal import Decimal
from typing import Annotated, Literal

import numpy as np
import pytest

from solvers import (
    InvalidAnswer,
    InvalidOption,
    InvalidProblem,
    MissingBackend,
    UnknownMethod,
    method,
    methods,
    registry,
    solve,
)
from solvers.allocation import AllocationProblem
from solvers.constraints import Quota
from solvers.dispersion import DispersionProblem, PointDispersionProblem
from solvers.options import Above, AtLeast, did_you_mean, matches
from solvers.registry import Registry, find


def points(n=12, size=4):
    place = np.random.default_rng(n).random((n, 2))
    return DispersionProblem(np.linalg.norm(place[:, None] - place[None], axis=-1), np.zeros(n), size=size)


@pytest.mark.parametrize(
    ("name", "options", "sentence"),
    [
        ("tabu", {"moves": "abc"}, "method 'tabu': option 'moves' must be an integer, at least 0; got 'abc'"),
        ("annealing", {"moves": 1.5}, "option 'moves' must be an integer, at least 0; got 1.5"),
        ("cp-sat", {"threads": "two"}, "threads must be an integer of at least 1; got 'two'"),
        ("local-search", {"restarts": True}, "option 'restarts' must be an integer, at least 0; got True"),
        ("sdp", {"accuracy": "fine"}, "option 'accuracy' must be a number, above 0; got 'fine'"),
        ("sdp", {"accuracy": math.nan}, "option 'accuracy' must be a number, above 0; got nan"),
        ("random", {"draws": 1e3}, "option 'draws' must be an integer, at least 1; got 1000.0"),
        ("auto", {"memory": "yes"}, "option 'memory' must be a Memory; got 'yes'"),
        ("tabu", {"move": 3}, "has no option 'move'; did you mean 'moves'"),
        ("greedy", {"timelimit": 5}, "'greedy' has no option 'timelimit'; did you mean 'time_limit'"),
        ("greedy", {"sead": 1}, "'greedy' has no option 'sead'; did you mean 'seed'"),
        ("greedy", {"n_jobs": 2}, "'greedy' has no option 'n_jobs'; did you mean 'threads'"),
        ("greedy", {"timeout": 2}, "'greedy' has no option 'timeout'; did you mean 'time_limit'"),
        ("greedy", {"random_state": 0}, "did you mean 'seed'"),
        ("greedy", {"verbose": True}, "did you mean 'log'"),
        ("greedy", {"MIPGap": 0.01}, "did you mean 'gap'"),
        ("greedy", {"TimeLimit": 1}, "did you mean 'time_limit'"),
        ("greedy", {"certify": "sdp"}, "did you mean 'bound_by'"),
        ("greedy", {"time_limit": "5"}, "time_limit must be a positive number of seconds or None; got '5'"),
        ("greedy", {"time_limit": True}, "time_limit must be a positive number"),
        ("greedy", {"start": [1, 0]}, "start must be a decision of this DispersionProblem: it names 2 clients"),
        ("greedy", {"start": "all"}, "start must be a decision of this DispersionProblem"),
        ("greedy", {"start": [[1], [2, 3]]}, "its rows differ in length"),
        ("greedy", {"start": np.ones(12)}, "start must be feasible; it violates a constraint by 8"),
        ("greedy", {"log": 3}, "log must be true or false, a text stream, or a callable"),
        ("greedy", {"watch": 3}, "watch must be a function of a TracePoint; got 3"),
        ("greedy", {"bound_by": "tabu"}, "'tabu' is a heuristic and promises no bound"),
    ],
)
def test_options_are_refused_in_a_sentence(name, options, sentence):
    with pytest.raises(InvalidOption, match=sentence):
        solve(points(), name, **options)


@pytest.mark.parametrize("name", [None, 3, ["greedy"], "gredy"])
def test_a_method_that_there_is_not(name):
    with pytest.raises(UnknownMethod, match="there is no method"):
        solve(points(), name)


@pytest.mark.parametrize("entry", [2**70, None, "one", 0.5])
def test_a_decision_of_other_entries_is_refused(entry):
    with pytest.raises(ValueError, match=r"x must be a 0/1 vector|invalid literal"):
        points().objective([entry] + [0] * 11)


def test_numbers_of_any_library_are_numbers():
    assert solve(points(), "tabu", time_limit=Decimal("0.5"), moves=10).x is not None
    assert solve(points(), "random", draws=np.int64(3)).x is not None
    assert matches(np.float32(0.5), float)
    assert not matches(np.bool_(True), float)


def test_a_registration_with_a_wrong_kind_leaves_nothing_behind(scratch_registry):
    with pytest.raises(InvalidOption, match="no kind 'heuristc' of methods; did you mean 'heuristic'"):
        method(DispersionProblem, "own", kind="heuristc")
    with pytest.raises(InvalidOption, match="the name of a method is a text"):
        method(DispersionProblem, None, kind="exact")
    with pytest.raises(InvalidOption, match="a subclass of Problem"):
        method(dict, "own", kind="exact")
    assert "own" not in {each.name for each in methods(DispersionProblem)}


@pytest.mark.parametrize(
    ("kind", "arguments", "sentence"),
    [
        (DispersionProblem, {"m": 2}, "DispersionProblem has no argument 'm'; did you mean 'size'?"),
        (DispersionProblem, {"k": 2}, "did you mean 'size'"),
        (DispersionProblem, {"sizes": 2}, "did you mean 'size'"),
        (DispersionProblem, {"colour": 2}, r"no argument 'colour' \(it takes distances, costs, "),
        (AllocationProblem, {"sizes": [5], "deviations": [1], "k": 3}, "did you mean 'total'"),
    ],
)
def test_arguments_of_problems_by_the_names_of_papers(kind, arguments, sentence):
    with pytest.raises(TypeError, match=sentence):
        kind(**arguments)


def test_an_option_that_would_never_arrive_is_refused(scratch_registry):
    """`solve` takes ``log`` for itself; ``threads`` it passes on."""
    import inspect

    from solvers.registry import TAKEN

    with pytest.raises(InvalidOption, match="cannot have an option 'log'"):

        @method(DispersionProblem, "own", kind="heuristic")
        def own(problem, run, *, log: str = ""):
            """Never be given a log."""

    named = {each.name for each in inspect.signature(solve).parameters.values() if each.kind is not each.VAR_KEYWORD}
    assert named - {"problem", "threads"} <= set(TAKEN)


def test_annotations_say_what_an_option_accepts(scratch_registry):
    @method(DispersionProblem, "typed", kind="heuristic")
    def typed(
        problem,
        run,
        *,
        draws: Annotated[int, AtLeast(1)] = 1,
        step: Annotated[float, Above(0)] | None = None,
        rule: Literal["first", "last"] = "first",
    ):
        """Take the first clients."""
        return np.arange(problem.n) < problem.size

    for options in ({"draws": 1, "step": 1e-9, "rule": "last"}, {"step": None, "draws": np.int64(3)}):
        assert solve(points(), "typed", **options).x is not None
    for options, sentence in (
        ({"draws": 0}, "method 'typed': option 'draws' must be an integer, at least 1; got 0"),
        ({"draws": 1.5}, "option 'draws' must be an integer, at least 1; got 1.5"),
        ({"step": 0.0}, "option 'step' must be a number, above 0; got 0.0"),
        ({"step": math.nan}, "option 'step' must be a number, above 0; got nan"),
        ({"rule": "middle"}, "option 'rule' must be 'first' or 'last'; got 'middle'"),
    ):
        with pytest.raises(InvalidOption, match=sentence):
            solve(points(), "typed", **options)


def test_a_registry_is_restored_as_it_was():
    known = Registry("thing")
    known.put("first", len, "one")
    before = known.snapshot()
    known.put("first", max)
    known.put("second", min, "two")
    known.restore(before)
    assert known.names == ["first"]
    assert known["one"] is len
    with pytest.raises(InvalidOption, match="there is no thing 'two'"):
        known["two"]
    known.discard("first")
    with pytest.raises(InvalidOption, match="there is no thing 'one'"):
        known["one"]


def test_methods_are_restored_as_they_were():
    before = {each.name for each in methods(DispersionProblem)}
    state = registry.snapshot()
    method(DispersionProblem, "fleeting", kind="heuristic")(lambda problem, run: None)
    assert "fleeting" in {each.name for each in methods(DispersionProblem)}
    registry.restore(state)
    assert {each.name for each in methods(DispersionProblem)} == before


def test_a_part_of_a_package_that_is_not_there_is_missing(scratch_registry):
    @method(DispersionProblem, "afar", kind="heuristic", requires="no_such_package.part")
    def afar(problem, run):
        return None

    with pytest.raises(MissingBackend, match=r"'afar' needs no_such_package\.part, which is not installed"):
        find(points(), "afar")


def test_an_option_without_default_is_asked_for(scratch_registry):
    @method(DispersionProblem, "needy", kind="heuristic")
    def needy(problem, run, *, first: int):
        """Take the clients from ``first`` on."""
        x = np.zeros(problem.n, dtype=int)
        x[first : first + problem.size] = 1
        return x

    with pytest.raises(InvalidOption, match="method 'needy' needs the option 'first'"):
        solve(points(), "needy")
    assert solve(points(), "needy", first=2).selected.tolist() == [2, 3, 4, 5]


def test_brute_force_says_how_many_selections_are_too_many():
    with pytest.raises(InvalidProblem, match=r"about 10\^\d+ selections of 1000 out of 3000"):
        solve(DispersionProblem(np.zeros((3000, 3000)), np.zeros(3000), size=1000), "brute-force")


def test_a_method_is_listed_for_the_problems_that_it_accepts(scratch_registry):
    @method(DispersionProblem, "few", kind="heuristic", accepts=lambda problem: "too many" if problem.n > 3 else None)
    def few(problem, run):
        return np.eye(problem.n)[0]

    for n, listed in ((3, True), (4, False)):
        problem = DispersionProblem(np.ones((n, n)) - np.eye(n), size=1)
        assert ("few" in {each.name for each in methods(problem)}) is listed
        assert find(DispersionProblem, "few").refusal(problem) == (None if listed else "too many")
    with pytest.raises(InvalidProblem, match="too many"):
        solve(problem, "few")
    assert "few" in {each.name for each in methods(DispersionProblem)}


def test_line_is_listed_where_it_does_not_refuse():
    rng = np.random.default_rng(0)
    for embedded in (True, False):
        places = rng.random((9, 1 if embedded else 3))
        matrix = np.linalg.norm(places[:, None] - places, axis=2)
        for problem in (DispersionProblem(matrix, size=4), PointDispersionProblem(places, size=4)):
            assert ("line" in {each.name for each in methods(problem)}) is embedded


def test_one_way_to_say_what_was_meant():
    assert did_you_mean("Gredy", ["greedy", "tabu"]) == "; did you mean 'greedy'?"
    assert did_you_mean("time", ["threads", "time_limit"]) == "; did you mean 'time_limit'?"
    assert did_you_mean("work", ["work_limit", "work_share", "method"]) == ""  # one of two, who knows which
    assert did_you_mean("xyz", ["greedy"]) == did_you_mean(None, ["greedy"]) == ""


@pytest.mark.parametrize("is_offered", [False, True])
@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ([0, 2], None),
        (np.array([2, 0]), None),
        ([0, 1, 2], "it names 3 clients; this problem selects 2"),
        ([0, 7], "it names client 7; this problem's are 4 from 0 to 3"),
        ([0.5, 0.5, 1, 0], "x must be a 0/1 vector; it has fractional entries"),
        ([0.5, 0.5], r"x must have one entry per client, 4; got shape \(2,\)"),
    ],
)
def test_a_method_may_return_or_offer_ids_and_nothing_that_is_no_decision(
    scratch_registry, answer, sentence, is_offered
):
    @method(DispersionProblem, "listing", kind="heuristic")
    def listing(problem, run):
        """Hand over what is listed."""
        if not is_offered:
            return answer
        run.offer(answer)
        return None

    problem = DispersionProblem(1.0 - np.eye(4), size=2)
    if sentence is None:
        assert solve(problem, "listing").selected.tolist() == [0, 2]
    else:
        with pytest.raises(InvalidAnswer, match=f"method 'listing' returned no decision .*{sentence}"):
            solve(problem, "listing")


def test_a_range_of_sizes_is_sent_where_it_is_taken():
    h, costs = np.abs(np.subtract.outer(np.arange(6.0), np.arange(6.0))), np.arange(6.0)
    with pytest.raises(InvalidProblem) as refused:
        DispersionProblem(h, costs, size=(2, 3), weight=0.5)
    told = re.search(
        r"taken by DispersionProblem\.from_quadratic\((.*), size=\(least, largest\)\)\)", str(refused.value)
    )
    stated = eval(told[1], {"np": np, "weight": 0.5, "distances": h, "costs": costs})
    free = solve(DispersionProblem.from_quadratic(stated, size=(2, 3)))
    fixed = [solve(DispersionProblem(h, costs, size=m, weight=0.5)).objective for m in (2, 3)]
    assert free.objective == pytest.approx(max(fixed))


def test_names_where_ids_are_taken_are_told_where_ids_are():
    h, names = np.abs(np.subtract.outer(np.arange(3.0), np.arange(3.0))), ["a", "b", "c"]
    hint = r"\(an id is the client's place: names\.index\('c'\), or frame\.index\.get_indexer\(\['c', \.\.\.\]\) of"
    with pytest.raises(InvalidProblem, match=r"include must be ids of clients, whole numbers; got \['c'\] " + hint):
        DispersionProblem(h, size=2, names=names, include=["c"])
    with pytest.raises(InvalidProblem, match=hint):
        Quota(["c"], at_least=1)
    with pytest.raises(InvalidOption, match=r"it takes ids of clients, whole numbers; got \['c', 'a'\] " + hint):
        solve(DispersionProblem(h, size=2, names=names), start=["c", "a"])
    assert solve(DispersionProblem(h, size=2, names=names, include=[names.index("b")])).selected_names[0] in ("a", "b")
