"""Speed, measured as ratios: ours beside the raw client doing the same work in the same run, interleaved."""
