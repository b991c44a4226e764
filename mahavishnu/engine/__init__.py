"""How failures become letters, and how due letters are retried: attempts, each a pipeline, and their processor."""
