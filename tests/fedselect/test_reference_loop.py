"""The product's loop beside the reference of eighty lines: the same decisions, the same models within rounding."""

from __future__ import annotations

import numpy as np
import pytest

from fedselect.availability import AVAILABILITY, DROPOUT
from fedselect.data import digits
from fedselect.rounds import Scenario
from fedselect.selectors import SELECTORS
from fedselect.training.models import build_model
from fedselect.training.settings import TrainingSettings

pytest.importorskip("torch")
from fedselect.training.fedavg import FedAvg
from tests.reference_loop import ReferenceLoop
from tests.thoroughly import few_of

ROUNDS = 20


@pytest.fixture(scope="module")
def federation():
    return digits(n_clients=60)


def scenario(federation, availability):
    world = AVAILABILITY.build(availability, federation, 5), DROPOUT.build("bernoulli", len(federation), 5, rate=0.1)
    return Scenario(federation.sizes, *world, 5, None, size=6, rounds=ROUNDS, data=federation)


@pytest.mark.parametrize("batching", few_of(["auto", "never"], 1))
@pytest.mark.parametrize(
    ("name", "availability"),
    [
        ("uniform", "lognormal"),
        ("fedgs", "lognormal"),
        ("ca-fed", "markov"),
        ("fedau", "lognormal"),
        ("e3cs", "lognormal"),
        ("fedss", "lognormal"),
    ],
)
def test_the_loop_equals_the_reference(federation, name, availability, batching):
    """Selections, weights, outcomes to the bit in every round; losses within single precision's rounding."""
    settings = TrainingSettings(batching=batching)
    ours, plain = scenario(federation, availability), scenario(federation, availability)
    loop = FedAvg.within(ours, SELECTORS.build(name, ours), settings=settings)
    reference = ReferenceLoop(plain, SELECTORS.build(name, plain), build_model(None, federation, settings, 5))
    back = 0
    for _ in range(ROUNDS):
        done, told = loop.step(), reference.step()
        np.testing.assert_array_equal(done.selection.clients, told["selection"].clients)
        np.testing.assert_array_equal(done.outcomes, told["outcomes"])
        np.testing.assert_allclose(done.selection.weights, told["selection"].weights, rtol=1e-6)
        assert done.loss == pytest.approx(told["loss"], abs=1e-6)
        back += done.selection.clients.size
    np.testing.assert_allclose(loop.weights, reference.weights.numpy(), atol=1e-5)
    assert back > ROUNDS
