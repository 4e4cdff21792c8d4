"""``fedselect warm-up``."""

from __future__ import annotations

from typer.testing import CliRunner

from fedselect.cli import app
from solvers.dispersion.kernels import loader, register


def test_warm_up_compiles_what_is_registered(monkeypatch):
    """Every registered kernel, one that another module has added among them."""
    few = ("tree", "schur")
    monkeypatch.setattr(loader, "_modules", {name: loader._modules[name] for name in few})
    register("schur-again", "solvers.dispersion.kernels.schur")
    done = CliRunner().invoke(app, ["warm-up"])
    assert done.exit_code == 0, done.output
    assert done.output.startswith("3 kernels are ready")
    assert ("schur-again", "float64") in loader._loaded
