"""Versions of Python and of packages."""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import Iterable

__all__ = ["installed"]


def installed(packages: Iterable[str]) -> dict[str, str]:
    """Versions of Python and of those of the ``packages`` that are installed here."""
    versions = {"python": platform.python_version()}
    for package in packages:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions
