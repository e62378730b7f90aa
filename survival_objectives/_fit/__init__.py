"""Training: from checked people to what a fitted model needs.

`cohort` holds the people, `engine` says what an engine must offer, `schemes` how censored people
count, `loop` boosts, `plan` settles the time axis, `stacked` puts them together.
"""
