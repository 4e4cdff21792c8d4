"""One file with a selector, a model, a data set, an availability model and a solver method drives every command."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fedselect import plugins
from tests.waiting import HANG

PARTS = '''
"""Somebody's own parts."""
import numpy as np
from torch import nn
from fedselect.availability import AVAILABILITY
from fedselect.data import DATASETS, Federation
from fedselect.rounds import Selection
from fedselect.selectors import SELECTORS
from fedselect.training.models import MODELS
from solvers import method
from solvers.dispersion import DispersionProblem

LUCK = 3

class First:
    def __init__(self, size, least):
        self.size, self.least = size, least
    def select(self, round):
        clients = np.flatnonzero(round.available)[: self.size]
        return Selection(clients, np.full(clients.size, 1 / max(clients.size, self.least)))
    def update(self, feedback): ...
    def state_dict(self): return {}
    def load_state_dict(self, state): ...

@SELECTORS.register("first")
def first(scenario, *, least: int = 1):
    """Take the first of those who are there."""
    return First(scenario.size, least)

@MODELS.register("narrow")
def narrow(federation):
    """One layer, after batch normalisation."""
    return nn.Sequential(nn.Flatten(), nn.BatchNorm1d(5), nn.Linear(5, federation.classes))

@DATASETS.register("blobs")
def blobs(*, clients: int = 6, seed: int = 0):
    """Two classes that lie apart."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(2, size=(clients + 1, 24))
    pairs = list(zip(rng.normal(size=(clients + 1, 24, 5)) + 2 * labels[:, :, None], labels))
    return Federation.from_tensors(pairs[:-1], pairs[-1], classes=2, name="blobs")

class Every:
    def __init__(self, clients, step):
        self.clients, self.step = clients, step
    def available(self, round):
        return (np.arange(self.clients) + round) % self.step != 0

@AVAILABILITY.register("every-other")
def every_other(federation, seed, *, step: int = LUCK):
    """Who is not there this time is there the next."""
    return Every(len(federation), step)

@method(DispersionProblem, "leading", kind="heuristic")
def leading(problem, run):
    """The first of all."""
    x = np.zeros(problem.n, dtype=int)
    x[: problem.size] = 1
    return x
'''

CONFIG = """
load = ["my_parts.py"]

[experiment]
name = "own"
rounds = 3
clients_per_round = 2

[data]
name = "blobs"

[availability]
name = "every-other"

[selector]
name = "first"

[training]
model = "narrow"
local_steps = 2
batching = "auto"

[compare.mine]
name = "first"

