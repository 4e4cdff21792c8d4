"""A finished run is never returned for other files, and for other code or versions with a warning; all are named."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np
import pytest

import fedselect
from fedselect.availability.trace import write_trace
from fedselect.errors import RunError
from fedselect.experiments import Choice, Experiment, compare, read_config, read_records, run, run_all, run_folder
from fedselect.experiments.provenance import Origin, code_digest, file_digest, read_origin
from fedselect.options import Registry
from fedselect.reports import read_report
from fedselect.selectors import SELECTORS
from tests.waiting import HANG

EXPERIMENT = Experiment("origin", rounds=2, clients_per_round=2, data=Choice("digits", {"n_clients": 8}))

PART = """
import numpy as np
from fedselect.rounds import Selection
from fedselect.selectors import SELECTORS
from my_keys import key

@SELECTORS.register("mine")
class Mine:
    def __init__(self, scenario):
        self.size = scenario.size

    def select(self, round):
        there = np.flatnonzero(round.available)
        best = np.sort(there[np.argsort(SIGN * key(there), kind="stable")][: self.size])
        return Selection(best, np.full(best.size, 1 / best.size))

    def update(self, feedback): pass
    def state_dict(self): return {}
    def load_state_dict(self, state): pass
"""


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """Registers a selector of one's own from the files ``my_parts.py`` and ``my_keys.py``: ``mine("+1")``."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def load(sign, keys="def key(clients): return clients\n"):
        (tmp_path / "my_parts.py").write_text(PART.replace("SIGN", sign))
        (tmp_path / "my_keys.py").write_text(keys)
        importlib.invalidate_caches()
        for name in ("my_keys", "my_parts"):
            sys.modules.pop(name, None)
        importlib.import_module("my_parts")
        return replace(EXPERIMENT, selector=Choice("mine"))

    yield load
    SELECTORS.discard("mine")
    for name in ("my_keys", "my_parts"):
        sys.modules.pop(name, None)


def selected(folder):
    return [record["selected"] for record in read_records(folder)]


@pytest.fixture(autouse=True)
def _torch():
    pytest.importorskip("torch")


def warnings_in(caplog):
    found = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    caplog.clear()
    return found


def test_other_code_of_ones_own_is_said_and_with_strict_refused(mine, tmp_path, caplog):
    first = run(mine("+1"), tmp_path / "runs", plots=False)
    assert selected(first) == [[0, 1]] * 2
    assert run(mine("+1"), tmp_path / "runs", strict=True) == first
    assert not warnings_in(caplog)
    changed = mine("-1")
    assert run(changed, tmp_path / "runs", plots=False) == first
    (warning,) = warnings_in(caplog)
    assert "holds a finished run of this configuration, which counts" in warning
    assert "the code of selector 'mine' (my_parts.py) has changed since (--fresh" in warning
    for refused in (
        lambda: run(changed, tmp_path / "runs", plots=False, strict=True),
        lambda: run_all([changed], tmp_path / "runs", plots=False, strict=True),
        lambda: compare(changed, {"mine": Choice("mine")}, [0], tmp_path / "runs", strict=True),
    ):
        with pytest.raises(
            RunError, match=r"a finished run.*code of selector 'mine' \(my_parts.py\) has changed.*--fresh"
        ):
            refused()
    fresh = run(changed, tmp_path / "runs", plots=False, fresh=True)
    assert (fresh.name, selected(fresh)) == (first.name + "-2", [[6, 7]] * 2)
    assert run(changed, tmp_path / "runs") == run_folder(changed, tmp_path / "runs") == fresh
    assert run(mine("+1"), tmp_path / "runs") == first
    assert not warnings_in(caplog)


def test_a_comparison_warns_of_each_folder_once(mine, tmp_path, caplog):
    compare(mine("+1"), {"mine": Choice("mine")}, [0, 1], tmp_path)
    compare(mine("-1"), {"mine": Choice("mine")}, [0, 1], tmp_path)
    assert len(warnings_in(caplog)) == 2


