"""What kind of failure was it? Rules, plugins, and the chain that asks them."""
