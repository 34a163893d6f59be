"""Language models behind an OpenAI-compatible endpoint, as agents.

The model is asked for tool calls, or for a line of text if the endpoint takes no tools or the user wants text. Every answer
costs a step: an answer without a valid call is sent to the environment as it is, which refuses and counts it.
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
from companyos.agents.llm.replies import (
    NOTHING,
    ModelReply,
    NotAReply,
    RequestedCall,
    parse_call_line,
    parse_tool_calls,
    read_reply,
)
from companyos.company import ALL_TOOLS, Toolbox, toolbox_of
from companyos.core.errors import BadChoice
from companyos.env.chat import Message, prompt, tools_in_full, tools_in_short
from companyos.env.observations import Observation

_GREETING = "Good morning! Are you there?"
_GREETING_TRIES, _GREETING_TOKENS = 3, 16
_CHARACTERS_PER_TOKEN = 2.5  # a first estimate; low, because ids and numbers take many tokens
_MIN_EPISODE_TOKENS = 400  # needed besides prompt and tools: the brief, a call and its reply
_SAFETY_FACTOR = 0.95  # on the measured characters per token
_SHORTER, _SHORTENINGS = 0.75, 4  # factor and number of retries when the endpoint finds a request too long
_MAX_NOTE = 200  # characters of an error that are kept


class ModelSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of a model. `api_key_env` names the environment variable with the key; the key itself is never written."""

    base_url: str = ""
    api_key_env: str = ""
    form: Literal["auto", "tools", "text"] = "auto"
    temperature: float | None = None
    max_tokens: int = 2048
    context: int = 32768
    timeout: float = 120.0
    price_in: float = 0.0  # per million tokens
    price_out: float = 0.0

    def cost(self, reply: ModelReply) -> float:
        """Return the price of a reply."""
        return (reply.tokens_in * self.price_in + reply.tokens_out * self.price_out) / 1e6


@cache
def open_model(name: str, options: tuple[tuple[str, str], ...]) -> "Model":
    """Return the model of this name. The same options give the same object, so all agents share its connections."""
    try:
        return Model(name, msgspec.convert(dict(options), ModelSettings, strict=False))
    except msgspec.ValidationError as error:
        raise BadChoice("option", str(error), ModelSettings.__struct_fields__) from None


class RequestFormat(msgspec.Struct, frozen=True):
    """The request format that an endpoint accepts, found out by a first request: servers differ."""

    form: str  # `tools` or `text`
    limit: str = "max_tokens"  # name of the field that limits an answer
    tokens: int = 0  # tokens of the first request: the prompt, the tools and a greeting
    characters_per_token: float = _CHARACTERS_PER_TOKEN


class Model:
    """A language model under evaluation. It makes an agent for each episode."""

    waits = True  # its agents wait for a server, so their episodes run in threads

    def __init__(self, name: str, settings: ModelSettings) -> None:
        self.name = name
        self.settings = settings
        key = os.environ.get(settings.api_key_env, "")
        if settings.api_key_env and not key:
            raise BadChoice("variable", settings.api_key_env, ["one that is set and holds the key"])
        self._endpoint = Endpoint(settings.base_url, key, settings.timeout)
        self._request_format: RequestFormat | None = None
        self._greeting_lock = Lock()

    def agent(self, task_id: str, trial: int) -> "LanguageModel":
        """Return a new agent for one episode."""
        return LanguageModel(self)

    def lacks(self, tasks: Sequence[str], trials: int) -> str:
        """Return why the model cannot be evaluated, or an empty text."""
        tokens_for_requests = self.settings.context - self.settings.max_tokens
        try:
            needed = self.request_format.tokens + _MIN_EPISODE_TOKENS
        except (NoAnswer, NotAReply) as failure:
            return f"no answer from {self.name} at {self._endpoint.url}: {failure}"
        if needed > tokens_for_requests:
            return f"a context of {self.settings.context} tokens is too short: it needs {needed} besides the answer"
        return ""

    @property
    def request_format(self) -> RequestFormat:
        """The request format, found out by one greeting."""
        with self._greeting_lock:
            if self._request_format is None:
                self._request_format = self._greet()
            return self._request_format

    def _greet(self) -> RequestFormat:
        """Send a greeting, in another format if the server refuses one, and return the format that it accepted."""
        request_format = RequestFormat("text" if self.settings.form == "text" else "tools")
        while True:
            messages = [{"role": "system", "content": self.system(request_format.form, ALL_TOOLS)}]
            messages.append({"role": "user", "content": _GREETING})
            try:
                reply, _ = self._ask(messages, ALL_TOOLS, request_format, _GREETING_TRIES, _GREETING_TOKENS)
            except NoAnswer as failure:
                if request_format.limit == "max_tokens" and failure.speaks_of("max_completion_tokens"):
                    request_format = msgspec.structs.replace(request_format, limit="max_completion_tokens")
                elif request_format.form == "tools" and self.settings.form == "auto" and failure.speaks_of("tool"):
                    request_format = msgspec.structs.replace(request_format, form="text")
                else:
                    raise
                continue
            size = self.fixed_size(request_format.form, ALL_TOOLS) + size_of(messages)
            tokens = reply.tokens_in or int(size / _CHARACTERS_PER_TOKEN)
            return msgspec.structs.replace(request_format, tokens=tokens, characters_per_token=size / tokens)

    def ask(self, messages: list[Message], toolbox: Toolbox) -> tuple[ModelReply, int]:
        """Return the model's reply, and the number of failed requests before it."""
        return self._ask(messages, toolbox, self.request_format, TRIES, self.settings.max_tokens)

    def _ask(
        self, messages: list[Message], toolbox: Toolbox, request_format: RequestFormat, tries: int, max_tokens: int
    ) -> tuple[ModelReply, int]:
        request: dict[str, Any] = {"model": self.name, "messages": messages}
        request[request_format.limit] = min(max_tokens, self.settings.max_tokens)
        if request_format.form == "tools":
            request["tools"] = toolbox.schemas
        if self.settings.temperature is not None:
            request["temperature"] = self.settings.temperature
        answer = self._endpoint.ask(request, tries)
        return read_reply(answer.body), answer.failures

    def system(self, form: str, toolbox: Toolbox) -> str:
        """Return the system prompt. In text form it contains the tools, in full if they fit into a third of the context."""
        if form == "tools":
            return prompt(form)
        tools = tools_in_full(toolbox)
        if len(tools) / _CHARACTERS_PER_TOKEN > self.settings.context / 3:
            tools = tools_in_short(toolbox)
        return prompt(form).format(tools=tools)

    def fixed_size(self, form: str, toolbox: Toolbox) -> int:
        """Return the characters of each request besides the messages."""
        return size_of(toolbox.schemas) if form == "tools" else 0


