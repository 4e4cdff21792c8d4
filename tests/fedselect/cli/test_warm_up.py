"""``fedselect warm-up``."""

from __future__ import annotations

from typer.testing import CliRunner

from fedselect.cli import app
from solvers.dispersion import compiled


def test_warm_up_compiles_what_is_registered(monkeypatch):
    """Every registered kernel, one that another module has added among them."""
    few = ("tree", "schur")
    monkeypatch.setattr(compiled, "_COMMON", few)
    monkeypatch.setattr(compiled, "_modules", {name: compiled._modules[name] for name in few})
    compiled.register("schur-again", "solvers.dispersion.compiled.schur")
    done = CliRunner().invoke(app, ["warm-up"])
    assert done.exit_code == 0, done.output
    assert done.output.startswith("3 kernels are ready")
    assert ("schur-again", "float64") in compiled._loaded
