"""Where records live: memory, SQLite, OpenSearch, and a pair of them for outages. All keep the same contract."""
