"""Numbers over many episodes: metrics, confidence intervals, comparisons and dose-response curves."""
