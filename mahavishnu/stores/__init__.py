"""Stores for records: memory, SQLite, OpenSearch, and a pair of two for outages. All keep the contract of `base`."""
