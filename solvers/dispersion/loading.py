"""Compiled code that is loaded when first needed, in the background, and never at the cost of a time limit."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable
from types import ModuleType

__all__ = ["Kernels", "OutOfTime"]


class OutOfTime(Exception):
    """The clock ran out in the middle of something that has no answer yet."""


class Kernels:
    """A module of compiled functions: half a second to load, some seconds to compile on a machine's first use.

    Parameters
    ----------
    module : str
        Its full name.
    """

    def __init__(self, module: str) -> None:
        self.name = module
        self._module: ModuleType | None = None
        self._failure: BaseException | None = None
        self._done = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def get(self, expired: Callable[[], bool] = lambda: False) -> ModuleType:
        """Return the module; raise `OutOfTime` when ``expired()`` becomes true before it is there."""
        if self._module is None:
            with self._lock:
                if self._thread is None:
                    self._thread = threading.Thread(target=self._load, name=self.name, daemon=True)
                    self._thread.start()
            while not self._done.wait(0.02):
                if expired():
                    raise OutOfTime
            if self._failure is not None:
                raise self._failure
        assert self._module is not None
        return self._module

    def _load(self) -> None:
        try:
            self._module = importlib.import_module(self.name)
        except BaseException as error:  # raised again in the thread that needs the module
            self._failure = error
        finally:
            self._done.set()
