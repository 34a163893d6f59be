"""Wilson's confidence interval for a share."""

import math


def wilson_interval(share: float, draws: float, quantile: float = 1.96) -> tuple[float, float]:
    """Return the interval of a share that was seen in this many independent draws; 1.96 gives 95 %."""
    middle = 1 + quantile * quantile / draws
    centre = (share + quantile * quantile / (2 * draws)) / middle
    half = quantile * math.sqrt(share * (1 - share) / draws + quantile * quantile / (4 * draws * draws)) / middle
    # Rounding must not leave the share itself outside.
    return max(0.0, min(share, centre - half)), min(1.0, max(share, centre + half))
