"""Inner loops of the coverage methods, compiled: worth of candidates, rows served too often, exchanges."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["appraise", "compare", "direct", "exchange", "lower", "restrict", "serve", "signatures"]


def appraise(values, candidates, lengths, u, worth):
    """Sum into ``worth`` what candidates exceed the multipliers by, over rows whose values descend."""
    for j in range(worth.size):
        worth[j] = 0.0
    for i in range(u.size):
        for k in range(lengths[i]):
            excess = values[i, k] - u[i]
            if excess <= 0.0:
                break
            worth[candidates[i, k]] += excess


def direct(values, candidates, lengths, u, is_selected, memory, direction):
    """Replace the direction by the subgradient at a selection, plus ``memory`` of what it was; return its square."""
    square = 0.0
    for i in range(u.size):
        count = 0
        for k in range(lengths[i]):
            if values[i, k] <= u[i]:
                break
            count += is_selected[candidates[i, k]]
        direction[i] = 1.0 - count + memory * direction[i]
        square += direction[i] * direction[i]
    return square


def restrict(values, candidates, lengths, is_left, kept_values, kept_candidates, kept_lengths):
    """Keep the candidates that are left, in their order."""
    for i in range(lengths.size):
        count = 0
        for k in range(lengths[i]):
            j = candidates[i, k]
            if is_left[j]:
                kept_values[i, count] = values[i, k]
                kept_candidates[i, count] = j
                count += 1
        kept_lengths[i] = count


def compare(similarity, begin, owner, first, second, gain, loss):
    """Fill what each candidate of a block gains the rows, and what they lose by each selected one that goes for it.

    The rows of one that goes are served next best, or by the candidate that comes.
    """
    for c in range(gain.size):
        gain[c] = 0.0
        for r in range(loss.shape[0]):
            loss[r, c] = 0.0
    for i in range(first.size):
        now, then, place = first[i], second[i], owner[i]
        for c in range(gain.size):
            value = np.float64(similarity[i, begin + c])
            above = value - now
            value = value if value > then else then
            gain[c] += above if above > 0.0 else 0.0
            loss[place, c] += now - value if now > value else 0.0


def exchange(values, candidates, lengths, is_selected, costs, paid, owner, first, second, gain, saved, lost):
    """Find the best exchange from each row's list of candidates; return improvement, place and candidate.

    Where no exchange improves, they are 0, 0 and -1.
    ``paid`` are the costs of the selected, by their places. Only candidates above a row's second best change what it
    loses with its representative, so that a pass over all exchanges reads some 2 n/m entries of a row.
    """
    for r in range(lost.size):
        lost[r] = -paid[r]
        for j in range(gain.size):
            saved[r, j] = 0.0
    for j in range(gain.size):
        gain[j] = -np.inf if is_selected[j] else -costs[j]
    for i in range(owner.size):
        place, now, then = owner[i], first[i], second[i]
        lost[place] += now - then
        for k in range(lengths[i]):
            value, j = values[i, k], candidates[i, k]
            if value <= then:
                break
            if value > now:
                gain[j] += value - now
                saved[place, j] += now - then
            else:
                saved[place, j] += value - then
    best, out, into = 0.0, 0, -1
    for r in range(lost.size):
        for j in range(gain.size):
            improvement = gain[j] + saved[r, j] - lost[r]
            if improvement > best:
                best, out, into = improvement, r, j
    return best, out, into


def serve(similarity, chosen, changed, owner, first, runner, second):
    """Find each row's representative among the chosen and its next best, where one place of these was changed.

    All places have changed where ``changed`` is -1.
    """
    for i in range(owner.size):
        if changed >= 0 and owner[i] != changed and runner[i] != changed:
            value = np.float64(similarity[i, chosen[changed]])
            if value > first[i]:
                runner[i], second[i], owner[i], first[i] = owner[i], first[i], changed, value
            elif value > second[i]:
                runner[i], second[i] = changed, value
            continue
        first[i], second[i], owner[i], runner[i] = -np.inf, -np.inf, 0, 0
        for r in range(chosen.size):
            value = np.float64(similarity[i, chosen[r]])
            if value > first[i]:
                runner[i], second[i], owner[i], first[i] = owner[i], first[i], r, value
            elif value > second[i]:
                runner[i], second[i] = r, value


def lower(similarity, best, served, gains):
    """Serve rows by one candidate more, and take from all gains what they lose by it.

    Only rows that are served better change a gain: of n rows some n/k in step k.
    """
    for i in range(served.size):
        now, then = served[i], similarity[i, best]
        if then > now:
            for j in range(gains.size):
                value = similarity[i, j] if similarity[i, j] < then else then
                gains[j] -= np.float64(value) - np.float64(now) if value > now else 0.0
            served[i] = then


def signatures(precision: str) -> dict[Any, Any]:
    """Return the numba types of the arguments."""
    from numba import boolean, float32, float64, int32, int64, types

    real = float32 if precision == "float32" else float64
    similarity = types.Array(real, 2, "C", readonly=True)
    reals, lists = float64[::1], (float64[:, ::1], int32[:, ::1], int64[::1])
    return {
        appraise: (*lists, reals, reals),
        direct: (*lists, reals, boolean[::1], float64, reals),
        restrict: (*lists, boolean[::1], *lists),
        compare: (similarity, int64, int64[::1], reals, reals, reals, float64[:, ::1]),
        lower: (similarity, int64, real[::1], reals),
        exchange: (*lists, boolean[::1], reals, reals, int64[::1], reals, reals, reals, float64[:, ::1], reals),
        serve: (similarity, int64[::1], int64, int64[::1], reals, int64[::1], reals),
    }
