"""What is said about an installation."""

import pytest

from solvers import environment


@pytest.mark.parametrize("quote", ["'", '"'])
def test_a_wheel_names_the_packages_of_an_extra(monkeypatch, tmp_path, quote):
    """Build tools write either quote; a name that may be on no index is never said."""
    stated = ["numpy>=2", *(f"{name}; extra == {quote}{extra}{quote}" for name, extra in EXTRAS)]
    monkeypatch.setattr(environment, "_HERE", tmp_path / "solvers")
    monkeypatch.setattr(environment.importlib.metadata, "requires", lambda package: stated)
    assert environment.how_to_install("fl") == "pip install 'torch>=2.6' 'torchvision>=0.21'"
    assert environment.how_to_install("fl,flower") == "pip install 'torch>=2.6' 'torchvision>=0.21' 'flwr[simulation]'"


EXTRAS = [("torch>=2.6", "fl"), ("torchvision>=0.21", "fl"), ("flwr[simulation]", "flower"), ("sphinx", "docs")]


def test_a_checkout_names_itself(monkeypatch, tmp_path):
    (tmp_path / "pyproject.toml").touch()
    monkeypatch.setattr(environment, "_HERE", tmp_path / "solvers")
    assert environment.how_to_install("fl") == f"pip install '{tmp_path}[fl]'"
