"""The recipes and the library belong together, and the maintenance of one by the other only ever improves it."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import numpy as np
import pytest

from fedselect.errors import ConfigError
from fedselect.recording import maintain as maintenance
from fedselect.recording import recipe, recipes
from solvers import instances
from solvers.capping import CappingProblem
from solvers.certificates import Certificate, check
from solvers.instances import digest
from solvers.instances.library import unpack
from tests.thoroughly import few_of

SMALL = [
    name
    for each in recipes()
    if each.experiment.data.options.get("n_clients", 100) <= 100 and not each.train
    for name in each.instances()
]


def test_every_instance_has_one_recipe_and_every_recipe_its_instances():
    made = [name for each in recipes() for name in each.instances()]
    assert sorted(made) == instances.names()
    with pytest.raises(ConfigError, match="no recipe for an instance 'nothing-r1'"):
        recipe("nothing-r1")


#: Rounds under side constraints are recorded by the same code: a few every day.
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


NAMES = ["fedgs-digits-twolabel-n30-m5-lognormal-r10", "fedau-cutoff-digits-n30-t200-r0"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty library, and two recipes."""
    (tmp_path / "index.json").write_text("[]")
    monkeypatch.setattr(maintenance, "recipes", lambda: tuple(recipe(name) for name in NAMES))
    return tmp_path


def index(folder):
    return {entry["name"]: entry for entry in json.loads((folder / "index.json").read_text())}


def test_a_library_is_made_from_nothing_as_it_is_shipped(folder):
    made = maintenance.maintain(folder, seconds=20.0)
    assert [each.name for each in made] == NAMES
    for each in made:
        shipped = instances.info(each.name)
        assert each.proved
        assert (each.digest, each.source, each.command) == (shipped.digest, shipped.source, shipped.command)
        problem, best = unpack((folder / "data" / f"{each.name}.xz").read_bytes(), each.name)
        assert problem.objective(best) == each.best_known
    assert index(folder) == {each.name: asdict(each) for each in made}


def test_what_is_known_only_improves(folder):
    """A good value stays when a later method is worse; a better bound and a better value are taken."""
    name = NAMES[0]
    maintenance.maintain(folder, [name], ["random"], 0.05)
    weak = index(folder)[name]
    assert weak["bound"] is None
    assert not weak["proved"]
    maintenance.maintain(folder, [name], ["tabu"], 1.0, unproved=True)
    better = index(folder)[name]
    assert better["best_known"] >= weak["best_known"]
    maintenance.maintain(folder, [name], ["random"], 0.05, unproved=True)
    assert index(folder)[name]["best_known"] == better["best_known"]
    maintenance.maintain(folder, [name], ["branch-and-bound"], 20.0, unproved=True)
    done = index(folder)[name]
    assert done["proved"]
    assert "branch-and-bound" in done["method"]


def test_instances_without_a_recipe_go(folder, monkeypatch):
    maintenance.maintain(folder, seconds=5.0)
    monkeypatch.setattr(maintenance, "recipes", lambda: (recipe(NAMES[1]),))
    maintenance.maintain(folder)
    assert set(index(folder)) == {NAMES[1]}
    assert [path.stem for path in (folder / "data").iterdir()] == [NAMES[1]]


def test_a_changed_recipe_is_recorded_anew_on_request(folder, monkeypatch):
    maintenance.maintain(folder, seconds=5.0)
    before = index(folder)[NAMES[1]]
    changed = recipe(NAMES[1])
    longer = replace(changed, experiment=replace(changed.experiment, rounds=400))
    monkeypatch.setattr(maintenance, "recipes", lambda: (recipe(NAMES[0]), longer))
    maintenance.maintain(folder, seconds=5.0)
    assert index(folder)[NAMES[1]] == before
    maintenance.maintain(folder, seconds=5.0, again=True)
    after = index(folder)[NAMES[1]]
    assert after["digest"] != before["digest"]
    assert after["proved"]
    assert after["best_known"] < before["best_known"]  # ln T / T is smaller


def test_the_ledger_is_written_with_certificates_that_check(tmp_path):
    """Of the instances that are named, made again: the file of the certificate, and what it proves in the ledger."""
    name = "cafed-clustered-n24-r50"
    maintenance.enter(tmp_path, [name], 20.0, who="nobody", again=True)
    rows = {row["name"]: row for row in json.loads((tmp_path / "ledger.json").read_text())}
    found = Certificate.load(tmp_path / "certificates" / f"{name}.npz")
    assert check(instances.load(name), found) == rows[name]["certified"]
    assert rows[name]["value"]["who"] == "fedselect"  # what was found first stays with the finder
    assert set(rows) == set(instances.names())
