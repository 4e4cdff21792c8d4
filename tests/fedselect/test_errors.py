"""What the toolkit does not accept is one sentence, whichever package says so."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from fedselect import cli
from fedselect.errors import TOOLKIT_ERRORS
from fedselect.experiments import Experiment
from fedselect.studies import study
from graphs import similarity
from solvers import solve
from solvers.capping import CappingProblem
from solvers.errors import is_out_of_memory


def no_features():
    similarity(np.ones(3))


def no_such_method():
    solve(CappingProblem(weights=[1.0, 2.0], size=1), "guess")


def no_such_option():
    Experiment.from_tables({"experiment": {"speed": 3}})


def reproduce(results, tmp_path, monkeypatch):
    """Call the command line for a study with these results."""
    monkeypatch.setattr(study, "load_study", lambda name: study.Study("About.", None, None, results))
    monkeypatch.setattr(sys, "argv", ["fedselect", "reproduce", "fedgs", "--out", str(tmp_path)])
    cli.main()


@pytest.mark.parametrize("mistake", [no_features, no_such_method, no_such_option])
def test_a_study_ends_with_a_sentence(mistake, tmp_path, monkeypatch, capsys):
    with pytest.raises(TOOLKIT_ERRORS) as raised:
        mistake()
    with pytest.raises(SystemExit) as end:
        reproduce(lambda setup: mistake(), tmp_path, monkeypatch)
    assert end.value.code == 2
    assert capsys.readouterr().err == f"fedselect: {raised.value}\n"


def test_a_bug_is_not_dressed_up_as_a_mistake_of_the_caller(tmp_path, monkeypatch):
    with pytest.raises(ZeroDivisionError):
        reproduce(lambda setup: 1 // 0, tmp_path, monkeypatch)


@pytest.mark.parametrize("choice", ["selector.graph=guess", "selector.method=guess", "selector.guess=1"])
def test_the_command_line_ends_with_a_sentence(choice, tmp_path, monkeypatch, capsys):
    """The graphs' error, the solvers' and fedselect's own."""
    pytest.importorskip("torch")
    config = tmp_path / "a.toml"
    config.write_text(
        '[experiment]\nname = "a"\nrounds = 1\nclients_per_round = 2\n[data]\nname = "digits"\nn_clients = 6\n'
        '[selector]\nname = "fedgs"\n'
    )
    monkeypatch.setattr(sys, "argv", ["fedselect", "run", str(config), "-c", choice, "--out", str(tmp_path / "out")])
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == 2
    sentence = capsys.readouterr().err
    assert sentence.startswith("fedselect: ")
    assert "guess" in sentence
    assert "Traceback" not in sentence


def test_shortage_of_memory_is_found_behind_other_errors():
    error = ValueError("no array")
    assert not is_out_of_memory(error)
    assert not is_out_of_memory(None)
    error.__cause__ = MemoryError()
    assert is_out_of_memory(error)
