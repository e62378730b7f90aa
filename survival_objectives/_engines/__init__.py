"""Engines: what one must offer, which there are, their settings, and trees in plain numbers."""
