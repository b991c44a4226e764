"""The built-in rules: what types, attributes, codes and texts say about the kind of a failure."""
