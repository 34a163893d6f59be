"""Agents for trained models in a directory (`local:DIR`). They read and write scripts, as in training.

`companyos eval` plays many episodes at once, as in training; `LocalModel.agent` plays a single one. `Decoding` says how
calls are sampled: the most likely token each time, unless `--temperature` or `--repeats` say otherwise.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from threading import Lock
from typing import Any

import msgspec

from companyos.agents.agent import Usage
from companyos.company import ALL_TOOLS, toolbox_of
from companyos.core.errors import Misuse
from companyos.env import CompanyEnv
from companyos.env.line_syntax import parse_line
from companyos.env.observations import Observation
from companyos.evaluate.runs.roster import AgentFactory, seed_of
from companyos.train.data.repeats import Decoding, Repeats, changes_world
from companyos.train.data.script import Script, opening, reply_text, turn_text
from companyos.train.data.turns import BEGINS, MAX_WORKING_LINES, PROMPT_DUE, TurnProgress, split_turn, working_syntax
from companyos.train.model.models import Learner, check_model, device_named, load

# Episodes that are played at the same time. A row of 4,096 tokens takes 190 MB of cache for SmolLM2 in float32.
_MAX_ROWS, _MAX_ROWS_ON_CPU = 1024, 16
_MAX_CACHES = 4  # of agents that are played one by one, for example for visitors of a page
_GREEDY = Decoding()


class ScriptCache:
    """The keys and values of the tokens that a model has read of one script."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.keys_and_values: Any = None


class TurnGenerator:
    """Generates turns of a model after scripts. Agents on several threads can share it.

    It keeps the caches of the scripts that were read last, so that episodes which are played in turns are not read again.
    """

    def __init__(self, learner: Learner) -> None:
        import torch

        self.learner = learner
        size = learner.model.get_output_embeddings().weight.shape[0]
        texts = {token: learner.decode([token]) for token in range(size)}
        self._line_ends = [token for token, text in texts.items() if "\n" in text]
        self._newline = learner.encode("\n")[0]
        self._syntax = working_syntax(texts, MAX_WORKING_LINES) if learner.working else None
        self._torch = torch
        self._lock = Lock()
        self._caches: list[ScriptCache] = []  # those in use, the least recently used first

    def turn(self, script: list[int], cache: ScriptCache, max_tokens: int, temperature: float, generator: Any) -> list[int]:
        """Return the next turn after a script, of at most `max_tokens` tokens. `generator` draws random numbers."""
        with self._lock:
            self._use(cache)
            return self._turn(script, cache, max_tokens, temperature, generator)

    def _use(self, cache: ScriptCache) -> None:
        """Note that a cache is used now. Empty the least recently used cache if there are too many."""
        self._caches = [*(other for other in self._caches if other is not cache), cache]
        if len(self._caches) > _MAX_CACHES:
            oldest = self._caches.pop(0)
            oldest.tokens, oldest.keys_and_values = [], None

    def _turn(self, script: list[int], cache: ScriptCache, max_tokens: int, temperature: float, generator: Any) -> list[int]:
        progress, turn = TurnProgress(self._line_ends, max_tokens, self._syntax), list[int]()
        while not progress.over:
            if progress.state == PROMPT_DUE and self._syntax is not None:
                token = self._syntax.prompt
            elif progress.must_end:
                token = self._newline
            else:
                scores = self._scores([*script, *turn], cache)
                if self._syntax is not None and progress.state == BEGINS and not progress.may_work:
                    scores[list(self._syntax.marks)] = -self._torch.inf
                token = self._drawn(scores, temperature, generator)
            turn.append(token)
            progress.take(token)
        return turn

    def _drawn(self, scores: Any, temperature: float, generator: Any) -> int:
        """Draw a token from its logits."""
        if temperature == 0:
            return int(scores.argmax())
        probabilities = (scores.float() / temperature).softmax(-1).cpu()
        return int(self._torch.multinomial(probabilities, 1, generator=generator))

    def _scores(self, tokens: list[int], cache: ScriptCache) -> Any:
        """Return the logits of the next token."""
        from transformers import DynamicCache

        known = _common_length(cache.tokens, tokens[:-1])
        if known == 0:
            cache.keys_and_values = DynamicCache()
        elif known < len(cache.tokens):
            cache.keys_and_values.crop(known - len(cache.tokens))
        new = self._torch.tensor([tokens[known:]], device=self.learner.device)
        with self._torch.inference_mode():
            output = self.learner.model(
                input_ids=new, past_key_values=cache.keys_and_values, use_cache=True, logits_to_keep=1
            )
        cache.tokens = tokens
        return output.logits[0, -1].clone()


def _common_length(cached: Sequence[int], script: Sequence[int]) -> int:
    """Return how many first tokens of a script are cached."""
    pairs = enumerate(zip(cached, script, strict=False))
    return next((index for index, (a, b) in pairs if a != b), min(len(cached), len(script)))


