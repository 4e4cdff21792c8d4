"""``fedselect list`` at 80 columns: whole names, options with defaults, a filter; and objects in a line."""

from __future__ import annotations

import json

import pytest

from fedselect.cli import command
from fedselect.errors import ConfigError
from fedselect.experiments import Choice, Experiment, build, build_scenario, build_selector
from fedselect.selectors import SELECTORS


@pytest.fixture
def narrow(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")


def test_everything_fits_and_no_name_is_cut(call, narrow):
    code, out, _ = call("list")
    lines = out.splitlines()
    assert code == 0
    assert max(map(len, lines)) <= 80
    assert {f"  {name}" for name in SELECTORS.names} <= set(lines)
    assert ":math:" not in out
    assert "`" not in out


def test_a_kind_or_a_part_of_a_name(call, narrow):
    assert call("list", "selectors")[1].splitlines()[0] == "selector"
    assert "partition" not in call("list", "selectors")[1].splitlines()
    _, out, _ = call("list", "fedgs")
    assert [line.strip() for line in out.splitlines() if line[:2] == "  " and line[2] != " "] == ["fedgs"]
    assert "alpha = 1.0" in out
    assert "distances_file = none" in out
    assert set(json.loads(call("list", "methods", "--format", "json")[1])) == {
        kind for kind in json.loads(call("list", "--format", "json")[1]) if kind.startswith("method")
    }
    assert json.loads(call("list", "fedgs", "--format", "json")[1])["selector"][0]["defaults"]["alpha"] == 1.0
    code, _, err = call("list", "fedgz")
    assert (code, err) == (2, "fedselect: there is no kind and no name 'fedgz'; did you mean 'fedgs'?\n")


def test_a_comparison_shows_whole_names(call, narrow, tmp_path):
    pytest.importorskip("torch")
    label = "uniform-under-a-name-of-fifty-characters-altogether"
    (tmp_path / "a.toml").write_text(
        '[experiment]\nrounds = 1\nclients_per_round = 2\n[data]\nname = "digits"\nn_clients = 4\n'
        f'[compare.{label}]\nname = "uniform"\n'
    )
    arguments = ("compare", tmp_path / "a.toml", "--seeds", "0", "--out", tmp_path / "runs")
    _, out, _ = call(*arguments)
    assert "\u2026" not in out
    assert max(len(line) for line in out.splitlines() if line[0] in "┏┃└│") <= 80
    assert label in "".join(line.split("\u2502")[1].strip() for line in out.splitlines() if line.startswith("\u2502"))
    assert "found finished" not in out
    assert "found finished: 1 of 1 runs" in call(*arguments)[1]


def test_objects_say_what_they_are_in_a_line():
    pytest.importorskip("torch")
    experiment = Experiment(data=Choice("digits", {"n_clients": 30}))
    scenario = build_scenario(experiment)
    assert repr(scenario).startswith("<scenario: 30 clients, ")
    loop = build(experiment, scenario)
    assert repr(loop).startswith("<FedAvg at round 0: Uniform(")
    for name in ("fedgs", "e3cs", "ca-fed", "fedau", "f3ast"):
        said = repr(build_selector(Choice(name), scenario))
        assert "object at" not in said
        assert len(said) < 300


def test_a_selector_without_its_methods_is_refused_before_anything_runs(restoring):
    class Half:
        def __init__(self, scenario):
            pass

        def select(self, round):
            raise AssertionError

        def state_dict(self):
            raise AssertionError

    restoring(SELECTORS)
    SELECTORS.register("half")(Half)
    scenario = build_scenario(Experiment(clients_per_round=2, data=Choice("digits", {"n_clients": 4})))
    sentence = "selector 'half' is a Half, which has no load_state_dict: a selector has select"
    with pytest.raises(ConfigError, match=sentence):
        build_selector(Choice("half"), scenario)


def test_every_argument_and_option_of_a_command_is_described():
    """In ``--help`` and on the page of commands; some pairs of typer and click lose what describes an argument."""

    def parameters(tree):
        children = getattr(tree, "commands", {}).values()
        return [*tree.params, *(each for child in children for each in parameters(child))]

    found = [each for each in parameters(command()) if each.name not in ("install_completion", "show_completion")]
    assert len(found) > 100
    assert [each.name for each in found if not each.help] == []
