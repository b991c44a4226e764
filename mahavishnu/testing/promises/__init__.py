"""The promises of a store by topic; `mahavishnu.testing.contract` puts them together."""
