"""Credit for single calls: a lost attempt is blamed only for the call that lost it.

Plain GRPO gives all calls of an attempt the same advantage, so a failure also makes its good calls less likely. An
environment that can be forked tells at which call an attempt was lost (`evaluate.judge.blame`). Exact credit blames that
call alone. The calls before it kept the task winnable, and the calls after it could not change the result.
"""

from collections.abc import Sequence

from companyos.core.episode import Transcript
from companyos.core.parallel import pooled
from companyos.env import CompanyEnv
from companyos.evaluate.judge.blame import decisive_call

PLAIN, EXACT = "plain", "exact"
_CHUNK = 4  # attempts that a worker process gets at once


def call_factors(episodes: Sequence[CompanyEnv], blame: float, workers: int) -> list[list[float]]:
    """Return, for each episode and each of its calls, the factor by which the advantage of the episode is multiplied.

    In a success all factors are 1. In a failure the factor of the decisive call is `blame`, and all others are 0.
    """
    failures = [number for number, env in enumerate(episodes) if not env.success]
    transcripts = [episodes[number].transcript() for number in failures]
    decisive = dict(zip(failures, pooled(_decisive_call, transcripts, workers, _CHUNK), strict=True))
    return [
        [blame * (call == decisive[number]) if number in decisive else 1.0 for call in range(1, len(env.turns) + 1)]
        for number, env in enumerate(episodes)
    ]


def _decisive_call(transcript: Transcript) -> int:
    return decisive_call(transcript)
