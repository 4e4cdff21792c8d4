"""Studies as scripts: their command line, where their tables come from, their errors."""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from matplotlib.figure import Figure

from fedselect.errors import TOOLKIT_ERRORS
from fedselect.experiments import Experiment
from graphs import similarity
from solvers import solve
from solvers.capping import CappingProblem
from study import Picture, Setup, Study, Table, main

ROOT = Path(__file__).parents[3]
SCRIPTS = sorted(path for path in (ROOT / "examples" / "studies").glob("*.py") if "\nSTUDY = " in path.read_text())


def study_of(results):
    return Study("About.\n\nMore.", "few", "many", results, ("digits", "mnist"))


def test_hands_the_settings_on_and_says_where_tables_come_from(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    seen, tables = [], tmp_path / "studies" / "test_main" / "paper-digits"
    arguments = ["--paper", "--dataset", "digits", "--jobs", "3"]
    main(study_of(lambda setup: seen.append(setup) or []), arguments)
    assert seen == [Setup("many", "digits", Path("data"), Path("studies/test_main/paper-digits"), 3)]
    written = json.loads((tables / "provenance.json").read_text())
    assert written["command"] == "python examples/studies/test_main.py --paper --dataset digits --jobs 3"
    assert written["machine"]["cores"] >= 1
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", written["date"])
    assert written["versions"]["numpy"]
    # Called again, as after an interruption: the seconds are those of both calls.
    (tables / "provenance.json").write_text(json.dumps(written | {"seconds": 1000.0}))
    main(study_of(lambda setup: []), arguments)
    assert json.loads((tables / "provenance.json").read_text())["seconds"] >= 1000


def test_a_plan_of_its_own_is_another_scale_in_another_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    seen = []

    def results(setup):
        seen.append(setup)
        yield Table(pd.DataFrame({"a": [1]}), file="table")

    study = study_of(results)._replace(plans={"a-corner": "corner"})
    main(study, ["--plan", "a-corner", "--gallery", "gallery"])
    main(study, [])
    assert [(setup.scale, setup.out.name) for setup in seen] == [("corner", "a-corner-digits"), ("few", "quick-digits")]
    assert Path("gallery/test_main_a_corner_table.csv").exists()
    with pytest.raises(SystemExit, match="2"):
        main(study, ["--plan", "another"])


def test_a_gallery_has_figures_and_short_tables_and_says_where_they_are_from(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def results(setup):
        yield Table(pd.DataFrame({"a": [1]}), file="table-1")
        yield Table(pd.DataFrame({"a": [1] * 201}), file="results")
        yield Picture(Figure(figsize=(1, 1)), "counts")

    for arguments in (["--dataset", "mnist"], [], []):
        main(study_of(results), [*arguments, "--gallery", "gallery"])
    labels = ["test_main", "test_main_mnist"]
    copies = {f"{label}_{name}" for label in labels for name in ("table_1.csv", "counts.png")}
    assert {file.name for file in Path("gallery").iterdir()} == copies | {"provenance.csv"}
    rows = pd.read_csv("gallery/provenance.csv")
    assert rows["study"].tolist() == labels
    assert rows["command"].str.startswith("python examples/studies/test_main.py").all()


def test_every_study_can_be_loaded_and_says_what_it_shows():
    assert len(SCRIPTS) == 18
    for path in SCRIPTS:
        study = importlib.import_module(path.stem).STUDY
        assert study.about.partition("\n")[0]
        assert len(set(study.datasets)) == len(study.datasets) > 0
        assert type(study.quick) is type(study.paper)
        assert study.quick != study.paper
        assert path.read_text().endswith('\n\nif __name__ == "__main__":\n    main(STUDY)\n')


@pytest.mark.thorough
def test_a_script_runs_its_parts_in_workers(tmp_path):
    """By processes that load what the script defines, or registers; a small study beside the frame it imports."""
    (tmp_path / "own_rule.py").write_text(
        "from fedselect.training.server_rules import SERVER_RULES\n"
        "@SERVER_RULES.register('squarer')\ndef squarer(settings):\n    raise NotImplementedError\n"
    )
    script = tmp_path / "small.py"
    script.write_text(
        "from dataclasses import dataclass\nimport own_rule, pandas as pd\nfrom study import Study, Table, main\n"
        "from fedselect.training.server_rules import SERVER_RULES\n"
        "@dataclass(frozen=True)\nclass Scale:\n    most: int\n"
        "def squares(scale, n):\n    assert 'squarer' in SERVER_RULES.names\n"
        "    return pd.DataFrame({'square': [min(n * n, scale.most)]})\n"
        "def results(setup):\n    plan = {(n,): (setup.scale, n) for n in (2, 3)}\n"
        "    yield Table(pd.concat(setup.parts('squares', squares, plan).values()), file='squares')\n"
        "STUDY = Study('About.', Scale(8), Scale(9), results)\n"
        'if __name__ == "__main__":\n    main(STUDY)\n'
    )
    path = os.pathsep.join([str(ROOT), str(ROOT / "examples" / "studies")])
    done = subprocess.run(
        [sys.executable, script], cwd=tmp_path, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    squares = pd.read_csv(tmp_path / "studies" / "small" / "quick-digits" / "squares.csv")
    assert squares["square"].tolist() == [4, 8]


@pytest.mark.parametrize("bad", [["--jobs", "two"], ["--nothing"], ["--dataset", "cifar10"]])
def test_arguments_that_are_not_accepted_end_the_command(bad, capsys):
    with pytest.raises(SystemExit) as end:
        main(study_of(lambda setup: []), bad)
    assert end.value.code == 2
    assert bad[0] in capsys.readouterr().err


@pytest.mark.parametrize(
    "mistake",
    [
        lambda setup: similarity([1.0, 1.0, 1.0]),
        lambda setup: solve(CappingProblem(weights=[1.0, 2.0], size=1), "guess"),
        lambda setup: Experiment.from_tables({"experiment": {"speed": 3}}),
    ],
    ids=["graphs", "solvers", "fedselect"],
)
def test_a_study_ends_with_a_sentence(mistake, tmp_path, capsys):
    """Whichever package says so."""
    with pytest.raises(TOOLKIT_ERRORS) as raised:
        mistake(None)
    with pytest.raises(SystemExit) as end:
        main(study_of(mistake), ["--out", str(tmp_path)])
    assert end.value.code == 2
    assert capsys.readouterr().err == f"test_main.py: {raised.value}\n"


def test_a_bug_is_not_dressed_up_as_a_mistake_of_the_caller(tmp_path):
    with pytest.raises(ZeroDivisionError):
        main(study_of(lambda setup: 1 // 0), ["--out", str(tmp_path)])
