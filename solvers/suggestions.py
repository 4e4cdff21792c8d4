"""What a person may have meant by a name that there is not."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = ["did_you_mean"]


def did_you_mean(name: object, known: Iterable[str], cutoff: float = 0.6) -> str:
    """``"; did you mean 'x'?"`` for the known name nearest to ``name``, or nothing where none is near.

    Parameters
    ----------
    name : object
        What was given; only text is near to anything.
    known : iterable of str
        The names there are.
    cutoff : float
        Likeness in [0, 1] that counts as near, as in `difflib.get_close_matches`.

    Returns
    -------
    str
        To be put behind the sentence that refuses the name.

    Examples
    --------
    >>> did_you_mean("gredy", ["greedy", "tabu"])
    "; did you mean 'greedy'?"
    """
    if not isinstance(name, str):
        return ""
    by_lower = {each.lower(): each for each in known}
    close = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=cutoff)
    return f"; did you mean {by_lower[close[0]]!r}?" if close else ""
