"""The errors of ``solvers``."""

from __future__ import annotations

from typing import Any


class SolversError(Exception):
    """Base class of this package's own errors."""


class InvalidProblem(SolversError, ValueError):
    """The data or a file do not state a valid problem or solution, or a method does not take the problem."""


class NoSelection(InvalidProblem):
    """No selection that keeps all constraints was found; ``proved`` says whether it is certain that there is none."""

    def __init__(self, proved: bool = False) -> None:
        self.proved = proved
        found = "no selection keeps all constraints" if proved else "no selection was found that keeps all constraints"
        super().__init__(found)


class Contradiction(InvalidProblem):
    """Side constraints that no selection keeps, as is seen where the problem is made; `solvers.conflict` says which."""

    #: The checked arguments, the ids of the clients and the size.
    statement: tuple[Any, Any, int] | None = None

    #: Of a quota that contradicts itself: its name, ``at_least``, and how many it may be.
    quota: tuple[str, int, int] | None = None

    @classmethod
    def of_quota(cls, sentence: str, name: str, least: int, allowed: int) -> Contradiction:
        """Return the error about a quota that no selection keeps, whatever else is asked for."""
        error = cls(sentence)
        error.quota = name or "quota", least, allowed
        return error


class InvalidOption(SolversError, ValueError):
    """An argument or option of a function or method is unknown, out of range, or does not go with the others."""


class UnknownMethod(SolversError, ValueError):
    """No method of that name is registered for the problem's type."""


class MissingBackend(SolversError, ImportError):
    """A method or a reader needs an optional package, or a program that is not there or cannot be run."""


class InvalidAnswer(SolversError, RuntimeError):
    """A method's answer is infeasible, unreadable, or a bound on the wrong side of its objective.

    Also where the program that a method executes fails.
    """


class BenchmarkError(SolversError, ValueError):
    """A benchmark is not stated well, its folder belongs to another one or to another process, or its workers fail."""


class CertificateError(SolversError, ValueError):
    """A certificate cannot be read, belongs to another problem, or does not prove what it claims."""


def is_out_of_memory(error: BaseException | None) -> bool:
    """Return True if an error, or one that it comes from, says that memory is short: imports then fail, too."""
    while error is not None:
        said = str(error).lower()
        if isinstance(error, MemoryError) or any(words in said for words in _NO_MEMORY):
            return True
        error = error.__cause__ or error.__context__
    return False


#: Parts of what NumPy, PyTorch, C++ and the loader of shared libraries say where memory is short.
_NO_MEMORY = ("memory", "unable to allocate", "bad_alloc", "failed to map")
