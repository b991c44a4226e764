"""How due letters are retried: one attempt as a pipeline, and the processor that runs many."""
