"""Data classes in a few words: what a short description of a problem shows, and tables for notebooks."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

__all__ = ["html_table", "outline"]

#: Text longer than this is no scalar that a short description could show.
_LONGEST = 40


def outline(data: Any) -> list[tuple[str, str]]:
    """The fields of a data class in a few letters each: scalars as they are, arrays by their shapes."""
    told = []
    for field in dataclasses.fields(data):
        value = getattr(data, field.name)
        if isinstance(value, np.ndarray):
            told.append((field.name, "×".join(map(str, value.shape)) or "()"))
        else:
            text = f"{value:.6g}" if isinstance(value, float) else repr(value)
            told.append((field.name, text if len(text) <= _LONGEST else type(value).__name__))
    return told


def html_table(title: str, rows: Sequence[tuple[str, str]]) -> str:
    """Names and values as an HTML table."""
    body = "".join(f"<tr><th>{escape(name.strip())}</th><td>{escape(value)}</td></tr>" for name, value in rows)
    return f"<table><caption>{escape(title)}</caption>{body}</table>"