[compare.fedgs]
name = "fedgs"
method = "leading"
"""


@pytest.fixture
def there(tmp_path, monkeypatch, forgetting):
    """A folder with the parts and a configuration that names them."""
    pytest.importorskip("torch")
    (tmp_path / "my_parts.py").write_text(PARTS)
    (tmp_path / "own.toml").write_text(CONFIG)
    (tmp_path / "plain.toml").write_text(CONFIG.replace('load = ["my_parts.py"]', ""))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _rounds(folder):
    lines = (Path(folder) / "rounds.jsonl").read_text().splitlines()
    return [
        (each["selected"], each["available"], each["weights"], each["loss"], each["accuracy"])
        for each in map(json.loads, lines)
    ]


def _npz(path):
    from solvers.dispersion import DispersionProblem

    points = np.random.default_rng(0).random((6, 2))
    DispersionProblem(np.linalg.norm(points[:, None] - points, axis=2), costs=np.zeros(6), size=2).save(path)


def test_run_and_the_folder_that_knows_where_its_parts_are(there, call):
    code, out, err = call("run", "own.toml", "--format", "json")
    assert code == 0, err
    folder = json.loads(out)["folder"]
    assert _rounds(folder)[0][:2] == ([1, 2], [1, 2, 4, 5])
    assert f'"{there}/my_parts.py"' in (Path(folder) / "config.toml").read_text()
    code, again, _ = call("run", Path(folder) / "config.toml", "--out", "again", "--format", "json")
    assert code == 0
    assert _rounds(json.loads(again)["folder"]) == _rounds(folder)
    code, loaded, _ = call("run", "plain.toml", "--load", "my_parts.py", "--format", "json")
    assert json.loads(loaded)["folder"] == folder  # the same run, found finished


def test_list_solve_bench_record_and_export_know_them(there, call):
    code, out, _ = call("list", "--load", "my_parts.py", "--format", "json")
    found = {(kind, each["name"]) for kind, entries in json.loads(out).items() for each in entries}
    wanted = {("selector", "first"), ("model", "narrow"), ("data set", "blobs"), ("availability", "every-other")}
    assert wanted | {("method for a DispersionProblem", "leading")} <= found
    _npz(there / "small.npz")
    code, out, _ = call("solve", "small.npz", "--method", "leading", "--load", "my_parts.py", "--format", "json")
    assert (code, json.loads(out)["selected"]) == (0, [0, 1])
    code, out, err = call(
        *("bench", "dispersion", "--instances", "small.npz", "--methods", "leading", "--jobs", "2"),
        *("--load", "my_parts.py", "--time-limit", "5", "--format", "json"),
    )
    assert code == 0, err
    assert [row["verdict"] for row in json.loads(out)["rows"]] == ["ok"]
    fedgs = ("-c", "selector.name=fedgs", "-c", "selector.method=leading")
    code, out, err = call(
        *("instances", "record", "plain.toml", "--rounds", "1", *fedgs, "--load", "my_parts.py", "--format", "json")
    )
    assert code == 0, err
    assert Path(json.loads(out)[0]["file"]).is_file()
    pytest.importorskip("flwr")
    code, out, err = call("export-flower", "plain.toml", "app", "--load", "my_parts.py")
    assert code == 0, err
    assert (there / "app/federation/my_parts.py").read_text() == PARTS
    assert 'load = [\n    "my_parts.py",\n]' in (there / "app/federation/config.toml").read_text()


def _compare(there, call, out, *more):
    code, _, err = call("compare", "own.toml", "--seeds", "0-1", "--selectors", "mine,fedgs", "--out", out, *more)
    assert code == 0, err
    return {path.parent.name: _rounds(path.parent) for path in (there / out).rglob("rounds.jsonl")}


@pytest.mark.thorough
def test_two_workers_come_to_the_same_as_one(there, call):
    serial = _compare(there, call, "serial")
    assert len(serial) == 4
    assert _compare(there, call, "two", "--jobs", "2") == serial


@pytest.mark.deployment
def test_ray_comes_to_the_same(there, call, monkeypatch):
    pytest.importorskip("ray")
    paths = os.pathsep.join(str(Path(part).resolve()) for part in sys.path if part)
    monkeypatch.setenv("PYTHONPATH", paths)
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    assert _compare(there, call, "ray", "--jobs", "2", "--backend", "ray") == _compare(there, call, "here")


@pytest.mark.deployment
def test_what_a_script_registers_on_the_way_reaches_workers(there):
    script = PARTS.replace('"""Somebody\'s own parts."""', "from __future__ import annotations") + (
        "\nfrom fedselect.experiments import Choice, Experiment, compare\n"
        "if __name__ == '__main__':\n"
        "    own = Experiment('s', 2, clients_per_round=2, data=Choice('blobs'), availability=Choice('every-other'))\n"
        "    found = compare(own, {'mine': Choice('first')}, [0, 1], 'script', jobs=2)\n"
        "    print(sum(len(each) for each in found.folders.values()))\n"
    )
    (there / "script.py").write_text(script)
    paths = os.pathsep.join(str(Path(part).resolve()) for part in sys.path if part)
    done = subprocess.run(
        [sys.executable, "script.py"],
        capture_output=True,
        text=True,
        timeout=HANG,
        cwd=there,
        env=os.environ | {"PYTHONPATH": paths},
    )
    assert done.stdout == "2\n", done.stderr[-3000:]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\n", r"parts.py registers no part: decorate one, with @SELECTORS.register\('my-selector'\) say"),
        ("import nowhere_to_be_found\n", "cannot load .*parts.py: line 1 of .*parts.py: ModuleNotFoundError: No mod"),
        ("def (:\n", "cannot load .*parts.py: line 1 of .*parts.py: invalid syntax"),
        (
            "from fedselect.selectors import SELECTORS\n@SELECTORS.register('uniform')\ndef mine(scenario): ...\n",
            "parts.py registers selector 'uniform', which there is already, from fedselect.selectors.sampling",
        ),
        (
            "from solvers import method\nfrom solvers.dispersion import DispersionProblem\n"
            "@method(DispersionProblem, 'auto', kind='heuristic')\ndef mine(problem, run): ...\n",
            "registers method for a DispersionProblem 'auto', which there is already",
        ),
    ],
)
def test_what_cannot_be_loaded_is_a_sentence_and_changes_nothing(there, call, text, message):
    before = plugins._registered()
    (there / "parts.py").write_text(text)
    code, _, err = call("list", "--load", "parts.py")
    assert code == 2
    loading_it, sentence = err.strip().splitlines()
    assert loading_it == f"fedselect: loading {there / 'parts.py'}, which executes it"
    assert re.search(message, sentence), err
    after = plugins._registered()
    assert all(after[key] == before[key] for key in before)


