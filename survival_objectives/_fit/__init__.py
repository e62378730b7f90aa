"""Training, free of any engine."""
