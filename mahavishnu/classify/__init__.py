"""Classification of failures: rules, plugins, and the chain that asks them."""
