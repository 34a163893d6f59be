"""Local models: agents that ask a model of this machine, `local:DIR`. What it reads and writes is what it was trained on.

`companyos eval` has it work many episodes at once, as in training; `agent` plays one, for whoever calls agents one by one.
`Decoding` says how calls are chosen: by the likeliest token each time, unless `--temperature` or `--repeats` say otherwise.
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
from companyos.train.data.turns import BEGINS, LINES, PROMPTED, Progress, aside_of, split
from companyos.train.model.models import Learner, check_model, device_named, load

_ROWS = 1024  # episodes at work at once, where there are so many
_GREEDY = Decoding()


class Voice:
    """A model that goes on where a script ends. What it has read it need not again."""

    def __init__(self, learner: Learner) -> None:
        import torch

        self.learner = learner
        size = learner.model.get_output_embeddings().weight.shape[0]
        texts = {token: learner.decode([token]) for token in range(size)}
        self._ends = [token for token, text in texts.items() if "\n" in text]
        self._newline = learner.encode("\n")[0]
        self._aside = aside_of(texts, LINES) if learner.working else None
        self._torch = torch
        self._cache: Any = None
        self._read: list[int] = []  # the tokens that the cache is of

    def turn(self, script: list[int], most: int, temperature: float, luck: Any) -> list[int]:
        """The next turn after a script, of so many tokens at most. `luck` is a generator of random numbers."""
        progress, said = Progress(self._ends, most, self._aside), list[int]()
        while not progress.over:
            if progress.state == PROMPTED and self._aside is not None:
                token = self._aside.prompt
            elif progress.must_end:
                token = self._newline
            else:
                scores = self._scores([*script, *said])
                if self._aside is not None and progress.state == BEGINS and not progress.may_work:
                    scores[list(self._aside.marks)] = -self._torch.inf
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
        """What a model thinks of every token of its vocabulary as the next one."""
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
    """How many tokens two scripts begin with alike."""
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


class Local:
    """One episode of a model."""

    def __init__(self, voice: Voice, decoding: Decoding = _GREEDY, seed: int = 0, reserve: int = 0) -> None:
        import torch

        learner = voice.learner
        self.usage: list[Usage] = []
        self.working: tuple[str, ...] = ()  # that it said before its last call
        self._voice = voice
        self._temperature = decoding.temperature
        self._luck = torch.Generator().manual_seed(seed)
        self._most = reserve or learner.reserve
        self._script = Script(learner.encode, learner.limit, self._most)
        self._toolbox = ALL_TOOLS  # until it is known which are offered
        self._repeats = Repeats(decoding.repeats)
        self._line, self._wrong = "", ""  # its last line, and what was wrong with it
        self._moved = False

    def act(self, obs: Observation) -> Any:
        """The call of its next line, or the line itself where that is none: then it hears what is wrong."""
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
        script.say(said, len(said) - len(self._voice.learner.encode(spoken(self._line))) if self.working else 0)
        call = parse_line(self._line, self._toolbox)
        self._wrong, self._moved = call if isinstance(call, str) else "", moves(call, self._toolbox)
        return self._line if self._wrong else call

    def _say(self) -> list[int]:
        """A turn, drawn until its call may be made."""
        while True:
            temperature = self._repeats.temperature(self._temperature)
            said = self._voice.turn(self._script.tokens, self._most, temperature, self._luck)
            text = self._voice.learner.decode(said)
            self.working, self._line = split(text) if self._voice.learner.working else ((), text.strip())
            if not self._repeats.refuse(self._line):
                return said


class LocalModel:
    """A model of this machine that is measured. Greedily, the same episode goes the same way every time."""

    waits = False

    def __init__(self, folder: str, decoding: Decoding) -> None:
        self._folder, self._decoding = folder, decoding

    def agent(self, task_id: str, trial: int) -> Local:
        return Local(_voice(self._folder), self._decoding, seed_of(task_id, trial))

    def play(self, task_ids: Sequence[str], reward: str) -> Iterator[tuple[int, CompanyEnv, tuple[Usage, ...]]]:
        """Many at once: each with its number, as it ends."""
        from companyos.train.decoding.rollout import Played, Spent, Tongue, as_they_end
        from companyos.train.decoding.speakers import speaker_for

        learner, decoding = _voice(self._folder).learner, self._decoding
        tongue = Tongue(learner)
        speaker = speaker_for(learner, min(_ROWS, len(task_ids)))
        how = learner.limit, learner.reserve, reward, 0, decoding
        episodes = (Played(task_id, decoding.temperature == 0, tongue, *how) for task_id in task_ids)
        for number, played in as_they_end(speaker, episodes, Spent()):
            yield number, played.env, tuple(played.usage)

    def lacks(self, tasks: Sequence[str], trials: int) -> str:
        try:
            check_model(self._folder)
        except Misuse as mistake:
            return str(mistake)
        return ""


def open_local(folder: str, options: Mapping[str, str] | None = None) -> AgentFactory:
    """The model in a directory. It is loaded by whoever plays."""
    try:
        return LocalModel(folder, msgspec.convert(dict(options or {}), Decoding, strict=False))
    except msgspec.ValidationError as error:
        raise Misuse(f"local:{folder}: {error}") from None


@cache
def _voice(folder: str) -> Voice:
    return Voice(load(folder, device_named("auto")))
