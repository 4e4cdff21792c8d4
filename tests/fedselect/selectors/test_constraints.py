"""Side constraints of selectors' rounds: stated in TOML and Python, kept in every round, recorded, resumed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fedselect.availability import AVAILABILITY
from fedselect.clock import Clock, ClockSettings, lognormal
from fedselect.data import digits
from fedselect.errors import ConfigError, DataError
from fedselect.randomness import generator
from fedselect.rounds.engine import context
from fedselect.rounds.engine import feedback as engine_feedback
from fedselect.rounds.protocol import Outcome, RoundContext, RoundFeedback, Selection
from fedselect.rounds.scenario import Scenario
from fedselect.selectors import SELECTORS, Batteries, DivFL, FedCBS, FedGS, FedSS, PowerOfChoice, Uniform
from fedselect.selectors.constraints import ClockBudget, RoundConstraints, RunBudget
from solvers.constraints import Budget, Quota

N, M = 20, 5
DISTANCES = np.abs(np.subtract.outer(np.arange(N), np.arange(N))) / N
SECONDS = np.linspace(1.0, 2.0, N)
REGION = np.arange(N) % 4


def a_round(t=0, available=None, **more):
    there = np.ones(N, dtype=bool) if available is None else np.asarray(available)
    return RoundContext(t, there, np.full(N, 10), np.random.default_rng(t), **more)


def feedback(round, selection):
    outcomes = np.where(round.available, Outcome.IDLE, Outcome.UNAVAILABLE).astype(np.int8)
    outcomes[selection.clients] = Outcome.RETURNED
    return RoundFeedback(round.round, selection, outcomes)


def by_region(at_least=0, at_most=None):
    return [Quota(np.flatnonzero(k == REGION), at_least, at_most, f"region {k}") for k in range(4)]


def test_fedgs_keeps_quotas_and_a_budget_and_records_them():
    budget = Budget(SECONDS, 6.5, "seconds")
    constraints = RoundConstraints(N, quotas=by_region(1, 2), budgets=[budget], exclude=[0], conflicts=[(3, 7)])
    selector = FedGS(M, distances=DISTANCES, constraints=constraints)
    for t in range(4):
        round = a_round(t)
        selection = selector.select(round)
        chosen = selection.clients
        assert chosen.size == M
        assert 0 not in chosen
        assert set(np.bincount(REGION[chosen], minlength=4)) <= {1, 2}
        assert SECONDS[chosen].sum() <= 6.5 * (1 + 1e-9)
        assert not {3, 7} <= set(chosen.tolist())
        note = selection.notes["constraints"]
        assert note["used"]["seconds"] == pytest.approx(SECONDS[chosen].sum())
        assert note["slack"]["seconds"] == pytest.approx(6.5 - SECONDS[chosen].sum(), abs=1e-6)
        assert selection.solution.bound is not None
        selector.update(feedback(round, selection))


def test_whoever_waited_is_included_and_waits_anew():
    selector = FedGS(
        M, distances=DISTANCES, alpha=100.0, method="local-search", constraints=RoundConstraints(N, include_after=3)
    )
    waited, longest = np.zeros(N, dtype=int), 0
    for t in range(30):
        round = a_round(t, np.random.default_rng([1, t]).random(N) < 0.8)
        due = np.flatnonzero(round.available & (waited >= 3))
        chosen = selector.select(round).clients
        assert set(due[np.argsort(-waited[due], kind="stable")][:M].tolist()) <= set(chosen.tolist())
        selector.update(feedback(round, Selection(chosen, np.zeros(chosen.size))))
        waited[round.available] += 1
        waited[chosen] = 0
        longest = max(longest, waited.max())
    assert longest <= 3 + N // M + 1
    assert np.array_equal(selector.state_dict()["waited"], waited)
    again = FedGS(
        M, distances=DISTANCES, alpha=100.0, method="local-search", constraints=RoundConstraints(N, include_after=3)
    )
    again.load_state_dict(selector.state_dict())
    assert np.array_equal(again.constraints.waited, waited)


def test_a_round_that_cannot_keep_all_gives_way_in_order():
    tight = RoundConstraints(
        N, budgets=[Budget(SECONDS, 3.3)], include_after=1, quotas=[Quota([0, 19], 1, name="late")]
    )
    tight.waited[:] = 1
    size, stated, gave_way = tight.of_round(a_round(), M)
    assert size == gave_way["size"] == 3
    assert stated["include"] == (0, 1, 2)  # of clients that waited alike, the lower ids come first
    assert gave_way["not_included"] == list(range(3, N))
    alone = RoundConstraints(N, quotas=[Quota([18, 19], 2, name="late")])
    there = np.arange(N) < 19
    size, stated, gave_way = alone.of_round(a_round(available=there), M)
    assert size == M
    assert gave_way == {"short": {"late": 1}}
    assert stated["quotas"][0].at_least == 1
    poor = RoundConstraints(N, budgets=[Budget(SECONDS, 3.3)])
    assert poor.of_round(a_round(), M)[0] == 3
    nothing = RoundConstraints(N, budgets=[Budget(SECONDS, 0.5, "seconds")])
    with pytest.raises(ConfigError, match=r"no client can be selected under the constraints .*budget 'seconds'"):
        nothing.of_round(a_round(), M)


def test_power_of_choice_takes_the_largest_losses_that_keep_the_constraints():
    losses = np.arange(N, dtype=float)
    constraints = RoundConstraints(N, quotas=by_region(at_most=1), include=[2])
    selector = PowerOfChoice(4, candidates=N, constraints=constraints)
    chosen = selector.select(a_round(probe=lambda clients: losses[list(clients)])).clients
    assert chosen.tolist() == [2, 16, 17, 19]


def test_a_clock_budget_asks_for_a_clock():
    constraints = RoundConstraints(N, budgets=[ClockBudget("upload", 30.0)])
    with pytest.raises(ConfigError, match="needs a clock"):
        constraints.of_round(a_round(), M)
    with pytest.raises(ConfigError, match="clock must be one of expected"):
        ClockBudget("uploads", 30.0)


@pytest.fixture(scope="module")
def small_scenario():
    federation = digits(n_clients=N)
    availability = AVAILABILITY.build("ideal", federation, 0)
    return Scenario(federation.sizes, availability, size=M, rounds=10, data=federation)


@pytest.fixture
def clients_file(tmp_path):
    path = tmp_path / "clients.csv"
    rows = "\n".join(f"{k},{'north' if k % 2 else 'south'},{1 + k / 10}" for k in reversed(range(N)))
    path.write_text(f"client,region,seconds\n{rows}\n")
    return str(path)


def test_a_table_of_clients_gives_groups_and_uses(clients_file, small_scenario):
    stated = {
        "quotas": [{"by": "region", "at_most": 3}, {"by": "region", "value": "north", "at_least": 2, "name": "n"}],
        "budgets": [{"column": "seconds", "limit": 9.0}],
        "include_after": 4,
    }
    selector = SELECTORS.build("fedgs", small_scenario, constraints=stated, clients_file=clients_file)
    quotas = {quota.name: quota for quota in selector.constraints.quotas}
    assert set(quotas) == {"region north", "region south", "n"}
    assert quotas["n"].members == tuple(range(1, N, 2))
    assert selector.constraints.budgets[0].name == "seconds"
    assert np.allclose(selector.constraints.budgets[0].use, 1 + np.arange(N) / 10)
    labels = SELECTORS.build("fedgs", small_scenario, constraints={"quotas": [{"by": "label", "at_most": 2}]})
    assert all(quota.name.startswith("label ") for quota in labels.constraints.quotas)


@pytest.mark.parametrize(
    ("stated", "sentence"),
    [
        ({"quota": []}, "constraints has no key 'quota'"),
        ({"quotas": [{"at_least": 1}]}, "a quota has members, or by"),
        ({"quotas": [{"members": [0], "by": "region"}]}, "beside members there is no use for by"),
        ({"quotas": [{"members": [0], "value": "north"}]}, "beside members there is no use for value"),
        ({"quotas": [{"by": "colour"}]}, "has no column 'colour'; it has region, seconds"),
        ({"quotas": [{"by": "region", "value": "west"}]}, "no client has the region 'west'"),
        ({"quotas": [{"members": [99]}]}, "names client 99"),
        ({"budgets": [{"column": "seconds"}]}, "a budget has a limit and one of use, column and clock"),
        ({"budgets": [{"column": "seconds", "limit": -1.0}]}, "limit of budget 'seconds' must be finite"),
        (
            {"budgets": [{"column": "seconds", "limit": 9.0, "over": "day"}]},
            "or over the 'run', of each client; got 'day'",
        ),
        ({"budgets": [{"column": "seconds", "limit": "volts", "over": "run"}]}, "has no column 'volts'; it has region"),
        (
            {"budgets": [{"column": "seconds", "limit": -1.0, "over": "run"}]},
            "limit of 'seconds' must be finite numbers",
        ),
        ({"budgets": [{"use": [1.0, 2.0], "limit": 1.0, "over": "run"}]}, "use has 2 numbers; there are 20 clients"),
        ({"budgets": [{"use": "expected", "limit": 1.0, "over": "run"}]}, "use is a number for each client; got 'exp"),
        ({"budgets": [{"clock": "energy", "limit": 1.0, "over": "run"}]}, "clock must be one of expected"),
        ({"include_after": 0}, "include_after must be a positive integer"),
        ({"quotas": [{"by": "region", "at_most": 3, "name": 5}]}, "the name of a quota must be a text; got 5"),
        ({"budgets": [{"clock": "upload", "limit": 1.0, "name": 5}]}, "the name of a budget must be a text; got 5"),
        ({"conflicts": 5}, "constraints: conflicts must be a list; got 5"),
        (
            {"budgets": [{"clock": "upload", "limit": 1.0}, {"clock": "upload", "limit": 2.0}]},
            "two constraints are named 'upload'",
        ),
        (
            {"budgets": [{"column": "seconds", "limit": each, "over": "run"} for each in (1.0, 2.0)]},
            "two budgets over the run are named 'seconds'",
        ),
        ({"quotas": 5}, "constraints: quotas must be a list; got 5"),
        ({"budgets": {"clock": "upload"}}, "constraints: budgets must be a list; got {'clock': 'upload'}"),
        ({"include": 5}, "constraints: include must be a list; got 5"),
        ({"exclude": "all"}, "constraints: exclude must be a list; got 'all'"),
        ({"budgets": [{"clock": "upload", "limit": -1.0}]}, "a budget's limit of 'upload' must be a number of"),
        ({"budgets": [{"clock": "bytes", "limit": "1 GB"}]}, "a budget's limit of 'bytes' must be a number of"),
    ],
)
def test_what_a_configuration_gets_wrong_is_a_sentence(stated, sentence, clients_file, small_scenario):
    with pytest.raises(ConfigError, match=sentence.replace("(", r"\(")):
        SELECTORS.build("fedgs", small_scenario, constraints=stated, clients_file=clients_file)


@pytest.mark.parametrize(
    "stated",
    [
        {"include_after": 3},
        {"budgets": [{"use": [1.0] * N, "limit": 3.0}]},
        {"budgets": [{"use": [1.0] * N, "limit": 3.0, "over": "run"}], "exclude": [1]},
        {"budgets": 5},
    ],
)
def test_selectors_that_keep_none_say_which_do(stated, small_scenario):
    sentence = r"'uniform' keeps no constraints but budgets over the run .*: coverage-gs, divfl, fed-cbs, fedgs, fedss"
    with pytest.raises(ConfigError, match=sentence):
        SELECTORS.check("uniform", {"constraints": stated})
    with pytest.raises(ConfigError, match=sentence):
        SELECTORS.build("uniform", small_scenario, constraints=stated)


def test_a_table_that_lacks_clients_is_refused(tmp_path, small_scenario):
    path = tmp_path / "clients.csv"
    path.write_text("client,region\n0,a\n1,b\n")
    with pytest.raises(DataError, match="numbers 0 to 19, each once"):
        SELECTORS.build("fedgs", small_scenario, constraints={}, clients_file=str(path))
    with pytest.raises(ConfigError, match="constraints speak of, and there are none"):
        SELECTORS.build("fedgs", small_scenario, clients_file=str(path))


def kept_by(name, rounds=3, **options):
    """Selections of a selector under quotas, a budget and an exclusion, each checked; the selector comes with them."""
    rng = np.random.default_rng(1)
    constraints = RoundConstraints(
        N, quotas=by_region(1, 2), budgets=[Budget(SECONDS, 7.0, "seconds")], exclude=[0], include_after=2
    )
    if name == "fed-cbs":
        selector = FedCBS(M, label_counts=1 + rng.integers(0, 9, (N, 4)), constraints=constraints, **options)
    elif name == "fedss":
        selector = FedSS(M, groups=np.arange(N) // 7, constraints=constraints, **options)
    else:
        features = None if name == "divfl-updates" else rng.random((N, 3))
        selector = DivFL(M, importance=np.full(N, 1 / N), features=features, constraints=constraints, **options)
    selections = []
    for t in range(rounds):
        round = a_round(t, available=np.arange(N) % 7 != t)
        selection = selector.select(round)
        chosen = selection.clients
        assert chosen.size == M
        assert round.available[chosen].all()
        assert 0 not in chosen
        assert set(np.bincount(REGION[chosen], minlength=4)) <= {1, 2}
        assert SECONDS[chosen].sum() <= 7.0 * (1 + 1e-9)
        assert selection.weights.sum() == pytest.approx(1.0)
        assert selection.notes["constraints"]["slack"]["seconds"] >= -1e-6
        outcome = feedback(round, selection)
        updates = {k: rng.random(3) for k in chosen.tolist()} if name == "divfl-updates" else {}
        selector.update(replace(outcome, updates=updates))
        selections.append(selection)
    return selector, selections


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("fed-cbs", {"method": "auto"}),
        ("fed-cbs", {"method": "local-search"}),
        ("divfl", {"method": "auto"}),
        ("divfl", {"method": "greedy", "aggregation": "mean"}),
        ("divfl-updates", {"method": "greedy"}),
        ("fedss", {"method": "auto"}),
        ("fedss", {"variant": "proportional", "method": "proportional"}),
    ],
)
def test_selectors_of_other_problems_keep_constraints(name, options):
    selector, selections = kept_by(name, **options)
    if options["method"] == "auto":
        assert all(each.solution.status == "optimal" for each in selections)
    again, _ = kept_by(name, 1, **options)
    again.load_state_dict(selector.state_dict())
    assert again.constraints.waited.tolist() == selector.constraints.waited.tolist()


ENERGY, BATTERY = np.linspace(1.0, 3.0, N), np.linspace(4.0, 10.0, N)


def with_battery(name, budget):
    rng = np.random.default_rng(1)
    constraints = RoundConstraints(N, budgets=[budget], include_after=3)
    if name == "fed-cbs":
        return FedCBS(M, label_counts=1 + rng.integers(0, 9, (N, 4)), constraints=constraints, method="local-search")
    if name == "fedss":
        return FedSS(M, groups=np.arange(N) // 7, constraints=constraints)
    if name == "divfl":
        return DivFL(M, importance=np.full(N, 1 / N), constraints=constraints, method="greedy", warmup=1)
    if name == "power-of-choice":
        return PowerOfChoice(M, candidates=10, constraints=constraints)
    return FedGS(M, distances=DISTANCES, constraints=constraints, method="local-search")


@pytest.mark.parametrize("name", ["fedgs", "divfl", "fed-cbs", "fedss", "power-of-choice"])
def test_a_budget_over_the_run_is_each_clients_own(name):
    """Batteries: who cannot take another round is not selected any more; in the end nobody is, and rounds pass."""
    budget = RunBudget(ENERGY, BATTERY, "energy")
    selector, again, spent, last = with_battery(name, budget), None, np.zeros(N), None
    for t in range(30):
        round = a_round(t, available=np.arange(N) % 9 != t % 9, probe=lambda clients: np.ones(len(clients)))
        if t == 4:
            again = with_battery(name, budget)
            again.load_state_dict(selector.state_dict())
        selection = selector.select(round)
        if again is not None:
            assert np.array_equal(again.select(replace(round, rng=np.random.default_rng(t))).clients, selection.clients)
        chosen = selection.clients
        rest = BATTERY * (1 + 1e-9) - spent
        assert (rest[chosen] >= ENERGY[chosen]).all()
        able = round.available & (rest >= ENERGY)
        if t > 0 and chosen.size:
            told = selection.notes["constraints"]["over_run"]["energy"]
            assert told["exhausted"] == (round.available & (rest < ENERGY)).sum()
            assert told["least_left"] == pytest.approx((BATTERY - spent)[round.available].min(), abs=1e-9)
        if t > 0:
            assert chosen.size == min(M, able.sum())
        spent[chosen] += ENERGY[chosen]
        outcome = feedback(round, selection)
        outcome.outcomes[chosen[:1]] = Outcome.MISSING  # what is lost is used all the same
        updates = {k: np.arange(3.0) + k for k in chosen[1:].tolist()}
        for each in (selector, again):
            if each is not None:
                each.update(replace(outcome, updates=updates))
        last = chosen.size
    assert last == 0
    assert (BATTERY - spent < ENERGY).all()
    np.testing.assert_allclose(selector.constraints.spent, [spent])


#: Selectors that need a clock, or something else than a scenario gives, have options here.
CLOCKED = {"fedcs": {"deadline": 9.0}, "oort": {}, "tifl": {}}
KEEPING = {name for name in SELECTORS.names if "constraints" in SELECTORS.options(name)}


@pytest.mark.parametrize("name", sorted(set(SELECTORS.names) - KEEPING))
def test_every_selector_plays_batteries(name):
    """Whoever cannot take another round is not there for it; a resumed one goes on; in the end rounds pass empty."""
    data = digits(n_clients=N)
    clock = Clock(lognormal(N), data.sizes, ClockSettings(model_bytes=1000)) if name in CLOCKED else None
    there = AVAILABILITY.build("ideal", data, 0)
    world = Scenario(data.sizes, there, seed=0, clock=clock, size=M, rounds=60, data=data)
    stated = {"budgets": [{"use": ENERGY.tolist(), "limit": BATTERY.tolist(), "over": "run", "name": "energy"}]}
    options = CLOCKED.get(name, {}) | {"constraints": stated}
    selector, again, spent, empty = SELECTORS.build(name, world, **options), None, np.zeros(N), 0
    assert isinstance(selector, Batteries)
    for t in range(60):
        round = context(t, np.ones(N, bool), data.sizes, probe=lambda ids: 1.0 + np.asarray(ids), clock=clock)
        if t == 2:
            again = SELECTORS.build(name, world, **options)
            again.load_state_dict(selector.state_dict())
        selection = selector.select(round)
        if again is not None:
            copied = replace(round, rng=generator(0, "selector", t))
            assert np.array_equal(again.select(copied).clients, selection.clients)
        chosen, rest = selection.clients, BATTERY * (1 + 1e-9) - spent
        assert (rest[chosen] >= ENERGY[chosen]).all()
        told = selection.notes["constraints"]["over_run"]["energy"]
        assert told["exhausted"] == (rest < ENERGY).sum()
        spent[chosen] += ENERGY[chosen]
        empty += not chosen.size
        updates = {k: np.sin(np.arange(1.0, 9.0) * (k + 1)).astype(np.float32) for k in chosen[1:].tolist()}
        durations = dict.fromkeys(updates, 1.0) if clock else {}
        numbers = dict.fromkeys(updates, 0.5)
        for each in filter(None, (selector, again)):
            known = {"losses": numbers, "received_losses": numbers, "updates": updates, "durations": durations}
            each.update(engine_feedback(round, selection, returned=chosen[1:], **known))
    assert (spent > 0).any()
    np.testing.assert_allclose(selector.constraints.spent, [spent])
    if name not in ("fedcs", "ca-fed", "fedcor"):  # which may leave clients out for good
        assert empty
    if name == "uniform":  # what is not there for it is not idle, and not asked
        assert (BATTERY - spent < ENERGY).all()


def test_a_selector_without_state_or_with_ids_alone_plays_batteries():
    class First:
        def select(self, round):
            return np.flatnonzero(round.available)[:M]

    class Stubborn(First):
        def select(self, round):
            return [0]

    budget = RunBudget(np.ones(N), 1.0, "turns")
    selector = Batteries(First(), N, budgets=[budget])
    for t in range(2):
        round = a_round(t)
        selection = selector.select(round)
        assert selection.clients.tolist() == list(range(M * t, M * (t + 1)))
        selector.update(feedback(round, selection))
    assert not callable(selector.state_dict)
    stubborn = Batteries(Stubborn(), N, budgets=[budget])
    stubborn.update(feedback(a_round(), stubborn.select(a_round())))
    with pytest.raises(ConfigError, match=r"used up a budget over the run, and were not available to it: \[0\]"):
        stubborn.select(a_round(1))
    with pytest.raises(ConfigError, match="of class RunBudget; got a Budget"):
        Batteries(First(), N, budgets=[Budget(np.ones(N), 1.0)])
    with pytest.raises(ConfigError, match="over 20 clients; there are 3"):
        selector.select(RoundContext(0, np.ones(3, bool), np.ones(3, int), np.random.default_rng(0)))


def test_what_batteries_hide_is_not_idle_to_the_selector():
    class Watching(Uniform):
        def update(self, feedback):
            self.told = feedback.outcomes

    selector = Batteries(Watching(M), N, budgets=[RunBudget(np.ones(N), np.r_[np.zeros(4), np.ones(N - 4)], "one")])
    round = a_round()
    selector.update(feedback(round, selector.select(round)))
    assert (selector.selector.told[:4] == Outcome.UNAVAILABLE).all()
    assert (selector.selector.told[4:] >= Outcome.IDLE).all()


def test_a_budget_over_the_run_is_stated_in_a_configuration(clients_file, small_scenario):
    stated = {"budgets": [{"column": "seconds", "limit": 6.0, "over": "run"}, {"column": "seconds", "limit": 9.0}]}
    selector = SELECTORS.build("power-of-choice", small_scenario, constraints=stated, clients_file=clients_file)
    each, of_rounds = selector.constraints.run_budgets[0], selector.constraints.budgets
    assert np.allclose(each.use, 1 + np.arange(N) / 10)
    assert (float(each.limit), each.name, len(of_rounds)) == (6.0, "seconds", 1)
    by_column = {"budgets": [{"use": [2.0] * N, "limit": "seconds", "over": "run"}]}
    selector = SELECTORS.build("fedgs", small_scenario, constraints=by_column, clients_file=clients_file)
    assert selector.select(a_round()).clients.min() >= 10  # those with less than one round's energy never take part
    with pytest.raises(ConfigError, match="a budget over the clock's 'compute' needs a clock"):
        FedGS(M, distances=DISTANCES, constraints=RoundConstraints(N, budgets=[RunBudget("compute", 9.0)])).select(
            a_round()
        )


def test_fedss_draws_from_its_strata_within_constraints():
    """Where nothing binds, each of a stratum comes as often; a client that waited comes, and is one of its stratum."""
    groups, rounds = np.arange(N) // 10, 200
    selector = FedSS(6, groups=groups, constraints=RoundConstraints(N, quotas=by_region(at_most=4)))
    times = np.zeros(N)
    for t in range(rounds):
        chosen = selector.select(a_round(t)).clients
        assert np.bincount(groups[chosen]).tolist() == [3, 3]
        times[chosen] += 1
    assert np.abs(times / rounds - 0.3).max() < 5 * np.sqrt(0.3 * 0.7 / rounds)
    selector = FedSS(6, groups=groups, constraints=RoundConstraints(N, include_after=1, exclude=[0]))
    selector.constraints.waited[[2, 4, 6, 8]] = 1  # more than the three that a stratum gets in proportion
    selection = selector.select(a_round())
    assert {2, 4, 6, 8} <= set(selection.clients.tolist())
    assert np.bincount(groups[selection.clients]).tolist() == [4, 2]
    assert np.bincount(groups[selection.clients], selection.weights) == pytest.approx([0.5, 0.5])


def test_fedss_keeps_what_it_can_of_an_allocation_that_constraints_leave_no_room_for():
    groups = np.arange(N) // 10
    limit = Budget(np.where(groups == 0, 1.0, 4.0), 10.0, "bytes")  # six clients: five and one, not three and three
    selection = FedSS(6, groups=groups, constraints=RoundConstraints(N, budgets=[limit])).select(a_round())
    assert np.bincount(groups[selection.clients]).tolist() == [5, 1]
    assert selection.notes["constraints"]["allocation"] == [3, 3]
    assert selection.weights.sum() == pytest.approx(1.0)
    alone = RoundConstraints(N, budgets=[Budget(np.where(groups == 0, 1.0, 4.0), 3.0)])  # no room for both strata
    selection = FedSS(6, groups=groups, constraints=alone).select(a_round())
    assert selection.clients.size == selection.notes["constraints"]["size"] == 3
    assert groups[selection.clients].tolist() == [0, 0, 0]
    crowded = RoundConstraints(N, include=range(6), include_after=9)
    assert FedSS(6, groups=groups, constraints=crowded).select(a_round()).clients.tolist() == list(range(6))
    with pytest.raises(ConfigError, match="stated over 20 clients; there are 4"):
        FedSS(2, groups=[0, 0, 1, 1], constraints=crowded)


def test_methods_that_do_not_keep_constraints_are_refused():
    constraints = RoundConstraints(N, exclude=[0])
    with pytest.raises(ConfigError, match=r"method 'fed-cbs' does not keep side constraints; choose one .*'auto'"):
        FedCBS(M, label_counts=np.ones((N, 2), dtype=int), constraints=constraints)
    with pytest.raises(ConfigError, match="'stochastic-greedy' does not keep"):
        DivFL(M, importance=np.full(N, 1 / N), features=np.eye(N), method="stochastic-greedy", constraints=constraints)
    with pytest.raises(ConfigError, match="stated over 20 clients; there are 3"):
        FedCBS(1, label_counts=np.ones((3, 2), dtype=int), method="auto", constraints=constraints)
