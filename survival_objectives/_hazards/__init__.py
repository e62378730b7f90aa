"""Hazards: rows of risk sets, linear and boosted members, their training and the fitted mixture."""
