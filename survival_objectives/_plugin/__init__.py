"""The plugin without its engine: rows, targets and weights of one training problem, and refreshes.

`problem_rows` makes the rows of a training problem, `alternation` refreshes targets and weights
while an engine trains, by the schemes of `survival_objectives._horizons.schemes`, and `slot` hands
them to the objective; `reader` and `curves` turn margins into curves.
"""