def test_another_trace_in_the_same_file_is_not_the_same_run(tmp_path, monkeypatch):
    path, there = tmp_path / "trace.csv", np.zeros((2, 8), dtype=bool)
    there[:, :3] = True
    write_trace(path, there)
    experiment = replace(EXPERIMENT, availability=Choice("trace", {"path": str(path)}))
    first = run(experiment, tmp_path / "runs", plots=False)
    write_trace(path, there[:, ::-1])
    with pytest.raises(RunError, match=r"trace.csv has changed since"):
        run(experiment, tmp_path / "runs")
    fresh = run(experiment, tmp_path / "runs", plots=False, fresh=True)
    assert set(chain(*selected(first))) <= {0, 1, 2}
    assert set(chain(*selected(fresh))) <= {5, 6, 7}
    write_trace(path, there)
    assert run(experiment, tmp_path / "runs") == first


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    pytest.importorskip("torch")
    out = tmp_path_factory.mktemp("finished")
    return out, run(EXPERIMENT, out, plots=False)


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        ("numpy", "1.0", "it was made with numpy 1.0, and here is "),
        ("python", "3.2.1", "it was made with python 3.2.1, and here is "),
        ("commit", "0123456789ab-dirty", "it was made with commit 0123456789ab-dirty, and here is "),
    ],
)
def test_another_environment_is_named(finished, key, value, sentence, caplog):
    out, folder = finished
    before = (folder / "origin.json").read_text()
    origin = json.loads(before)
    if key not in origin["versions"]:
        pytest.skip("this is no checkout")
    origin["versions"][key] = value
    (folder / "origin.json").write_text(json.dumps(origin))
    try:
        assert run(EXPERIMENT, out) == folder
        (warning,) = warnings_in(caplog)
        assert sentence in warning
        with pytest.raises(RunError, match=sentence):
            run(EXPERIMENT, out, strict=True)
    finally:
        (folder / "origin.json").write_text(before)
    assert run(EXPERIMENT, out, strict=True) == folder
    assert not warnings_in(caplog)


def test_what_changed_before_a_run_was_continued_stands_in_its_folder(tmp_path, caplog):
    def stop(record):
        if record["round"] == 0:
            raise StopIteration

    folder = run(EXPERIMENT, tmp_path, plots=False, callbacks=[stop])
    origin = json.loads((folder / "origin.json").read_text())
    origin["versions"]["numpy"], origin["processor"] = "1.0", "another"
    (folder / "origin.json").write_text(json.dumps(origin))
    assert run(EXPERIMENT, tmp_path, plots=False) == folder
    assert "holds a run that was stopped" in warnings_in(caplog)[0]
    (change,) = read_origin(folder).changes
    assert change.startswith("from round 2 on: it was made with numpy 1.0, and here is ")
    assert "begun on another processor (another)" in change
    assert read_report(folder).notes == (f"The run was continued: {change}.",)


@pytest.mark.parametrize("text", ["[]", "{", '{"format": "run-origin/2", "colour": 1}', '{"format": "other"}'])
def test_a_damaged_origin_is_a_sentence(finished, text):
    out, folder = finished
    before = (folder / "origin.json").read_text()
    (folder / "origin.json").write_text(text)
    try:
        with pytest.raises(RunError, match=r"cannot read .*origin.json"):
            run(EXPERIMENT, out)
    finally:
        (folder / "origin.json").write_text(before)


def test_a_run_without_its_provenance_is_read_and_never_taken_for_this_one(finished, tmp_path):
    """Run folders of before version 0.1 had no origin.json; nothing says what they were made of."""
    shutil.copytree(finished[0], tmp_path, dirs_exist_ok=True)
    folder = run_folder(EXPERIMENT, tmp_path)
    (folder / "origin.json").unlink()
    for state in ("a finished run", "a run that was stopped"):
        with pytest.raises(
            RunError, match=rf"holds {state} .*, but it has no origin.json, the record of its prov.*--fresh"
        ):
            run(EXPERIMENT, tmp_path, plots=False)
        assert len(selected(folder)) == 2
        (folder / "summary.json").unlink(missing_ok=True)
    assert run(EXPERIMENT, tmp_path, plots=False, fresh=True).name == f"{folder.name}-2"


def test_a_folder_of_another_configuration_is_refused(finished, tmp_path):
    shutil.copytree(finished[0], tmp_path, dirs_exist_ok=True)
    folder = run_folder(EXPERIMENT, tmp_path)
    (folder / "summary.json").unlink()
    config = (folder / "config.toml").read_text()
    assert "learning_rate = 0.1\n" in config
    (folder / "config.toml").write_text(config.replace("learning_rate = 0.1\n", "learning_rate = 0.2\n", 1))
    with pytest.raises(RunError, match="holds a run of another configuration"):
        run(EXPERIMENT, tmp_path, plots=False)


