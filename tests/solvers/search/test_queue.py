"""The queue of open nodes."""

from __future__ import annotations

import math

from solvers.search import BestFirstQueue


def test_the_largest_bound_comes_first_and_among_equals_the_oldest():
    queue = BestFirstQueue[object]()
    assert queue.bound == -math.inf
    assert not queue
    nodes = [object() for _ in range(4)]  # which cannot be compared
    for bound, node in zip((1.0, 3.0, 3.0, 2.0), nodes, strict=True):
        queue.push(bound, node)
    assert (len(queue), queue.bound) == (4, 3.0)
    assert [queue.pop() for _ in range(3)] == [(3.0, nodes[1]), (3.0, nodes[2]), (2.0, nodes[3])]
    assert queue.bound == 1.0
    queue.clear()
    assert not queue
