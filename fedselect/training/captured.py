"""Steps of stacks in fixed memory, which CUDA captures once for a shape and replays.

A stack's gradients are many small kernels on CUDA, and launching them takes longer than they do. A graph of CUDA's
launches all of them at once. It has the shapes and the memory that it was captured with.

``batching = "captured"`` asks for it. On a CPU there is nothing to capture: steps go through the same memory, and each
is computed as without, to the same bits. It has not been run on a GPU yet.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from copy import copy
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from fedselect.training.stacks import Gradients

_log = logging.getLogger(__name__)

#: Losses and gradients, computed where nothing is given and all is known.
Step = Callable[[], tuple[Tensor, Tensor]]

#: Numbers in a step (parameters and features) up to which kernels are small, shapes that are kept, and how often a
#: shape comes before it is captured, which takes as long as some steps.
_SMALL, _SHAPES, _AFTER = 2**22, 16, 8


class Captured:
    """Gradients of a stack, through memory of its own for each shape that comes often.

    Parameters
    ----------
    gradients : callable
        Those of a stack; they read nothing but what they are given.
    prepare : callable
        Makes of a step one that does the same work in the same memory: `cuda_graph`, or on a CPU the step itself.
    """

    def __init__(self, gradients: Gradients, prepare: Callable[[Step], Step]) -> None:
        self._gradients, self._prepare = gradients, prepare
        self._came: Counter[tuple[torch.Size, ...]] = Counter()
        self.steps: dict[tuple[torch.Size, ...], tuple[tuple[Tensor, ...], Step]] = {}  #: with memory, by shapes
        self._fails = False

    def __copy__(self) -> Captured:
        """Itself: whoever takes a copy shares what was captured."""
        return self

    def __call__(self, *given: Tensor) -> tuple[Tensor, Tensor]:
        """Losses and gradients of weights and a batch, which are there until the next call."""
        shapes = tuple(each.shape for each in given)
        if shapes not in self.steps and not self._is_captured(shapes, given):
            return self._gradients(*given)
        memory, step = self.steps[shapes]
        for held, each in zip(memory, given, strict=True):
            held.copy_(each)
        return step()

    def _is_captured(self, shapes: tuple[torch.Size, ...], given: tuple[Tensor, ...]) -> bool:
        """Capture a step of these shapes, where that pays and can be."""
        self._came[shapes] += 1
        small = given[0].numel() + given[1].numel() <= _SMALL
        if self._fails or not small or self._came[shapes] <= _AFTER or len(self.steps) == _SHAPES:
            return False
        # Gradients may keep memory for their weights: those of a graph are its own, as long as it is there.
        memory, gradients = tuple(each.clone() for each in given), copy(self._gradients)
        try:
            self.steps[shapes] = memory, self._prepare(lambda: gradients(*memory))
        except RuntimeError as error:  # a loss or a model that waits for the device, say: CUDA's and PyTorch's words
            self._fails = True
            _log.warning(
                "batching: steps of this model cannot be captured and run as without: %s",
                str(error).partition("\n")[0],
            )
        return shapes in self.steps


def cuda_graph(step: Step, device: torch.device) -> Step:
    """Capture a step, after some on the same side stream, on which libraries get what they need at first."""
    with torch.cuda.device(device):
        main, side = torch.cuda.current_stream(), torch.cuda.Stream()
        try:
            side.wait_stream(main)
            with torch.cuda.stream(side):
                for _ in range(3):
                    step()
            main.wait_stream(side)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=side):
                found = step()
        finally:
            torch.cuda.set_stream(main)  # a capture that fails stays on the other

    def replay() -> tuple[Tensor, Tensor]:
        graph.replay()
        return found

    return replay
