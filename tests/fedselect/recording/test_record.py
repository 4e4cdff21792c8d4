"""Recording: the problem that is kept is the one the selector solved, and recording again gives the same bits."""

from __future__ import annotations

import numpy as np
import pytest

from fedselect.errors import ConfigError
from fedselect.experiments import Choice, Experiment, build_scenario
from fedselect.recording import record
from fedselect.rounds.engine import simulate
from fedselect.rounds.protocol import EndOfRun
from fedselect.selectors import SELECTORS
from solvers.allocation import AllocationProblem
from solvers.capping import CappingProblem
from solvers.dispersion import DispersionProblem
from solvers.instances import digest
from solvers.participation import CutoffProblem
from solvers.weighting import ExclusionProblem, OptimizationErrorProblem, TotalErrorProblem


def experiment(selector="fedgs", clients=12, rounds=30, size=3, **sections):
    options = {"method": "local-search"} if selector == "fedgs" else {}
    sections = {"selector": Choice(selector, options), "data": Choice("digits", {"n_clients": clients})} | sections
    return Experiment(rounds=rounds, clients_per_round=size, **sections)


def test_fedgs_counts_are_those_of_the_rounds_before():
    """The recorded costs, by Eq. 14's z, are those of the counts that a simulation of its own ends with."""
    setting = experiment(availability=Choice("lognormal"))
    (t, problem), *_ = record(setting, [6])
    assert t == 6
    scenario = build_scenario(setting)
    selector = SELECTORS.build("fedgs", scenario, method="local-search")
    for _ in simulate(selector, scenario.availability, sizes=scenario.federation.sizes, rounds=6, time_limit=5.0):
        pass
    there = scenario.availability.available(6)
    again = DispersionProblem.fedgs(selector.distances, selector.counts, there, 3, 1.0, "turns")
    assert digest(problem) == digest(again)
    assert selector.counts.sum() > 0


@pytest.mark.parametrize(
    ("selector", "type_", "train"),
    [
        ("fedgs", DispersionProblem, False),
        ("e3cs", CappingProblem, False),
        ("fedss", AllocationProblem, True),
        ("ca-fed", ExclusionProblem, True),
    ],
)
def test_every_selector_that_solves_is_recorded_to_the_same_bits(selector, type_, train):
    if train:
        pytest.importorskip("torch")
    first, again = (list(record(experiment(selector, size=6), [4, 1], train=train)) for _ in range(2))
    assert [t for t, _ in first] == [1, 4]
    assert all(isinstance(problem, type_) for _, problem in first)
    assert [digest(problem) for _, problem in first] == [digest(problem) for _, problem in again]
    assert digest(first[0][1]) != digest(first[1][1])


def test_training_changes_nothing_for_a_selector_that_does_not_look_at_it():
    pytest.importorskip("torch")
    (_, plain), (_, trained) = (next(record(experiment(), [3], train=train)) for train in (False, True))
    assert digest(plain) == digest(trained)


def test_a_cutoff_problem_holds_the_true_rates():
    setting = experiment(rounds=500, availability=Choice("bernoulli", {"rate": 0.5}), dropout=Choice("bernoulli"))
    (_, problem) = next(record(setting, [0], problem="cutoff"))
    assert isinstance(problem, CutoffProblem)
    assert problem.horizon == 500
    np.testing.assert_allclose(problem.rates, 0.5 * 0.9)


def test_weight_problems_are_theorem_2s():
    pytest.importorskip("torch")
    setting = experiment(clients=10, rounds=20, availability=Choice("bernoulli", {"rate": 0.25}))
    (_, start), (_, later) = record(setting, [0, 5], train=True, problem="optimization-error")
    assert isinstance(start, OptimizationErrorProblem)
    eta = 0.1 * 0.998 ** np.arange(1, 21)
    assert start.total == pytest.approx(4.0)  # Σ α/π
    # B at the start is the chain's part alone: the model has not moved yet.
    chain = 0.25 * 2 * start.total * float((eta**2 + 1.0 / np.arange(1, 21) ** 2).sum())
    assert start.offset == pytest.approx(chain)
    assert later.offset > start.offset
    (_, chi2), (_, tv) = (
        next(record(setting, [5], train=True, problem="total-error", options={"bias": bias})) for bias in ("chi2", "tv")
    )
    assert isinstance(chi2, TotalErrorProblem)
    np.testing.assert_array_equal(chi2.variances, later.variances)
    assert tv.bias_weight == pytest.approx(4 * chi2.bias_weight)


def test_gradient_deviations_against_one_sample_at_a_time():
    torch = pytest.importorskip("torch")
    from fedselect.experiments import build
    from fedselect.recording.recorder import State
    from fedselect.training.models import MODELS

    setting = experiment(clients=10)
    scenario = build_scenario(setting)
    state = State(scenario, setting, build(setting, scenario))
    state.advance(2)
    model = MODELS.build("linear", scenario.federation)
    torch.nn.utils.vector_to_parameters(torch.from_numpy(state.trained.weights), model.parameters())
    samples = scenario.federation.datasets[3]
    gradients = []
    for x, y in zip(samples.features, samples.labels, strict=True):
        model.zero_grad()
        torch.nn.functional.cross_entropy(model(torch.from_numpy(x[None])), torch.tensor([y])).backward()
        gradients.append(torch.cat([p.grad.flatten() for p in model.parameters()]).double().numpy())
    expected = np.var(gradients, axis=0).sum() / min(10, len(samples))
    assert state.gradient_deviations()[3] ** 2 == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"rounds": [30]}, "rounds to record lie between 0 and 29"),
        ({"rounds": []}, "rounds to record lie between 0 and 29; got none"),
        ({"rounds": [1], "problem": "cutof"}, "did you mean 'cutoff'"),
        ({"rounds": [1], "options": {"bias": "tv"}}, "options are for a problem stated by name"),
        ({"rounds": [1], "problem": "optimization-error"}, "record it with training"),
        ({"rounds": [1], "problem": "total-error"}, "record it with training"),
    ],
)
def test_bad_requests_are_sentences(arguments, sentence):
    with pytest.raises(ConfigError, match=sentence):
        list(record(experiment(), **arguments))


def test_a_selector_without_a_problem_is_a_sentence():
    with pytest.raises(ConfigError, match="'uniform' has no problem in round 2: it solves none"):
        list(record(experiment("uniform"), [2]))


@pytest.mark.parametrize(
    ("how", "kept"), [({}, [1]), ({"train": True}, [1]), ({"train": True, "problem": "optimization-error"}, [1, 3])]
)
def test_a_round_that_is_never_played_is_a_sentence(scratch_registry, how, kept):
    """A problem of the whole federation is that at the start of its round, whether or not this is played."""
    if how:
        pytest.importorskip("torch")

    @SELECTORS.register("ends-at-3")
    def ends_at_3(scenario):
        selector = SELECTORS.build("fedgs", scenario, method="local-search")
        select = selector.select

        def until(round):
            if round.round >= 3:
                raise EndOfRun("it is enough")
            return select(round)

        selector.select = until
        return selector

    found = []
    with pytest.raises(ConfigError, match="'ends-at-3' ends the run after 3 rounds, so that there is no round"):
        found.extend(t for t, _ in record(experiment("ends-at-3"), [1, 3, 5], **how))
    assert found == kept
