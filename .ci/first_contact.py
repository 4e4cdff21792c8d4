"""Do what a solver researcher does first after ``pip install fedselect``: README's example, and the commands.

Runs in an environment that has the wheel and no extras, isolated (``python -I``), away from the checkout.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

README = Path(sys.argv[1]).read_text(encoding="utf-8")
SMALL = "fedgs-digits-twolabel-n30-m5-lognormal-r10"


def main() -> None:
    """Exit with a sentence where something does not work, or brings PyTorch."""
    import solvers.instances

    assert "site-packages" in solvers.__file__, f"solvers comes from {solvers.__file__}"
    for extra in ("torch", "torchvision", "flwr"):
        assert importlib.util.find_spec(extra) is None, f"the light install brought {extra}"

    example()
    listed = json.loads(fedselect("list", "--format", "json"))["method for a DispersionProblem"]
    names = [method["name"] for method in listed]
    assert "branch-and-bound" in names, names
    answer = json.loads(fedselect("solve", SMALL, "--require-proof", "--time-limit", "60", "--format", "json"))
    assert answer["status"] == "optimal", answer
    options = ("--methods", "auto,greedy", "--time-limit", "60", "--out", "bench")
    fedselect("bench", "dispersion", "--instances", SMALL, *options)
    fedselect("report", "bench")
    assert len(json.loads(fedselect("instances", "list", "--format", "json"))) == len(solvers.instances.names())
    assert SMALL in fedselect("instances", "show", SMALL)
    fedselect("instances", "export", SMALL, "small.lp")
    assert Path("small.lp").stat().st_size > 0
    loaded = [name for name in ("torch", "torchvision", "flwr") if name in sys.modules]
    assert not loaded, f"loaded: {loaded}"
    installed = len(list(importlib.metadata.distributions()))
    print(f"light install: {installed} distributions, no PyTorch; README's example and the commands work")


def example() -> None:
    """Run the first example of README that solves something, as it stands there."""
    blocks = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    code = next(block for block in blocks if "solve(" in block)
    namespace: dict[str, Any] = {}
    begun = time.perf_counter()
    exec(compile(code, "README.md", "exec"), namespace)
    solution = namespace["solution"]
    seconds = time.perf_counter() - begun
    print(f"README's example, nothing compiled yet: {solution.status}, gap {solution.gap:.2g}, {seconds:.1f} s")
    assert solution.status == "optimal", f"README's example, with nothing compiled, is {solution.status}"


def fedselect(*arguments: str) -> str:
    """Standard output of a command of the installed environment; a failure ends everything."""
    done = subprocess.run(["fedselect", *arguments], capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise SystemExit(f"fedselect {' '.join(arguments)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    main()
