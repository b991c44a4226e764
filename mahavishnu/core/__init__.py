"""The front door: the documented import paths, and the place where the parts are put together."""
