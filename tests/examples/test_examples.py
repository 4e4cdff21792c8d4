"""Every example runs to its end, in an empty folder, and draws what it says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
#: The extra that an example needs beside the core.
NEEDS = {"flower": "flwr", "million_clients": "numpy"}


@pytest.mark.examples
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_runs(path, tmp_path):
    pytest.importorskip(NEEDS.get(path.stem, "torch"))
    environment = os.environ | {
        "MPLBACKEND": "agg",
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
    }
    done = subprocess.run(
        [sys.executable, str(path)], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.strip()
    assert list(tmp_path.iterdir()) == []  # an example leaves nothing behind


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_reads_like_a_page(path):
    """A title, a formula, steps, a picture with a title (its text alternative), no frame and no options."""
    text = path.read_text(encoding="utf-8")
    assert re.match(r'r"""\n[^\n]+\n=+\n', text)
    assert ".. math::" in text
    assert text.count("# %%") >= 2
    assert "title=" in text or "suptitle(" in text
    assert "argparse" not in text
    assert not re.search(r"^(?:from|import) .*\b_", text, flags=re.MULTILINE)
    page, _, conclusion = text.partition("\n# %%\n# **What to conclude.**")
    assert 40 <= len(page.splitlines()) <= 105
    assert 1 <= len(conclusion.splitlines()) <= 4
