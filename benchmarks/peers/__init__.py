"""The same jobs on other systems that retry: `make bench-peers`. See docs/benchmarks.md for what is measured."""
