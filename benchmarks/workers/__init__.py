"""Contenders, each fitted in an interpreter of its own by `work.py`.

A contender is a module ``fit_<name>.py`` with

    fit(X, event, duration, *, seed, n_threads, **options) -> predict
    predict(X_test, times) -> probabilities of shape (n_samples, K + 1, n_times), event-free first
    draw(generator, **options) -> options        # only where it can be tuned

They run where this project is not installed, so only ``fit_ours.py``, ``fit_baselines.py``,
``fit_plugin.py`` and ``fit_floor.py`` import it.
"""
