"""Validation of user input, the only code that inspects what a user passes in.

All other code works on plain float32/float64/int32 arrays and may assume that they are well formed.
Errors name the offending value and the way out.
"""

# First: it sets how OpenMP threads wait, before scikit-learn is imported.
from survival_objectives._process import running as _running  # noqa: F401

# isort: split
from survival_objectives._people.columns import (
    SeveralRows,
    is_entry_name,
    is_id_name,
    late_entry_columns,
    several_rows,
    warn_about_columns,
)
from survival_objectives._people.features import (
    Features,
    KeptValues,
    check_column_resolutions,
    check_features,
    check_time_resolution,
    take_rows,
)
from survival_objectives._people.outcomes import (
    SurvivalTarget,
    check_paired,
    check_same_people,
    check_survival_target,
    split_target,
    warn_about_labels,
    warn_about_outcomes,
)
from survival_objectives._people.values import (
    check_choice,
    check_fraction,
    check_groups,
    check_positive_int,
    check_random_state,
    check_sample_weight,
    check_times,
    copies,
    relative_weights,
    row_keys,
    warn,
)

__all__ = [
    "Features",
    "KeptValues",
    "SeveralRows",
    "SurvivalTarget",
    "check_choice",
    "check_column_resolutions",
    "check_features",
    "check_fraction",
    "check_groups",
    "check_paired",
    "check_positive_int",
    "check_random_state",
    "check_same_people",
    "check_sample_weight",
    "check_survival_target",
    "check_time_resolution",
    "check_times",
    "copies",
    "is_entry_name",
    "is_id_name",
    "late_entry_columns",
    "relative_weights",
    "row_keys",
    "several_rows",
    "split_target",
    "take_rows",
    "warn",
    "warn_about_columns",
    "warn_about_labels",
    "warn_about_outcomes",
]
