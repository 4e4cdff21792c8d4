"""Supervision of a solver process: ask it, wait no longer than agreed, replace it when it dies."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from multiprocessing import Pipe
from typing import Any

from solvers.benchmark.child import IDLE_SECONDS, Request
from solvers.errors import BenchmarkError

__all__ = ["SolverProcess"]

_STARTING_SECONDS = 120.0


class SolverProcess:
    """One long-lived solver process and the pipe to it.

    It is a fresh interpreter, not a fork: no threads, locks or compiled state of the caller come along, and it works
    the same under a worker of loky, Ray or Dask. It leads a session of its own, so that Ctrl-C reaches only the
    caller, and ending it ends whatever it started.

    Parameters
    ----------
    setup : bytes
        The first message to it; see `solvers.benchmark.child.main`.

    Attributes
    ----------
    versions : dict of str to str
        Versions of Python and of the packages, as the process found them.
    """

    def __init__(self, setup: bytes) -> None:
        self._setup = setup
        self._process: subprocess.Popen[bytes] | None = None
        self._used = time.monotonic()
        self.versions: dict[str, str] = {}
        #: What the caller notes about this process, such as the methods it has run; forgotten when it ends.
        self.notes: set[str] = set()

    def ask(self, request: Request) -> dict[str, Any]:
        """The answer to a request; ``failed`` is "crashed" or "hung" where the process did not give one."""
        self.start()
        start = time.perf_counter()
        self._used = math.inf  # however long it takes, it is in use
        try:
            self._errors.truncate(0)
            self._connection.send(request)
            answered = self._connection.poll(request.patience)
            if answered:
                return self._connection.recv()
        except (EOFError, OSError):
            answered = True
        except BaseException:  # Ctrl-C: the process must not go on alone
            self.close()
            raise
        finally:
            self._used = time.monotonic()
        seconds = time.perf_counter() - start
        if not answered:
            self.close()
            return {"failed": "hung", "message": f"was ended {seconds:.3g} s after it was asked", "seconds": seconds}
        return {"failed": "crashed", "message": self._epitaph(), "seconds": seconds}

    def close(self) -> None:
        """End the process, and those it started, at once."""
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._connection.close()
        self._errors.close()
        self._process = None
        self.notes.clear()

    @property
    def retired(self) -> bool:
        """Whether the process was left alone for so long that it ends, or soon will, by itself."""
        return time.monotonic() - self._used > IDLE_SECONDS / 2

    def start(self) -> None:
        """Start the process, unless there is one that is alive and not about to retire."""
        if self._process is not None and self._process.poll() is None and not self.retired:
            return
        self.close()
        self._connection, theirs = Pipe()
        self._errors = tempfile.TemporaryFile("a+b")  # noqa: SIM115  (closed with the process)
        code = (
            f"import sys; sys.path[:] = {sys.path!r}; from solvers.benchmark.child import main; main({theirs.fileno()})"
        )
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", code],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._errors,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        try:
            self._connection.send_bytes(self._setup)
            if not self._connection.poll(_STARTING_SECONDS):
                raise EOFError
            self.versions = self._connection.recv()
            self._used = time.monotonic()
        except (EOFError, OSError):
            raise BenchmarkError(f"no solver process could be started: {self._epitaph()}") from None
        except BaseException:
            self.close()
            raise

    def _epitaph(self) -> str:
        """How the process died, with the last line it wrote to its standard error."""
        assert self._process is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=5.0)
        code = self._process.returncode
        self._errors.seek(0)
        lines = self._errors.read()[-2000:].decode(errors="replace").strip().splitlines()
        self.close()
        if code is not None and code < 0:
            name = next((known.name for known in signal.Signals if known == -code), f"signal {-code}")
            death = f"its process died of {name}"
        else:
            death = f"its process ended with exit code {code}"
        return f"{death} ({lines[-1]})" if lines else death
