"""The rules, as pure functions on frozen values: standard library only, no I/O, no clock reads."""
