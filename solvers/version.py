"""The version of everything that is installed together."""

__version__ = "0.3.0"
