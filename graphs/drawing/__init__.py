"""Pictures of the 3DG and of its distances, as Matplotlib figures that touch no global state."""

from graphs.drawing.heat_map import draw_distances
from graphs.drawing.picture import draw

__all__ = ["draw", "draw_distances"]
