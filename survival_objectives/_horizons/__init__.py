"""Horizons: stacked rows, how censored people count, and the loop that boosts them."""
