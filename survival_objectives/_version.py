"""The version: its only source, in a module that imports nothing.

The build reads it from here; a test compares CITATION.cff with it.
"""

__version__ = "0.1.0"
