"""Selection problems recorded from federations: the recipes of the shipped library, and how to record one's own."""

from fedselect.recording.fetch import Fetched, fetch_mdplib
from fedselect.recording.library import Recipe, recipe, recipes
from fedselect.recording.recorder import record

__all__ = ["Fetched", "Recipe", "fetch_mdplib", "recipe", "recipes", "record"]