def test_only_a_stopped_run_is_bound_to_a_processor():
    before, now = Origin(processor="one"), Origin(processor="other")
    assert now.changed_since(before, finished=True) == ""
    assert "begun on another processor (one)" in now.changed_since(before, finished=False)


def test_packages_that_carry_a_run_may_change():
    before, now = (Origin(versions={"ray": v, "numpy": "2", "torch": v}) for v in "12")
    assert now.changed_since(before, finished=True) == "it was made with torch 1, and here is 2"
    assert not now.changed_since(replace(before, versions={"ray": "1", "numpy": "2", "gone": "1"}), finished=True)


# -- code ----------------------------------------------------------------------------------------------------------

SCRIPT = """
import json, pathlib
from fedselect.experiments.provenance import code_digest
class Part:
    def select(self): return 3
pathlib.Path("digest").write_text(code_digest(Part))
"""


@pytest.mark.thorough
def test_code_of_a_script_that_is_run_is_known_by_its_definition(tmp_path):
    """A picture that is drawn at the end of a script is no other run."""

    def digest(text):
        (tmp_path / "script.py").write_text(text)
        subprocess.run([sys.executable, "script.py"], cwd=tmp_path, env=environment, check=True, timeout=HANG)
        return (tmp_path / "digest").read_text()

    environment = os.environ | {"PYTHONPATH": str(Path(fedselect.__file__).parent.parent)}
    whole = digest(SCRIPT)
    assert len(whole) == 16
    assert digest(SCRIPT + "print('drawn')\n") == whole != digest(SCRIPT.replace("3", "4"))


def test_code_at_a_prompt_has_no_text():
    names = {"__name__": "__main__"}
    exec(compile("class Part: pass", "prompt", "exec"), names)
    assert code_digest(names["Part"]) == ""


# -- files ---------------------------------------------------------------------------------------------------------


def test_contents_of_files_and_folders(tmp_path):
    folder = tmp_path / "data"
    assert file_digest(folder) == "missing"
    (folder / "part").mkdir(parents=True)
    (folder / "part" / "a.txt").write_text("one")
    first = file_digest(folder)
    copy = tmp_path / "copy"
    (copy / "part").mkdir(parents=True)
    (copy / "part" / "a.txt").write_text("one")
    assert file_digest(copy) == first != file_digest(folder / "part")
    (folder / "part" / "a.txt").write_text("two")
    assert file_digest(folder) != first


def test_a_registry_knows_which_files_a_builder_reads():
    registry = Registry("data set")

    @registry.register("pictures", folder="Pictures")
    def pictures(*, root: str = "data", labels_file: str | None = None, clients: int = 3): ...

    assert [path.as_posix() for path in registry.files("pictures", {})] == ["data/Pictures"]
    registry.register("plain")(pictures)
    given = registry.files("plain", {"root": "x", "labels_file": "y.csv"})
    assert [path.as_posix() for path in given] == ["x", "y.csv"]


def test_files_are_looked_up_beside_the_configuration_that_names_them(tmp_path, monkeypatch):
    """And those of ``-c`` from the working directory; a run folder's configuration names the same file."""
    here, there = tmp_path / "here", tmp_path / "there"
    for folder, first in ((here, 5), (there, 0)):
        folder.mkdir()
        mask = np.zeros((2, 8), dtype=bool)
        mask[:, first : first + 3] = True
        write_trace(folder / "trace.csv", mask)
    (there / "run.toml").write_text(
        '[experiment]\nrounds = 2\nclients_per_round = 2\n[data]\nname = "digits"\nn_clients = 8\n'
        '[availability]\nname = "trace"\npath = "trace.csv"\n'
        '[compare.graph]\nname = "fedgs"\ndistances_file = "h.npy"\n'
    )
    monkeypatch.chdir(here)
    experiment, variants = read_config("../there/run.toml")
    assert variants["graph"]["distances_file"] == str(Path("../there/h.npy"))
    folder = run(experiment, tmp_path / "runs", plots=False)
    assert set(chain(*selected(folder))) <= {0, 1, 2}
    again, _ = read_config(folder / "config.toml")
    assert again.digest == experiment.digest
    assert run(again, tmp_path / "runs") == folder
    given, _ = read_config("../there/run.toml", ["availability.path=trace.csv"])
    assert set(chain(*selected(run(given, tmp_path / "runs", plots=False)))) <= {5, 6, 7}
    monkeypatch.chdir(there)
    assert read_config("run.toml")[0].availability.options == {"path": "trace.csv"}
