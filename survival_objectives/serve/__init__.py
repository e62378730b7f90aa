"""A saved model as a web service: JSON in, probabilities out, and a page to try it (Starlette)."""

from survival_objectives.serve._application import application

__all__ = ["application"]
