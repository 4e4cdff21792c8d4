"""Kernel of the level-1 RLT bound: subgradient steps on multipliers that are whole numbers.

Row i of ``shares`` says what client i earns with each partner; two entries (i, j) and (j, i) add up to twice the pair's
value, so any such entries give a bound, and a step moves worth from one to the other. See
`solvers.dispersion.relaxations.rlt`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from solvers.dispersion.kernels.compiler import part

__all__ = ["appraise", "descend", "divide", "signatures"]


@part
def sift(row, heap, place):
    """Let the entry at ``place`` of a heap of places sink below smaller ones."""
    while True:
        child = 2 * place + 1
        if child >= heap.size:
            return
        if child + 1 < heap.size and row[heap[child + 1]] < row[heap[child]]:
            child += 1
        if row[heap[place]] <= row[heap[child]]:
            return
        heap[place], heap[child] = heap[child], heap[place]
        place = child


@part
def largest(row, skip, heap):
    """Fill ``heap`` with the places of the largest entries but ``skip``, the least of them first; return their sum."""
    count, j = 0, 0
    while count < heap.size:
        if j != skip:
            heap[count] = j
            count += 1
        j += 1
    for place in range(heap.size // 2 - 1, -1, -1):
        sift(row, heap, place)
    while j < row.size:
        if j != skip and row[j] > row[heap[0]]:
            heap[0] = j
            sift(row, heap, 0)
        j += 1
    total = 0
    for place in range(heap.size):
        total += row[heap[place]]
    return total


@part
def one_sided(partners, is_partner, chosen, is_chosen, first, second):
    """List the pairs of a chosen client and a partner that is not chosen or has others; return their number."""
    for j in range(is_chosen.size):
        is_chosen[j] = False
    for place in range(chosen.size):
        is_chosen[chosen[place]] = True
    count = 0
    for place in range(chosen.size):
        i = chosen[place]
        for each in range(partners.shape[1]):
            j = partners[i, each]
            if not (is_chosen[j] and is_partner[j, i]):
                first[count], second[count] = i, j
                count += 1
    return count


@part
def move(shares, partners, is_partner, values, i, j, amount, is_stale):
    """Move worth of a pair from i's share to j's, and mark as stale whose partners may have changed."""
    shares[i, j] -= amount
    shares[j, i] += amount
    is_stale[i] = True
    least = partners[j, 0]
    if is_partner[j, i] and least != i:  # still a partner, and still not the least
        values[j] += amount
    elif least == i or shares[j, i] > shares[j, least]:
        is_stale[j] = True


@part
def refresh(shares, linear, partners, is_partner, values, i):
    """Find client i's best partners anew, and its value with them."""
    for place in range(partners.shape[1]):
        is_partner[i, partners[i, place]] = False
    values[i] = linear[i] + largest(shares[i], i, partners[i])
    for place in range(partners.shape[1]):
        is_partner[i, partners[i, place]] = True


def appraise(shares, linear, partners, is_partner, values):
    """Find every client's best partners and its value with them."""
    for i in range(linear.size):
        for place in range(partners.shape[1]):
            partners[i, place] = 0
        for j in range(linear.size):
            is_partner[i, j] = False
        refresh(shares, linear, partners, is_partner, values, i)


def descend(shares, linear, partners, is_partner, values, chosen, target, most, step, patience, iterations, state):
    """Take subgradient steps towards ``target``; return their number and the step length that they end with.

    ``state`` holds the least bound so far, the one that the next success is measured by, and the steps since the last
    success. Steps end early at the target, where none is possible, and where the chosen clients are each other's
    partners: they are the optimum then.
    """
    pairs = chosen.size * (chosen.size - 1)
    first, second = np.empty(pairs, np.int64), np.empty(pairs, np.int64)
    is_chosen, is_stale = np.zeros(linear.size, np.bool_), np.zeros(linear.size, np.bool_)
    for iteration in range(iterations):
        bound = largest(values, -1, chosen)
        state[0] = min(state[0], bound)
        state[2] += 1
        if bound < state[1] - (state[1] - target) // 500:
            state[1], state[2] = bound, 0
        if state[2] >= patience:
            step *= 0.7
            state[1], state[2] = bound, 0
        count = one_sided(partners, is_partner, chosen, is_chosen, first, second)
        if count == 0 or bound <= target:
            return iteration, step
        amount = max(int(step * float(bound - target) / float(count)), 1)
        moved = 0
        for each in range(count):
            i, j = first[each], second[each]
            if shares[i, j] - amount >= -most and shares[j, i] + amount <= most:
                move(shares, partners, is_partner, values, i, j, amount, is_stale)
                moved += 1
        if moved == 0:
            return iteration, 0.0
        for i in range(linear.size):
            if is_stale[i]:
                is_stale[i] = False
                refresh(shares, linear, partners, is_partner, values, i)
    return iterations, step


def divide(quadratic, prices, is_core, grid, shares):
    """Divide the pairs' values, in whole numbers: a core client earns its price with each that is not of the core."""
    for i in range(prices.size):
        shares[i, i] = 0
        for j in range(i):
            pair = 2 * math.ceil(quadratic[i, j] * grid)
            if is_core[i] == is_core[j]:
                share = pair // 2 + int((prices[i] - prices[j]) / 2 * grid)
            elif is_core[i]:
                share = int(prices[i] * grid)
            else:
                share = pair - int(prices[j] * grid)
            shares[i, j] = share
            shares[j, i] = pair - share


def signatures(precision: str) -> dict[Any, Any]:
    """Return the numba types of the arguments."""
    from numba import boolean, float64, int64

    rows, clients, reals = int64[:, ::1], int64[::1], float64[:, ::1]
    common = (rows, clients, rows, boolean[:, ::1], clients)
    return {
        appraise: common,
        descend: (*common, clients, int64, int64, float64, int64, int64, int64[::1]),
        divide: (reals, float64[::1], boolean[::1], float64, rows),
    }
