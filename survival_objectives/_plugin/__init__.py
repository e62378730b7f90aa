"""The plugin without its engine: rows, targets and weights of one training problem, and refreshes.

`problem_rows` makes the rows of a training problem by one of the `schemes`, `alternation` refreshes
targets and weights while an engine trains, `reader` and `curves` turn margins into curves.
"""
