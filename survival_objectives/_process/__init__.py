"""The running process: threads, progress on standard error, and checkpoints on disk."""
