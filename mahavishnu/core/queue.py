"""The services of the queue: one for each concern."""
