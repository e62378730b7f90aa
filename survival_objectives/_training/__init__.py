"""The one way into a training: parameters, their limits, and the choice of the method."""
