"""The frame of the command line: connection, options, output, and `@command`. Each room has its own commands."""
