"""Hypothesis without deadlines (two shared cores) and without chance: every run tests the same."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "reproducible",
    deadline=None,
    derandomize=True,
    max_examples=50,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("reproducible")
