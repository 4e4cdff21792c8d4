"""Selection problems recorded from federations: the recipes of the shipped library, and how to record one's own."""

from fedselect.instances.fetch import Fetched, fetch_mdplib
from fedselect.instances.recipes import Recipe, recipe, recipes
from fedselect.instances.record import record

__all__ = ["Fetched", "Recipe", "fetch_mdplib", "recipe", "recipes", "record"]
