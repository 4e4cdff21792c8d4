"""Lines on standard error about a wait that a user would not expect."""

from __future__ import annotations

import logging
import sys

__all__ = ["notice", "quiet"]

_is_quiet = False


def quiet(is_quiet: bool = True) -> None:
    """Write no notices to standard error, such as that a kernel is being compiled; with False, write them again.

    They go to the logger ``solvers`` in either case, at level INFO.
    """
    global _is_quiet
    _is_quiet = bool(is_quiet)


def notice(text: str, logger: logging.Logger) -> None:
    """Write a line to standard error and to the log; to the log alone after `quiet`, or where that shows it anyway.

    Parameters
    ----------
    text : str
        The sentence.
    logger : logging.Logger
        Receives it as well. Where a handler of the program's own takes it, standard error does not have it twice.
    """
    logger.info(text)
    is_shown = logger.isEnabledFor(logging.INFO) and logger.hasHandlers()
    if not (_is_quiet or is_shown or sys.stderr is None):
        print(f"solvers: {text}", file=sys.stderr, flush=True)
