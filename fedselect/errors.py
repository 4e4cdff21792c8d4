"""The errors of ``fedselect``'s own."""

from __future__ import annotations

import importlib.util

from graphs.errors import GraphError
from solvers.errors import SolversError, is_out_of_memory


class FedselectError(Exception):
    """Base class of this package's own errors; the command line prints the message and exits with code 2."""


class ConfigError(FedselectError, ValueError):
    """A configuration, an option or an argument is unknown, of the wrong type or out of range."""


class DataError(FedselectError, ValueError):
    """Data, or a file of distances, points, devices or traces, cannot be used as they are."""


class MissingExtraError(FedselectError, ImportError):
    """An optional part of the installation is missing, or cannot be loaded.

    Of a missing one the message says which ``pip install`` brings it.
    """


class RunError(FedselectError, RuntimeError):
    """A run folder cannot be written, read or resumed."""


def missing_extra(module: str, sentence: str, error: BaseException) -> MissingExtraError:
    """Return the error of a module that could not be imported.

    Parameters
    ----------
    module : str
        Its name.
    sentence : str
        What to say where it is not installed.
    error : BaseException
        What the import raised; the reason where it is installed, as where memory is limited.
    """
    try:
        there = importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        there = False
    if not there:
        return MissingExtraError(sentence)
    reason = str(error) or type(error).__name__
    hint = ": there is not enough memory, or a limit on it (ulimit -v) is too low" if is_out_of_memory(error) else ""
    return MissingExtraError(f"{module} is installed, and cannot be loaded{hint} ({reason})")


#: The base classes of the three packages' own errors, for ``except TOOLKIT_ERRORS``. An argument of the wrong type may
#: raise a built-in error instead. They have no class in common, as `solvers` and `graphs` know neither each other nor
#: this package.
TOOLKIT_ERRORS: tuple[type[Exception], ...] = (FedselectError, SolversError, GraphError)
