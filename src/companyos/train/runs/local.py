"""Agents for trained models in a directory (`local:DIR`). They read and write scripts, as in training.

`companyos eval` plays many episodes at once, as in training; `LocalModel.agent` plays a single one. `Decoding` says how
calls are sampled: the most likely token each time, unless `--temperature` or `--repeats` say otherwise.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import msgspec

from companyos.agents.agent import Usage
from companyos.company import ALL_TOOLS, toolbox_of
from companyos.core.errors import Misuse
from companyos.env import CompanyEnv
from companyos.env.line_syntax import parse_line
from companyos.env.observations import Observation
from companyos.evaluate.runs.roster import AgentFactory, seed_of
from companyos.train.data.repeats import Decoding, Repeats, moves
from companyos.train.data.script import Script, heard, opening, spoken
from companyos.train.data.turns import BEGINS, LINES, PROMPTED, Progress, split, working_syntax
from companyos.train.model.models import Learner, check_model, device_named, load

_ROWS = 1024  # most episodes that are played at the same time
_GREEDY = Decoding()


class TurnGenerator:
    """Generates turns of a model after a script. Keeps the keys and values of the tokens that it has read."""

    def __init__(self, learner: Learner) -> None:
        import torch

        self.learner = learner
        size = learner.model.get_output_embeddings().weight.shape[0]
        texts = {token: learner.decode([token]) for token in range(size)}
        self._ends = [token for token, text in texts.items() if "\n" in text]
        self._newline = learner.encode("\n")[0]
        self._syntax = working_syntax(texts, LINES) if learner.working else None
        self._torch = torch
        self._cache: Any = None
        self._read: list[int] = []  # the tokens in the cache

    def turn(self, script: list[int], most: int, temperature: float, luck: Any) -> list[int]:
        """Return the next turn after a script, of at most `most` tokens. `luck` is a random number generator."""
        progress, said = Progress(self._ends, most, self._syntax), list[int]()
        while not progress.over:
            if progress.state == PROMPTED and self._syntax is not None:
                token = self._syntax.prompt
            elif progress.must_end:
                token = self._newline
            else:
                scores = self._scores([*script, *said])
                if self._syntax is not None and progress.state == BEGINS and not progress.may_work:
                    scores[list(self._syntax.marks)] = -self._torch.inf
                token = self._drawn(scores, temperature, luck)
            said.append(token)
            progress.take(token)
        return said

    def _drawn(self, scores: Any, temperature: float, luck: Any) -> int:
        if temperature == 0:
            return int(scores.argmax())
        likely = (scores.float() / temperature).softmax(-1).cpu()
        return int(self._torch.multinomial(likely, 1, generator=luck))

    def _scores(self, tokens: list[int]) -> Any:
        """Return the logits of the next token."""
        from transformers import DynamicCache

        known = _common(self._read, tokens[:-1])
        if known == 0:
            self._cache = DynamicCache()
        elif known < len(self._read):
            self._cache.crop(known - len(self._read))
        new = self._torch.tensor([tokens[known:]], device=self.learner.device)
        with self._torch.inference_mode():
            seen = self.learner.model(input_ids=new, past_key_values=self._cache, use_cache=True, logits_to_keep=1)
        self._read = tokens
        return seen.logits[0, -1].clone()


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    """Return how many first tokens two scripts share."""
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


class LocalAgent:
    """An agent that plays one episode with a model."""

    def __init__(self, generator: TurnGenerator, decoding: Decoding = _GREEDY, seed: int = 0, reserve: int = 0) -> None:
        import torch

        learner = generator.learner
        self.usage: list[Usage] = []
        self.working: tuple[str, ...] = ()  # the working lines before its last call
        self._generator = generator
        self._temperature = decoding.temperature
        self._luck = torch.Generator().manual_seed(seed)
        self._most = reserve or learner.reserve
        self._script = Script(learner.encode, learner.limit, self._most)
        self._toolbox = ALL_TOOLS  # until the first observation says which are offered
        self._repeats = Repeats(decoding.repeats)
        self._line, self._wrong = "", ""  # its last line, and the parse error of that line
        self._moved = False

    def act(self, obs: Observation) -> Any:
        """Return the next call, or the line itself if it is not a call; the reply then says what is wrong."""
        script = self._script
        if not script.tokens:
            self._toolbox = toolbox_of(obs.scene.offered)
            script.open(opening(obs))
        else:
            reply = heard(obs, self._wrong)
            self._repeats.hear(self._line, reply, obs.reply.ok and self._moved)
            script.hear(reply)
        said = self._say()
        self.usage.append(Usage(len(script.tokens), len(said), form="text"))
        script.say(said, len(said) - len(self._generator.learner.encode(spoken(self._line))) if self.working else 0)
        call = parse_line(self._line, self._toolbox)
        self._wrong, self._moved = call if isinstance(call, str) else "", moves(call, self._toolbox)
        return self._line if self._wrong else call

    def _say(self) -> list[int]:
        """Sample turns until one has a call that may be made."""
        while True:
            temperature = self._repeats.temperature(self._temperature)
            said = self._generator.turn(self._script.tokens, self._most, temperature, self._luck)
            text = self._generator.learner.decode(said)
            self.working, self._line = split(text) if self._generator.learner.working else ((), text.strip())
            if not self._repeats.refuse(self._line):
                return said


class LocalModel:
    """A trained model in a directory, as a contestant of an evaluation. At temperature 0 it is deterministic."""

    waits = False

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
        speaker = speaker_for(learner, min(_ROWS, len(task_ids)))
        how = learner.limit, learner.reserve, reward, 0, decoding
        episodes = (ModelEpisode(task_id, decoding.temperature == 0, tokenizer, *how) for task_id in task_ids)
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
    return TurnGenerator(load(folder, device_named("auto")))
