"""Lifecycle tasks: what runs now, so that what hangs is seen, and a retry goes on where the first run failed."""
