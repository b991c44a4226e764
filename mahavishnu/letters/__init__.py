"""letters."""
