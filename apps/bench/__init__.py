"""Measured comparisons with other runtimes, same weights, same run: `python -m apps.bench`."""
