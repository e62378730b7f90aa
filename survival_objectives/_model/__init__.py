"""Fitted models: how they predict, how they are explained, and how they are saved."""
