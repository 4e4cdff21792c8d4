"""Methods that are programs: run one within the limits of a run, and read the decision that it prints."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from solvers.errors import InvalidAnswer, InvalidOption, MissingBackend

if TYPE_CHECKING:
    from solvers.run import Run

__all__ = ["execute"]

#: Seconds between looks at the run's limits; a program that ends is heard of at once.
_BETWEEN_LOOKS = 0.01


def execute(
    run: Run, command: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], *, first: int = 0
) -> NDArray[np.int64] | None:
    """Run a program until it ends or the run is over; see `solvers.run.Run.execute`."""
    given = [command] if isinstance(command, os.PathLike) else command
    try:
        words = shlex.split(given) if isinstance(given, str) else [os.fspath(word) for word in given]
    except ValueError as error:  # a quotation without an end
        raise InvalidOption(f"execute cannot split the command {given!r}: {error}") from None
    if not words:
        raise InvalidOption("execute needs the name of a program; got an empty command")
    program = words[0]
    try:
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except FileNotFoundError:
        raise MissingBackend(f"there is no program {program!r}: give its path, or put its folder on PATH") from None
    except OSError as error:
        raise MissingBackend(f"the program {program!r} cannot be run: {error.strerror or error}") from None
    try:
        while True:
            with suppress(subprocess.TimeoutExpired):
                printed, complaint = process.communicate(timeout=_BETWEEN_LOOKS)
                break
            if run.expired:
                return None
    finally:
        if process.poll() is None:
            _kill(process)
    if process.returncode:
        last = complaint.strip().splitlines()[-1:] or ["it printed nothing on stderr"]
        ended = f"exit code {process.returncode}" if process.returncode > 0 else f"signal {-process.returncode}"
        raise InvalidAnswer(f"the program {program!r} ended with {ended}: {last[0][:200]}")
    return _decision(program, printed, getattr(run.problem, "n", 0), first)


def _kill(process: subprocess.Popen[Any]) -> None:
    """Kill a program and what it has started."""
    with suppress(OSError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    process.communicate()


def _decision(program: str, printed: str, n: int, first: int) -> NDArray[np.int64]:
    """Return the 0/1 decision that takes the rows whose numbers were printed."""
    said = f"a method's program prints the rows that it selects, whole numbers from {first} to {n - 1 + first}, and"
    words = printed.replace(",", " ").split()
    if not words:
        raise InvalidAnswer(f"{said} {program!r} printed nothing")
    x = np.zeros(n, dtype=np.int64)
    for word in words:
        row = int(word) - first if word.isdecimal() and len(word) < 20 else -1
        if not 0 <= row < n:
            raise InvalidAnswer(f"{said} {program!r} printed {word[:80]!r}")
        if x[row]:
            raise InvalidAnswer(f"{said} {program!r} printed {word} twice")
        x[row] = 1
    return x
