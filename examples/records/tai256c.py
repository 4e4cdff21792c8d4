"""QAPLIB's tai256c: check the certificate of the bound that docs/benchmarks/tai256c.md states, or make one again.

python examples/records/tai256c.py                       # checks, some ten seconds
python examples/records/tai256c.py --qaplib tai256c.dat  # the same, for the pattern of QAPLIB's own file
python examples/records/tai256c.py --make again.npz      # finds a bound, writes what proves it, and checks that
"""

# ruff: noqa: E402

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")  # read once, when NumPy is imported

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from examples.records import three_point  # noqa: F401  (registers its method)
from examples.records.checker import check
from examples.records.grey import grey_pattern, read_qaplib_grey, torus_symmetries
from solvers import solve
from solvers.certificates import Certificate

SHIPPED = ROOT / "docs" / "benchmarks" / "tai256c.npz"

#: The best pattern known has this repulsion.
BEST = 44_759_294


def main() -> None:
    """Print what is proved."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--qaplib", type=Path, help="QAPLIB's file of the pattern, instead of Taillard's recipe")
    parser.add_argument("--make", type=Path, help="where to write a certificate that is made now")
    parser.add_argument("--seconds", type=float, default=300.0, help="for making it")
    options = parser.parse_args()
    pattern = grey_pattern(16, 16, 92) if options.qaplib is None else read_qaplib_grey(options.qaplib)
    if options.make is None:
        certificate = Certificate.load(SHIPPED)
    else:
        symmetries = torus_symmetries(16, 16)
        made = solve(pattern, "three-point", symmetries=symmetries, time_limit=options.seconds, certificate=True)
        if made.certificate is None:
            raise SystemExit(f"no certificate was written: {made.message}")
        certificate = Certificate.load(made.certificate.save(options.make))
    repulsion = 100_000 * 92 * 91 - check(pattern, certificate)
    gap = 100 * (BEST - repulsion) / BEST
    print(f"proved: every pattern has a repulsion of at least {repulsion:,.0f}, {gap:.2f} % below the best known")
    print(f"certificate {certificate.digest[:16]}")


if __name__ == "__main__":
    main()
