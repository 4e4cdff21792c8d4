"""What a run holds does not grow with its rounds."""

from __future__ import annotations

import gc
import sys
from types import FunctionType, ModuleType

import pytest

torch = pytest.importorskip("torch")

from fedselect.availability import AVAILABILITY  # noqa: E402
from fedselect.data import digits  # noqa: E402
from fedselect.rounds.scenario import Scenario  # noqa: E402
from fedselect.selectors import SELECTORS, Uniform  # noqa: E402
from fedselect.training.fedavg import FedAvg  # noqa: E402
from fedselect.training.screen import Screen  # noqa: E402
from fedselect.training.settings import TrainingSettings  # noqa: E402


def held(thing):
    """Count the objects that are reached from one, and their bytes.

    Not modules and classes, nor norms of updates, which are counted by size classes, and fill them in time.
    """
    seen, rest, size = {}, [thing], 0
    while rest:
        each = rest.pop()
        if id(each) in seen or isinstance(each, (ModuleType, type, Screen)):
            continue
        seen[id(each)] = each
        size += sys.getsizeof(each)
        if isinstance(each, torch.Tensor):
            size += each.numel() * each.element_size()
        inside = isinstance(each, FunctionType)
        rest += [cell.cell_contents for cell in each.__closure__ or ()] if inside else gc.get_referents(each)
    return len(seen), size


class Hoards(Uniform):
    """Keeps a number of each round."""

    def __init__(self, size):
        super().__init__(size)
        self.kept = []

    def update(self, feedback):
        self.kept.append(float(feedback.round))


def growth(name):
    """Objects and bytes that thirty rounds add after the first ten, in which every client is met."""
    federation = digits(n_clients=8)
    there = AVAILABILITY.build("ideal", federation, 0)
    world = Scenario(federation.sizes, there, size=4, rounds=40, data=federation)
    selector = Hoards(4) if name is None else SELECTORS.build(name, world)
    loop, found = FedAvg.within(world, selector, settings=TrainingSettings(local_steps=1)), []
    for rounds in (10, 30):
        for _ in range(rounds):
            loop.step(evaluate=False)
        found.append(held(loop))
    (objects, size), (later, larger) = found
    assert size > 500_000  # samples, at least
    return later - objects, larger - size


@pytest.mark.parametrize("name", ["uniform", "divfl", "fedgs", "oort", "fedau"])
def test_a_loop_holds_no_more_after_forty_rounds_than_after_ten(name):
    objects, size = growth(name)
    assert objects < 15
    assert size < 600


def test_a_selector_that_keeps_rounds_is_seen():
    objects, size = growth(None)
    assert objects >= 30
    assert size >= 900