class LocalAgent:
    """An agent that plays one episode with a model."""

    def __init__(self, generator: TurnGenerator, decoding: Decoding = _GREEDY, seed: int = 0, reserve: int = 0) -> None:
        import torch

        learner = generator.learner
        self.usage: list[Usage] = []
        self.working: tuple[str, ...] = ()  # the working lines before its last call
        self._generator = generator
        self._temperature = decoding.temperature
        self._random = torch.Generator().manual_seed(seed)
        self._turn_tokens = reserve or learner.reserve
        self._script = Script(learner.encode, learner.limit, self._turn_tokens)
        self._cache = ScriptCache()
        self._toolbox = ALL_TOOLS  # until the first observation says which are offered
        self._repeats = Repeats(decoding.repeats)
        self._line, self._parse_error = "", ""  # its last line, and the parse error of that line
        self._changed_world = False  # whether its last call may have

    def act(self, obs: Observation) -> Any:
        """Return the next call, or the line itself if it is not a call; the reply then says what is wrong."""
        script = self._script
        if not script.tokens:
            self._toolbox = toolbox_of(obs.scene.offered)
            script.open(opening(obs))
        else:
            reply = reply_text(obs, self._parse_error)
            self._repeats.record(self._line, reply, obs.reply.ok and self._changed_world)
            script.add_reply(reply)
        turn = self._sample_turn()
        self.usage.append(Usage(len(script.tokens), len(turn), form="text"))
        call_tokens = len(self._generator.learner.encode(turn_text(self._line)))
        script.add_turn(turn, len(turn) - call_tokens if self.working else 0)
        call = parse_line(self._line, self._toolbox)
        self._parse_error = call if isinstance(call, str) else ""
        self._changed_world = changes_world(call, self._toolbox)
        return self._line if self._parse_error else call

    def _sample_turn(self) -> list[int]:
        """Sample turns until one has a call that may be made. Return its tokens."""
        while True:
            temperature = self._repeats.temperature(self._temperature)
            turn = self._generator.turn(self._script.tokens, self._cache, self._turn_tokens, temperature, self._random)
            text = self._generator.learner.decode(turn)
            self.working, self._line = split_turn(text) if self._generator.learner.working else ((), text.strip())
            if not self._repeats.refuse(self._line):
                return turn


class LocalModel:
    """A trained model in a directory, as a contestant of an evaluation. At temperature 0 it is deterministic."""

    waits = False  # it computes here and does not wait for a server

    def __init__(self, folder: str, decoding: Decoding) -> None:
        self._folder, self._decoding = folder, decoding

    def agent(self, task_id: str, trial: int) -> LocalAgent:
        return LocalAgent(_generator(self._folder), self._decoding, seed_of(task_id, trial))

    def play(self, task_ids: Sequence[str], reward: str) -> Iterator[tuple[int, CompanyEnv, tuple[Usage, ...]]]:
        """Play many episodes at once. Yield each with its number when it ends."""
        from companyos.train.decoding.rollout import ModelEpisode, TimeSpent, as_they_end
        from companyos.train.decoding.speakers import speaker_for

        learner, decoding = _generator(self._folder).learner, self._decoding
        tokenizer = learner.script_tokenizer()
        max_rows = _MAX_ROWS if learner.device.type == "cuda" else _MAX_ROWS_ON_CPU
        speaker = speaker_for(learner, min(max_rows, len(task_ids)))
        episodes = (
            ModelEpisode(
                task_id,
                greedy=decoding.temperature == 0,
                tokenizer=tokenizer,
                limit=learner.limit,
                reserve=learner.reserve,
                reward=reward,
                decoding=decoding,
            )
            for task_id in task_ids
        )
        for number, played in as_they_end(speaker, episodes, TimeSpent()):
            yield number, played.env, tuple(played.usage)

    def lacks(self, tasks: Sequence[str], trials: int) -> str:
        try:
            check_model(self._folder)
        except Misuse as mistake:
            return str(mistake)
        return ""


def open_local(folder: str, options: Mapping[str, str] | None = None) -> AgentFactory:
    """Return the model in a directory. It is loaded when it first plays."""
    try:
        return LocalModel(folder, msgspec.convert(dict(options or {}), Decoding, strict=False))
    except msgspec.ValidationError as error:
        raise Misuse(f"local:{folder}: {error}") from None


@cache
def _generator(folder: str) -> TurnGenerator:
    device = device_named("auto")
    if device == "cpu":
        _use_idle_cores()
    return TurnGenerator(load(folder, device))


def _use_idle_cores() -> None:
    """Let torch use only as many threads as this machine has idle cores.

    Threads wait for each other many times in each step. While other processes used both cores of a machine, a step with two
    threads took 3 to 8 times as long as with one.
    """
    import torch

    busy = round(os.getloadavg()[0]) if hasattr(os, "getloadavg") else 0
    torch.set_num_threads(max(1, torch.get_num_threads() - busy))
