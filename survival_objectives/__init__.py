"""Survival analysis and competing risks as a custom objective for gradient boosting engines."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from survival_objectives._version import __version__

if TYPE_CHECKING:
    from survival_objectives._models.recalibration import recalibrate
    from survival_objectives._people.outcomes import outcomes_frame
    from survival_objectives.estimators import HazardBoost, SurvivalBoost, load

__all__ = ["HazardBoost", "SurvivalBoost", "__version__", "load", "outcomes_frame", "recalibrate"]
_ELSEWHERE = {"outcomes_frame": "_people.outcomes", "recalibrate": "_models.recalibration"}


def __getattr__(name: str) -> Any:
    """Public names on first use: the command line prints its help without them."""
    if name not in __all__:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    home = _ELSEWHERE.get(name, "estimators")
    return getattr(import_module(f"{__name__}.{home}"), name)


def __dir__() -> list[str]:
    return __all__
