"""What monitoring is told: numbers, traces and log lines. It counts and writes, and decides nothing."""
