"""Language models: any that answers behind an OpenAI-compatible endpoint, as agents.

A model is asked for tool calls; where its endpoint takes no tools, or where one says so, for a line of text. Whatever comes
back, or does not, is worth a step: what is no call is sent as it is, refused as no action, and counted.
"""

import os
from collections import deque
from collections.abc import Sequence
from functools import cache
from threading import Lock
from typing import Any, Literal

import msgspec

from companyos.agents.agent import Usage
from companyos.agents.llm.conversation import Conversation, size_of
from companyos.agents.llm.endpoint import TRIES, Endpoint, NoAnswer
from companyos.agents.llm.replies import NOTHING, Asked, NotAReply, Reply, by_line, by_tools, read_reply
from companyos.company import ALL_TOOLS, Toolbox, toolbox_of
from companyos.core.errors import BadChoice
from companyos.env.chat import Message, at_length, in_brief, prompt
from companyos.env.observations import Observation

_GREETING = "Good morning! Are you there?"
_GREETING_TRIES, _GREETING_TOKENS = 3, 16
_CHARACTERS = 2.5  # a token, until the endpoint has counted some: ids and numbers take many
_BRIEF_TOKENS = 400  # what is needed at least beside the tools: the brief, a call and its reply
_SAFELY = 0.95  # of the characters that a token had so far: the next ones may have fewer
_SHORTER, _SHORTENINGS = 0.75, 4  # where the endpoint finds a request too long
_NOTED = 200  # characters of what went wrong


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a model is asked. `api_key_env` names the variable that holds the key: the key itself is written nowhere."""

    base_url: str = ""
    api_key_env: str = ""
    form: Literal["auto", "tools", "text"] = "auto"
    temperature: float | None = None
    max_tokens: int = 2048
    context: int = 32768
    timeout: float = 120.0
    price_in: float = 0.0  # for a million tokens
    price_out: float = 0.0

    def cost(self, reply: Reply) -> float:
        return (reply.tokens_in * self.price_in + reply.tokens_out * self.price_out) / 1e6


@cache
def open_model(name: str, options: tuple[tuple[str, str], ...]) -> "Model":
    """The model of this name; the same object for the same options, so that all who ask share its connections."""
    try:
        return Model(name, msgspec.convert(dict(options), Settings, strict=False))
    except msgspec.ValidationError as error:
        raise BadChoice("option", str(error), Settings.__struct_fields__) from None


class Manner(msgspec.Struct, frozen=True):
    """How an endpoint wants to be asked, as far as that was found out: servers differ in what they take."""

    form: str
    limit: str = "max_tokens"  # what the field is called that bounds an answer
    tokens: int = 0  # that the greeting took: the prompt and the tools, and little else
    characters: float = _CHARACTERS  # a token


class Model:
    """A language model that is measured: it gives an agent for each episode."""

    waits = True

    def __init__(self, name: str, settings: Settings) -> None:
        self.name = name
        self.settings = settings
        key = os.environ.get(settings.api_key_env, "")
        if settings.api_key_env and not key:
            raise BadChoice("variable", settings.api_key_env, ["one that is set and holds the key"])
        self._endpoint = Endpoint(settings.base_url, key, settings.timeout)
        self._greeted: Manner | None = None
        self._greeting = Lock()

    def agent(self, task_id: str, trial: int) -> "LanguageModel":
        return LanguageModel(self)

    def lacks(self, tasks: Sequence[str], trials: int) -> str:
        room = self.settings.context - self.settings.max_tokens
        try:
            needed = self.manner.tokens + _BRIEF_TOKENS
        except (NoAnswer, NotAReply) as silence:
            return f"no answer from {self.name} at {self._endpoint.url}: {silence}"
        if needed > room:
            return f"a context of {self.settings.context} tokens is too short: it takes about {needed} beside the answer's"
        return ""

    @property
    def manner(self) -> Manner:
        """How it wants to be asked: found out by greeting it, once."""
        with self._greeting:
            if self._greeted is None:
                self._greeted = self._greet()
            return self._greeted

    def _greet(self) -> Manner:
        manner = Manner("text" if self.settings.form == "text" else "tools")
        while True:
            messages = [{"role": "system", "content": self.system(manner.form, ALL_TOOLS)}]
            messages.append({"role": "user", "content": _GREETING})
            try:
                reply, _ = self._ask(messages, ALL_TOOLS, manner, _GREETING_TRIES, _GREETING_TOKENS)
            except NoAnswer as silence:
                if manner.limit == "max_tokens" and silence.speaks_of("max_completion_tokens"):
                    manner = msgspec.structs.replace(manner, limit="max_completion_tokens")
                elif manner.form == "tools" and self.settings.form == "auto" and silence.speaks_of("tool"):
                    manner = msgspec.structs.replace(manner, form="text")
                else:
                    raise
                continue
            size = self.fixed_size(manner.form, ALL_TOOLS) + size_of(messages)
            tokens = reply.tokens_in or int(size / _CHARACTERS)
            return msgspec.structs.replace(manner, tokens=tokens, characters=size / tokens)

    def ask(self, messages: list[Message], toolbox: Toolbox) -> tuple[Reply, int]:
        """What the model says to this, and how many requests came to nothing before."""
        return self._ask(messages, toolbox, self.manner, TRIES, self.settings.max_tokens)

    def _ask(
        self, messages: list[Message], toolbox: Toolbox, manner: Manner, tries: int, most_tokens: int
    ) -> tuple[Reply, int]:
        request: dict[str, Any] = {"model": self.name, "messages": messages}
        request[manner.limit] = min(most_tokens, self.settings.max_tokens)
        if manner.form == "tools":
            request["tools"] = toolbox.schemas
        if self.settings.temperature is not None:
            request["temperature"] = self.settings.temperature
        answer = self._endpoint.ask(request, tries)
        return read_reply(answer.body), answer.failures

    def system(self, form: str, toolbox: Toolbox) -> str:
        """The prompt; where tools are not sent apart they stand in it, at length if there is room for that."""
        if form == "tools":
            return prompt(form)
        told = at_length(toolbox)
        return prompt(form).format(tools=in_brief(toolbox) if len(told) / _CHARACTERS > self.settings.context / 3 else told)

    def fixed_size(self, form: str, toolbox: Toolbox) -> int:
        """The characters of each request that are no message."""
        return size_of(toolbox.schemas) if form == "tools" else 0


class LanguageModel:
    """One episode of a model. It keeps the conversation, and what each turn cost."""

    def __init__(self, model: Model) -> None:
        self.usage: list[Usage] = []
        self._model = model
        self._talk: Conversation | None = None
        self._toolbox = ALL_TOOLS  # until it is known which are offered
        self._queue: deque[Asked] = deque()  # the calls of its last message that are still to be made
        self._characters = model.manner.characters

    def act(self, obs: Observation) -> Any:
        """The next call of the model's last message; after the last of them it is asked again."""
        form = self._model.manner.form
        if self._talk is None:
            self._toolbox = toolbox_of(obs.scene.offered)
            self._talk = Conversation(form, self._model.system(form, self._toolbox), obs.text)
        else:
            self._talk.hear(obs)
        spent = Usage(form=form)
        if not self._queue:
            spent = self._ask(self._talk, spent)
        asked = self._queue.popleft()
        self.usage.append(msgspec.structs.replace(spent, note=spent.note or asked.wrong[:_NOTED]))
        return asked.action

    def _ask(self, talk: Conversation, spent: Usage) -> Usage:
        said = NOTHING
        try:
            reply, failures = self._answer(talk)
            said = (by_tools if spent.form == "tools" else by_line)(reply, self._toolbox)
            cost = self._model.settings.cost(reply)
            spent = Usage(reply.tokens_in, reply.tokens_out, cost, failures, form=spent.form)
        except NoAnswer as silence:
            spent = Usage(failures=silence.failures, note=str(silence)[:_NOTED], form=spent.form)
        except NotAReply as garbage:
            spent = Usage(failures=1, note=str(garbage)[:_NOTED], form=spent.form)
        talk.say(said)
        self._queue.extend(said.asked)
        return spent

    def _answer(self, talk: Conversation) -> tuple[Reply, int]:
        """The model's answer, to less where the endpoint says that it was too much."""
        settings, fixed = self._model.settings, self._model.fixed_size(self._model.manner.form, self._toolbox)
        for _ in range(_SHORTENINGS):
            room = (settings.context - settings.max_tokens) * self._characters * _SAFELY - fixed
            messages = talk.messages(room)
            try:
                reply, failures = self._model.ask(messages, self._toolbox)
            except NoAnswer as silence:
                if not silence.too_long:
                    raise
                self._characters *= _SHORTER
                continue
            if reply.tokens_in:
                self._characters = (fixed + size_of(messages)) / reply.tokens_in
            return reply, failures
        raise NoAnswer("every request was too long for it", _SHORTENINGS)
