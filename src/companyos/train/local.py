"""Local models: agents that ask a model of this machine, `local:DIR`. What it reads and writes is what it was trained on.

`companyos eval` has it work many episodes at once, as in training; `agent` plays one, for whoever calls agents one by one.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from companyos.agents.agent import Usage
from companyos.apps import ALL_TOOLS, toolbox_of
from companyos.env import CompanyEnv
from companyos.evaluate.roster import Contestant
from companyos.lines import parse_line
from companyos.observe import Observation
from companyos.options import Misuse
from companyos.train.models import Learner, check_model, device_named, load
from companyos.train.script import RESERVE, Script, heard, opening

_ROWS = 1024  # episodes at work at once, where there are so many


class Voice:
    """A model that goes on where a script ends, by the likeliest token each time. What it has read it need not again."""

    def __init__(self, learner: Learner) -> None:
        import torch

        self.learner = learner
        vocabulary = range(learner.model.get_output_embeddings().weight.shape[0])
        self._ends = frozenset(token for token in vocabulary if "\n" in learner.decode([token]))
        self._newline = learner.encode("\n")
        self._torch = torch
        self._cache: Any = None
        self._read: list[int] = []  # the tokens that the cache is of

    def line(self, script: list[int], most: int) -> list[int]:
        """The next line after a script, its newline included, of so many tokens at most."""
        said: list[int] = []
        while len(said) < most - 1:
            said.append(self._likeliest([*script, *said]))
            if said[-1] in self._ends:
                return said
        return said + self._newline

    def _likeliest(self, tokens: list[int]) -> int:
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
        return int(seen.logits[0, -1].argmax())


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    """How many tokens two scripts begin with alike."""
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


class Local:
    """One episode of a model."""

    def __init__(self, voice: Voice, reserve: int = RESERVE) -> None:
        self.usage: list[Usage] = []
        self._voice = voice
        self._script = Script(voice.learner.encode, voice.learner.limit, reserve)
        self._most = reserve
        self._toolbox = ALL_TOOLS  # until it is known which are offered
        self._wrong = ""  # with the last line

    def act(self, obs: Observation) -> Any:
        """The call of its next line, or the line itself where that is none: then it hears what is wrong."""
        script = self._script
        if not script.tokens:
            self._toolbox = toolbox_of(obs.scene.offered)
            script.open(opening(obs))
        else:
            script.hear(heard(obs, self._wrong))
        said = self._voice.line(script.tokens, self._most)
        self.usage.append(Usage(len(script.tokens), len(said), form="text"))
        script.say(said)
        line = self._voice.learner.decode(said).strip()
        call = parse_line(line, self._toolbox)
        self._wrong = call if isinstance(call, str) else ""
        return line if self._wrong else call


class LocalModel:
    """A model of this machine that is measured. The same episode goes the same way every time."""

    waits = False

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def agent(self, task_id: str, trial: int) -> Local:
        return Local(_voice(self._folder))

    def play(self, task_ids: Sequence[str], reward: str) -> Iterator[tuple[int, CompanyEnv, tuple[Usage, ...]]]:
        """Many at once: each with its number, as it ends."""
        from companyos.train.rollout import Played, Spent, Tongue, as_they_end
        from companyos.train.speakers import speaker_of

        learner = _voice(self._folder).learner
        tongue = Tongue(learner)
        speaker = speaker_of(learner.model, learner.decode, min(_ROWS, len(task_ids)), learner.limit, RESERVE)
        episodes = (Played(task_id, True, tongue, learner.limit, RESERVE, reward) for task_id in task_ids)
        for number, played in as_they_end(speaker, episodes, Spent()):
            yield number, played.env, tuple(played.usage)

    def lacks(self, tasks: Sequence[str], trials: int) -> str:
        try:
            check_model(self._folder)
        except Misuse as mistake:
            return str(mistake)
        return ""


def open_local(folder: str) -> Contestant:
    """The model in a directory. It is loaded by whoever plays."""
    return LocalModel(folder)


@cache
def _voice(folder: str) -> Voice:
    return Voice(load(folder, device_named("auto")))
