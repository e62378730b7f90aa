"""Survival analysis and competing risks as a custom objective for gradient boosting engines."""

__version__ = "0.1.0"
