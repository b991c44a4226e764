"""Stores for records: memory, SQLite, OpenSearch, and a pair of two for outages, all with the contract of
`stores.base`.
"""
