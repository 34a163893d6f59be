"""Wilson's confidence interval for a share."""

import math


def wilson_interval(share: float, draws: float, quantile: float = 1.96) -> tuple[float, float]:
    """Return the interval of a share that was observed in this many independent draws.

    `quantile` is that of the normal distribution: 1.96 gives a 95 % interval.
    """
    denominator = 1 + quantile * quantile / draws
    centre = (share + quantile * quantile / (2 * draws)) / denominator
    variance = share * (1 - share) / draws + quantile * quantile / (4 * draws * draws)
    half_width = quantile * math.sqrt(variance) / denominator
    # The interval must contain the share itself, in spite of rounding.
    return max(0.0, min(share, centre - half_width)), min(1.0, max(share, centre + half_width))
