"""The version of the packages."""

__version__ = "0.3.0"
