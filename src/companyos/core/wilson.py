"""Wilson's confidence interval for a share."""

import math


def wilson_interval(share: float, sample_size: float, quantile: float = 1.96) -> tuple[float, float]:
    """Return the confidence interval of a share that was observed in a sample of independent observations.

    `sample_size` may be an effective sample size, which need not be a whole number. `quantile` is that of the normal
    distribution: 1.96 gives a 95 % interval.
    """
    denominator = 1 + quantile * quantile / sample_size
    centre = (share + quantile * quantile / (2 * sample_size)) / denominator
    variance = share * (1 - share) / sample_size + quantile * quantile / (4 * sample_size * sample_size)
    half_width = quantile * math.sqrt(variance) / denominator
    # The interval must contain the share itself, in spite of rounding.
    return max(0.0, min(share, centre - half_width)), min(1.0, max(share, centre + half_width))
