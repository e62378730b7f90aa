"""The running process: threads, interrupts, progress on standard error, checkpoints on disk."""
