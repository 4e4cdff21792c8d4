"""The recipes and the library belong together."""

from __future__ import annotations

import numpy as np
import pytest

import letters  # noqa: F401  (registers the data set of one recipe)
from fedselect.errors import ConfigError
from fedselect.recording import recipe, recipes
from solvers import instances
from solvers.capping import CappingProblem
from solvers.instances import digest
from tests.thoroughly import few_of

SMALL = [
    name
    for each in recipes()
    if each.tables["data"].get("n_clients", 100) <= 100 and not each.train
    for name in each.instances()
]


def test_every_instance_has_one_recipe_and_every_recipe_its_instances():
    made = [name for each in recipes() for name in each.instances()]
    assert sorted(made) == instances.names()
    with pytest.raises(ConfigError, match="no recipe for an instance 'nothing-r1'"):
        recipe("nothing-r1")


#: Rounds under side constraints are recorded by the same code: one in every run, and so on all profiles of CI.
CONSTRAINED = [name for name in SMALL if name.startswith("constrained-")]


@pytest.mark.parametrize("name", [*(name for name in SMALL if name not in CONSTRAINED), *few_of(CONSTRAINED[::-1], 1)])
def test_recording_again_gives_the_same_problem(name):
    """FedGS's and FedAU's to the bit, on every processor; E3CS's, whose weights NumPy's exponential makes, to 1e-12."""
    ((again, problem),) = recipe(name).record(only=name)
    assert again == name
    if isinstance(problem, CappingProblem):
        shipped = instances.load(name)
        np.testing.assert_allclose(problem.log_weights, shipped.log_weights, rtol=1e-12)
        assert (problem.size, problem.floor) == (shipped.size, shipped.floor)
    else:
        assert digest(problem) == instances.info(name).digest


@pytest.mark.parametrize(
    "name",
    [
        "cafed-clustered-n24-r50",
        "fedss-clustered-n24-m6-groups4-r12",
        pytest.param("cafed-digits-twolabel-n100-authors-r20", marks=pytest.mark.thorough),
    ],
)
def test_recording_again_with_training_gives_the_same_problem(name):
    """To 1e-3: PyTorch's kernels differ between processors, and rounds of training carry the difference on."""
    pytest.importorskip("torch")
    ((_, problem),) = recipe(name).record(only=name)
    shipped = instances.load(name)
    fields = ("loss_gaps", "importance") if hasattr(shipped, "loss_gaps") else ("sizes", "deviations", "upper")
    for field in fields:
        np.testing.assert_allclose(getattr(problem, field), getattr(shipped, field), rtol=1e-3, atol=1e-6)


def test_sources_say_where_an_instance_is_from():
    for each in recipes():
        for t, name in zip(each.rounds, each.instances(), strict=True):
            assert instances.info(name).source == each.source(t)
    source = instances.info("e3cs-digits-n300-m30-lognormal-r200").source
    assert source == (
        "E3CS Eqs. 17-23: round 200 of e3cs(quota=0.2); 30 a round; digits(n_clients=300); availability lognormal; "
        "returns deadline; seed 0"
    )