def test_a_name_that_another_file_has_and_a_file_named_twice(there, call):
    assert call("list", "--load", "my_parts.py")[0] == 0
    (there / "other.py").write_text(PARTS)
    code, _, err = call("list", "--load", "other.py")
    assert code == 2
    assert f"other.py registers selector 'first', which there is already, from {there}/my_parts.py; rename it" in err
    assert (
        "my_parts.py is loaded twice; name it once" in call("list", "--load", "my_parts.py", "--load", "my_parts.py")[2]
    )
    assert "is loaded twice: the configuration names it" in call("run", "own.toml", "--load", "my_parts.py")[2]
    assert "there is no script nowhere.py" in call("list", "--load", "nowhere.py")[2]


def test_the_folder_beside_which_scripts_lie_may_be_a_text(tmp_path):
    assert plugins.find_sources(["a.py"], str(tmp_path)) == {str(tmp_path.resolve() / "a.py"): "a.py"}
    assert plugins.find_sources(["a.py"], tmp_path) == plugins.find_sources(["a.py"], str(tmp_path))


def test_a_class_of_a_module_by_its_name(there, call):
    (there / "my_module_of_parts.py").write_text(
        "from torch import nn\nclass Net(nn.Sequential):\n    def __init__(self):\n"
        "        super().__init__(nn.Flatten(), nn.Linear(64, 10))\nclass Other: ...\n"
    )
    (there / "net.toml").write_text(
        "[experiment]\nrounds = 1\nclients_per_round = 2\n[data]\nname = 'digits'\nn_clients = 4\n"
        "[training]\nmodel = 'Net'\n"
    )
    code, _, err = call("run", "net.toml", "--load", "my_module_of_parts:Net")
    assert code == 0, err
    assert "has no 'Nett'; did you mean 'Net'?" in call("list", "--load", "my_module_of_parts:Nett")[2]
    assert (
        "Other is neither a torch.nn.Module nor a class with select"
        in call("list", "--load", "my_module_of_parts:Other")[2]
    )


def test_what_cannot_be_sent_to_a_worker_names_the_part(there):
    import threading

    from fedselect.errors import ConfigError
    from fedselect.experiments import Choice, Experiment, run_all
    from fedselect.selectors import SELECTORS

    lock = threading.Lock()

    def held(scenario):
        with lock:
            return None

    SELECTORS.register("held")(held)
    held.__module__ = "__main__"
    try:
        with pytest.raises(ConfigError, match=r"selector 'held' .* cannot be sent to a worker: .*lock"):
            run_all([Experiment(selector=Choice("held"))], there, jobs=2)
    finally:
        SELECTORS.discard("held")
