"""Bulk runs: one verb over a frozen list of letters, in waves, under a lease."""
