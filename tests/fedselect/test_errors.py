"""What the toolkit does not accept is one sentence, whichever package says so."""

from __future__ import annotations

import sys

import pytest

from fedselect import cli
from solvers.errors import is_out_of_memory


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
