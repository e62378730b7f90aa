"""Measurements that are too long for the test suite; each module runs with ``python -m``."""