class LanguageModel:
    """The agent for one episode. It keeps the conversation and the usage of each turn."""

    def __init__(self, model: Model) -> None:
        self.usage: list[Usage] = []
        self._model = model
        self._conversation: Conversation | None = None
        self._toolbox = ALL_TOOLS  # replaced by the offered tools at the first observation
        self._queue: deque[RequestedCall] = deque()  # calls of the last message that were not made yet
        self._characters_per_token = model.request_format.characters_per_token

    def act(self, obs: Observation) -> Any:
        """Return the next call of the model's last message. Ask the model again after the last one."""
        form = self._model.request_format.form
        if self._conversation is None:
            self._toolbox = toolbox_of(obs.scene.offered)
            self._conversation = Conversation(form, self._model.system(form, self._toolbox), obs.text)
        else:
            self._conversation.hear(obs)
        usage = Usage(form=form)
        if not self._queue:
            usage = self._ask(self._conversation, form)
        requested = self._queue.popleft()
        self.usage.append(msgspec.structs.replace(usage, note=usage.note or requested.wrong[:_MAX_NOTE]))
        return requested.action

    def _ask(self, conversation: Conversation, form: str) -> Usage:
        """Ask the model, add its message to the conversation and its calls to the queue, and return the usage."""
        message = NOTHING
        try:
            reply, failures = self._reply(conversation)
            message = (parse_tool_calls if form == "tools" else parse_call_line)(reply, self._toolbox)
            cost = self._model.settings.cost(reply)
            usage = Usage(reply.tokens_in, reply.tokens_out, cost, failures, form=form)
        except NoAnswer as failure:
            usage = Usage(failures=failure.failures, note=str(failure)[:_MAX_NOTE], form=form)
        except NotAReply as invalid:
            usage = Usage(failures=1, note=str(invalid)[:_MAX_NOTE], form=form)
        conversation.say(message)
        self._queue.extend(message.calls)
        return usage

    def _reply(self, conversation: Conversation) -> tuple[ModelReply, int]:
        """Ask the model. Shorten the conversation and retry if the endpoint says that it is too long."""
        settings, fixed = self._model.settings, self._model.fixed_size(self._model.request_format.form, self._toolbox)
        for _ in range(_SHORTENINGS):
            tokens = settings.context - settings.max_tokens
            messages = conversation.messages(tokens * self._characters_per_token * _SAFETY_FACTOR - fixed)
            try:
                reply, failures = self._model.ask(messages, self._toolbox)
            except NoAnswer as failure:
                if not failure.too_long:
                    raise
                self._characters_per_token *= _SHORTER
                continue
            if reply.tokens_in:
                self._characters_per_token = (fixed + size_of(messages)) / reply.tokens_in
            return reply, failures
        raise NoAnswer("every request was too long", _SHORTENINGS)
