"""Exceptions that `tests.test_house` grants: those with a reason stay, the others are to become fewer."""

from __future__ import annotations

#: Modules of fewer than forty lines, and why each stands alone.
SHORT_FOR_A_REASON = {
    "fedselect/errors.py": "imported by every module of the package",
    "fedselect/simulation.py": "the name by which scripts call simulate",
    "solvers/version.py": "the build reads it without importing anything",
}

#: Modules of fewer than forty lines that are to join a neighbour, or to give a reason.
SHORT: set[str] = set()

#: Modules with a docstring that begins with "What".
WHAT: set[str] = set()

#: Pairs of modules (or one module with itself) that share ten lines, or ten of the same shape.
REPEATED: set[frozenset[str]] = set()
