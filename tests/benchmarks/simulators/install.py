"""Install every engine in an environment of its own under a folder, each with the same PyTorch.

python tests/benchmarks/simulators/install.py FOLDER [ENGINE ...] [--torch torch==2.13.0] [--blazefl-python python3.12]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]

#: Environments, and what pip installs in them beside PyTorch.
PACKAGES = {
    "fedselect": [],
    "flower": ["flwr[simulation]==1.41.0"],
    "pfl": ["pfl==0.6.0"],
    "fluke": ["fluke-fl==0.8.1", "torchvision==0.28.0"],
    "flgo": ["flgo==0.4.4", "torchvision==0.28.0"],
    # A JAX that has what FedJAX uses (jax.tree_map).
    "fedjax": [
        *("fedjax==0.0.17", "jax==0.4.25", "jaxlib==0.4.25", "numpy<2", "scipy<1.13"),
        *("dm-haiku==0.0.12", "optax==0.1.9", "chex<0.1.87"),
    ],
    "blazefl": ["blazefl==2.0.3", "numpy", "tqdm"],  # 3.0.0 needs Python 3.14, 2.0.3 needs 3.12
}


def main() -> None:
    """Make what is asked, in turn; what fails is told at the end."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("engines", nargs="*", default=list(PACKAGES))
    parser.add_argument("--torch", default="torch==2.13.0")
    parser.add_argument("--blazefl-python", default="python3.12")
    options = parser.parse_args()
    own = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    failed = []
    for engine in options.engines:
        python = options.blazefl_python if engine == "blazefl" else sys.executable
        torch = [] if engine == "fedjax" else [options.torch]
        ours = own if engine in ("fedselect", "flower") else []  # which run from this checkout
        place = options.folder / engine
        pip = [str(place / "bin" / "python"), "-m", "pip", "install", "-q", *torch, *PACKAGES[engine], *ours]
        for command in ([python, "-m", "venv", str(place)], pip):
            if subprocess.run(command, check=False).returncode:
                failed.append(engine)
                break
    if failed:
        raise SystemExit(f"not installed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
