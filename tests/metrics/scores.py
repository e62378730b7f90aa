"""Scores of `Evaluation` by name, called alike: `value_of(name, y_train, y, curves, times)`."""

from survival_objectives.metrics import Evaluation

_METHODS = {
    "brier_score": ("brier", {}),
    "integrated_brier_score": ("brier", {"integrated": True}),
    "scaled_brier": ("scaled_brier", {}),
    "log_loss": ("log_loss", {}),
    "integrated_log_loss": ("log_loss", {"integrated": True}),
    "time_dependent_auc": ("auc", {}),
    "concordance_index": ("concordance", {}),
    "observed_expected": ("observed_expected", {}),
}
_OF_METHODS = ("cause", "controls", "weighted", "changing", "min_probability", "rule")
NAMES = tuple(_METHODS)
#: Scores whose error includes that of the weights.
WEIGHTED = NAMES[:2] + NAMES[3:7]
WITHOUT_CAUSE = ("log_loss", "integrated_log_loss")


def estimate_of(name, y_train, y, curves, times, **options):
    method, fixed = _METHODS[name]
    own = {key: options.pop(key) for key in _OF_METHODS if key in options}
    return getattr(Evaluation(y_train, y, curves, times, **options), method)(**fixed, **own)


def value_of(name, *data, **options):
    return estimate_of(name, *data, **options).value
