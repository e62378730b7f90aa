"""Fitted models: prediction, explanation and persistence."""
