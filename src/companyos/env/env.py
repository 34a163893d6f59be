"""The environment `CompanyEnv`: one episode of one task, with reset, step, fork and transcript."""

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache, partial
from typing import Any

import msgspec

from companyos.chaos import INJECTORS, Chaos, Injector, doses_of, write_doses
from companyos.company import Approval, Ticket, Tool, Toolbox
from companyos.company.colleagues import OBJECTION_CODES
from companyos.company.programs import advance
from companyos.core.calls import (
    BAD_ACTION,
    EPISODE_OVER,
    NO_ANSWER,
    NO_STEPS_LEFT,
    OK,
    UNKNOWN_TOOL,
    Call,
    Reply,
    as_json,
    parse,
)
from companyos.core.episode import Footer, Header, Transcript, Turn
from companyos.core.errors import BadChoice, BadTask
from companyos.core.task import MAX_SEED, SIZES, SPLITS, TaskId
from companyos.core.world import Record, World, clock_text
from companyos.env.chairs import hand_over
from companyos.env.observations import Observation, Scene
from companyos.env.rewards import Offences, Profile, TurnEffects, Verdict, chosen_name, profile
from companyos.families import EpisodeSoFar, ExpertStyle, Setting, canonical, family, setting
from companyos.families.kit.family import LINKED, Linked
from companyos.families.kit.goals import Damage, add_up, damage

_FIRST_REPLY = Reply(True, OK)  # in the first observation, before any call
_NO_CALL = Call("", "", {})  # the call of a turn whose action was not a call
OVER = Reply(False, EPISODE_OVER, None, "the episode is over; reset starts another")
OUT_OF_STEPS = Reply(False, NO_STEPS_LEFT, None, "you have no steps left; the episode goes on without you")
REFUSED = "refused"  # stands for every code of a refusal in `_usual_pay`, because all refusals cost the same
Pay = tuple[dict[str, float], float]  # the parts of a reward, and their sum
# The injectors that can answer a call with a fault instead of the tool.
_INTERCEPTORS = tuple(injector for injector in INJECTORS if type(injector).intercept is not Injector.intercept)


class CompanyEnv:
    """An episode: a company, a case in it and the person who works it. It can be forked, pickled and replayed."""

    __slots__ = (
        "_actor",
        "_chairs",
        "_faults",
        "_holding",
        "_journal_read",
        "_linked_right",
        "_offences",
        "_paid_potential",
        "_potential",
        "_profile",
        "_progress",
        "_resolved",
        "_setting",
        "_shared_potential",
        "_step",
        "_steps_by",
        "_task",
        "_toolbox",
        "_unseen_rejections",
        "_usual_pays",
        "reward",
        "scene",
        "turns",
        "verdict",
        "world",
    )  # fmt: skip

    def __init__(self, task: TaskId, reward: str = "dense", progress: bool = False, actors: Iterable[str] = ()) -> None:
        self._profile = profile(reward)
        self.reward = reward
        self._progress = progress
        self._task = canonical(task)
        self._setting: Setting = setting(self._task)
        self._actor = self._setting.case.actor
        self._toolbox = self._setting.toolbox
        self.scene = Scene(self._setting.case.brief, self._setting.max_steps, self._toolbox.names)
        self._chairs = hand_over(self._setting, actors)  # the colleagues whom agents play, and what they see
        doses = self._setting.doses
        self._faults = tuple(
            partial(injector.intercept, doses[injector.dial] / 100) for injector in _INTERCEPTORS if doses[injector.dial]
        )
        self.reset()
        self._usual_pays = {code: _usual_pay(self._profile, self.max_steps, code) for code in (OK, NO_ANSWER)}

    # -- the episode -----------------------------------------------------------------------------------------------

    def reset(self) -> Observation:
        """Start the episode again, from exactly the same state."""
        self.world: World = self._setting.world.fork()
        if self._chairs:
            self.world.seats = tuple(sorted(self.actors))
        self._steps_by = dict.fromkeys(self._chairs, 0)  # steps by further actors
        self.turns: list[Turn] = []
        self.verdict: Verdict | None = None
        self._step = 0
        self._offences = Offences()
        self._resolved = False
        self._linked_right: dict[str, bool] = {}  # closed linked tickets, and whether they were closed correctly
        self._holding = [False] * self._setting.milestone_count  # for each milestone whether it holds
        self._potential = 0.0  # the sum of the milestones that hold; it reveals the right ending
        self._shared_potential = 0.0  # the sum of the shared milestones that hold
        self._paid_potential = 0.0  # the sum of the milestones that were paid
        self._journal_read = 0  # how many journal entries were already looked at
        self._unseen_rejections: list[str] = []  # justified rejections that no reply has shown to the agent yet
        return self._observe(_FIRST_REPLY)

    def step(self, action: Call | Mapping[str, Any] | object, actor: str = "") -> Observation:
        """Carry out one call and return the observation.

        The order is: injected faults, the tool, the clock and due appointments, milestones, reward, transcript. `actor` is
        the handle of the caller, if the caller is not the person who works the task but a colleague whom an agent plays.
        """
        if actor:
            actor = self._actor_in_turns(actor)
        if self.verdict is not None:
            return self._observe(OVER, actor)
        if actor and self._steps_by[actor] >= self.scene.max_steps:
            return self._observe(OUT_OF_STEPS, actor)
        world, call, caller = self.world, parse(action), actor or self._actor
        revision = world.revision
        sent: tuple[Any, ...] = ()  # the action as it was sent, if it was not a valid call
        if isinstance(call, Reply):
            reply, call, sent, minutes = call, _NO_CALL, (as_json(action),), 1
        elif (tool := self._toolbox.tools.get((call.app, call.method))) is None:
            reply, minutes = self._toolbox.call(world, caller, call), 1
        else:
            fault = None if tool.steady else self._injected_fault(caller, tool, call)
            reply = self._toolbox.use(world, caller, tool, call) if fault is None else fault
            minutes = tool.minutes
        world.advance(minutes)
        if actor:
            self._steps_by[actor] += 1
        else:
            self._step += 1
        step = self._step
        if world.revision != revision:
            self._update_milestones(world.revision - revision)
        over = self._resolved or step >= self.scene.max_steps
        if over:
            self.verdict = self._judge()
        charged = self._charge(reply, actor) if self._unseen_rejections else 0
        if over or charged or self._shared_potential != self._paid_potential:
            parts = self._profile(self._effects(reply, charged))
            reward = add_up(parts.values())
        else:
            usual_parts, reward = self._usual_pays.get(reply.code) or self._refusal_pay(reply)
            parts = usual_parts.copy()
        now = clock_text(world.now)
        self.turns.append(Turn(call, reply, now, reward, parts, world.digest(), sent, actor))
        if actor:
            return Observation(self._chairs[actor], now, self._steps_by[actor], reply, reward, over)
        return Observation(self.scene, now, step, reply, reward, over, self._checklist() if self._progress else None)

    def fork(self) -> "CompanyEnv":
        """Return an independent copy of the episode. It takes microseconds."""
        fork = CompanyEnv.__new__(CompanyEnv)
        fork._profile = self._profile
        fork.reward = self.reward
        fork._progress = self._progress
        fork._task = self._task
        fork._setting = self._setting
        fork._actor = self._actor
        fork._toolbox = self._toolbox
        fork.scene = self.scene
        fork._chairs = self._chairs
        fork._steps_by = self._steps_by.copy()
        fork._faults = self._faults
        fork._usual_pays = self._usual_pays
        fork.world = self.world.fork()
        fork.turns = self.turns.copy()
        fork.verdict = self.verdict
        fork._step = self._step
        fork._offences = self._offences
        fork._resolved = self._resolved
        fork._linked_right = self._linked_right.copy()
        fork._holding = self._holding.copy()
        fork._potential = self._potential
        fork._shared_potential = self._shared_potential
        fork._paid_potential = self._paid_potential
        fork._journal_read = self._journal_read
        fork._unseen_rejections = self._unseen_rejections.copy()
        return fork

    # -- what can be read -----------------------------------------------------------------------------------------

    @property
    def task_id(self) -> str:
        return str(self._task)

    @property
    def setting(self) -> Setting:
        """The start state with its causes and its right ending. For proofs and inspection, never for agents."""
        return self._setting

    @property
    def toolbox(self) -> Toolbox:
        """The tools that this episode offers."""
        return self._toolbox

    @property
    def actors(self) -> tuple[str, ...]:
        """The handles of all people whom agents play: the person who works the task, then the colleagues."""
        return (self._actor, *self._chairs)

    def look(self, actor: str = "") -> Observation:
        """Return an actor's last observation again, without a step: the last reply to them, or their brief."""
        handle = self._actor_in_turns(actor)
        return self._observe(
            next((turn.reply for turn in reversed(self.turns) if turn.actor == handle), _FIRST_REPLY), handle
        )

    def steps_left(self, actor: str = "") -> int:
        """Return how many calls an actor can still make. All actors have the same budget."""
        handle = self._actor_in_turns(actor)
        return self.max_steps - (self._steps_by[handle] if handle else self._step)

    @property
    def step_count(self) -> int:
        return self._step

    @property
    def max_steps(self) -> int:
        return self._setting.max_steps

    @property
    def done(self) -> bool:
        return self.verdict is not None

    @property
    def resolved(self) -> bool:
        """Whether the ticket was resolved, correctly or not. An episode that ends without that ran out of steps."""
        return self._resolved

    @property
    def success(self) -> bool | None:
        return None if self.verdict is None else self.verdict.success

    @property
    def total(self) -> float:
        """The return: the sum of all rewards so far."""
        return add_up(turn.reward for turn in self.turns)

    @property
    def potential(self) -> float:
        """The sum of the milestones of the right ending that hold now. It reveals that ending, so it is never for agents."""
        return self._potential

    @property
    def shared_potential(self) -> float:
        """The sum of the shared milestones that hold now. These do not depend on the right ending."""
        return self._shared_potential

    @property
    def whole_potential(self) -> float:
        """The sum of all milestones that did not hold at the start."""
        return self._setting.potential

    def lost(self) -> str | None:
        """Return why the task can no longer be solved, or None. A budget that ran out does not count as a reason."""
        ticket = self.world.get(Ticket, self._setting.case.ticket_id)
        if ticket.resolution is not None:
            return None if self.success else "irreversible"
        if not all(self._linked_right.values()):
            return "irreversible"
        if any(not harm.can_be_put_back for harm in self._damage()):
            return "damage"
        return None

    def digest(self) -> str:
        """Return the digest of the company's state: 128 bits in hex."""
        return self.world.digest()

    def so_far(self, actor: str = "") -> EpisodeSoFar:
        """Return what an expert needs to take over: the brief, the clock, the calls and replies so far."""
        handle = self._actor_in_turns(actor)
        turns = tuple((turn.call, turn.reply) for turn in self.turns if turn.actor == handle)
        return EpisodeSoFar(self._scene_of(handle).brief, clock_text(self.world.now), turns)

    def fresh_budget(self) -> "CompanyEnv":
        """Return a fork with the full budget. It is not done, unless the ticket is resolved."""
        fork = self.fork()
        fork._step = 0
        fork._steps_by = dict.fromkeys(self._chairs, 0)
        if fork.world.get(Ticket, fork._setting.case.ticket_id).resolution is None:
            fork.verdict = None
        return fork

    def transcript(self) -> Transcript:
        """Return the transcript of the episode so far."""
        header = Header(self.task_id, self.reward, self._setting.case.brief, actors=tuple(self._chairs) or msgspec.UNSET)
        verdict = msgspec.json.decode(msgspec.json.encode(self.verdict)) if self.verdict is not None else {}
        return Transcript(header, tuple(self.turns), Footer(self.done, self.success, self.total, verdict))

    # -- the parts of a step -------------------------------------------------------------------------------------------

    def _injected_fault(self, caller: str, tool: Tool, call: Call) -> Reply | None:
        """Return the reply of a fault that strikes this call, or None. A struck call may be carried out nevertheless."""
        for intercept in self._faults:
            fault = intercept(self.world, tool, call)
            if fault is not None:
                if fault.carried_out:
                    self._toolbox.use(self.world, caller, tool, call)
                return fault.reply
        return None

    def _update_milestones(self, revisions: int) -> None:
        """Update what depends on the writes of a turn: whether the ticket is resolved, milestones, and rejections.

        `revisions` counts the writes of this turn and the marks that the agent has read something. Marks are not in the
        journal; milestones that depend on them are watched under the kind None.
        """
        world, case, watched, linked = self.world, self._setting.case, self._setting.open_milestones, self._setting.linked
        written = world.journal[self._journal_read :]
        kinds: dict[type[Record] | None, None] = {None: None} if revisions > len(written) else {}
        for change in written:
            after = change.after
            kinds[type(after)] = None
            if isinstance(after, Ticket):
                if after.id == case.ticket_id:
                    self._resolved = after.resolution is not None
                elif after.id in linked and after.resolution is not None:
                    self._judge_linked(linked[after.id])
            elif isinstance(after, Approval) and after.status == "rejected" and after.requester == case.actor:
                self._unseen_rejections += [after.id] if after.code not in OBJECTION_CODES else []
        self._journal_read = len(world.journal)
        holding = self._holding
        for kind in kinds:
            for index, worth, shared_worth, goal in watched[kind]:
                if goal.holds(world) != holding[index]:
                    self._potential += -worth if holding[index] else worth
                    self._shared_potential += -shared_worth if holding[index] else shared_worth
                    holding[index] = not holding[index]

    def _charge(self, reply: Reply, actor: str) -> int:
        """Return how many rejections this turn is charged for: those that the reply shows, and at the end all others.

        A rejection that the agent has not seen must not change the reward, because that would reveal it.
        """
        before = len(self._unseen_rejections)
        if self.verdict is not None:
            self._unseen_rejections.clear()
        elif not actor:
            for request_id in rejections_in(reply.data):
                if request_id in self._unseen_rejections:
                    self._unseen_rejections.remove(request_id)
        return before - len(self._unseen_rejections)

    def _judge_linked(self, ticket: Linked) -> None:
        """Judge a linked ticket that was closed. That is final, because closing cannot be undone."""
        self._linked_right[ticket.ticket_id] = right = ticket.closed_rightly(self.world)
        self._potential += ticket.worth * right

    def _judge(self) -> Verdict:
        goals = {name: goal.holds(self.world) for name, goal in self._setting.goals.items()}
        for linked in self._setting.ending.linked:
            goals[f"{LINKED}{linked.name}"] = self._linked_right.get(linked.ticket_id, False)
        damage_left = tuple(self._damage())
        return Verdict(all(goals.values()) and not damage_left, goals, damage_left)

    def _damage(self) -> list[Damage]:
        return damage(self.world, self._setting.case.actor, self._setting.needed_changes)

    def _effects(self, reply: Reply, rejections: int = 0) -> TurnEffects:
        """Return what the reward of this turn depends on, and count the turn's own offences for later turns.

        During the episode only shared milestones are paid; at the end, those of the right ending.
        """
        before, paid = self._offences, self._paid_potential
        self._paid_potential = potential = self._shared_potential if self.verdict is None else self._potential
        fault = reply.code == NO_ANSWER
        unknown = reply.code in (UNKNOWN_TOOL, BAD_ACTION)
        failed = not (reply.ok or fault or unknown)
        if failed or unknown or rejections:
            self._offences = Offences(before.failed + failed, before.unknown + unknown, before.rejected + rejections)
        return TurnEffects(
            fault, failed, unknown, rejections, before, paid, potential, self._setting.potential,
            self.scene.max_steps, self._step, self.verdict, self._par,
        )  # fmt: skip

    def _refusal_pay(self, reply: Reply) -> Pay:
        """Return what a turn pays if its call was refused and nothing else happened."""
        before = self._offences
        if reply.code in (UNKNOWN_TOOL, BAD_ACTION):
            parts = self._profile(self._effects(reply))
            return parts, add_up(parts.values())
        self._offences = Offences(before.failed + 1, before.unknown, before.rejected)
        return _usual_pay(self._profile, self.scene.max_steps, REFUSED, before.failed)

    def _par(self) -> int:
        return par(self._task)

    def _observe(self, reply: Reply, actor: str = "") -> Observation:
        """Return an observation without a step."""
        scene, now = self._scene_of(actor), clock_text(self.world.now)
        if actor:
            return Observation(scene, now, self._steps_by[actor], reply, 0.0, self.done)
        progress = self._checklist() if self._progress else None
        return Observation(scene, now, self._step, reply, 0.0, self.done, progress)

    def _scene_of(self, actor: str) -> Scene:
        return self._chairs[actor] if actor else self.scene

    def _actor_in_turns(self, actor: str) -> str:
        """Return an actor's handle as turns record it: empty for the person who works the task."""
        if actor in self._chairs:
            return actor
        if actor not in ("", self._actor):
            raise BadChoice("actor", actor, self.actors)
        return ""

    def _checklist(self) -> tuple[str, ...]:
        ending = self._setting.ending
        # `_holding` goes on with shared milestones of other endings.
        reached = [milestone.name for milestone, holds in zip(ending.milestones, self._holding, strict=False) if holds]
        closed = [linked.ticket_id for linked in ending.linked if self._linked_right.get(linked.ticket_id)]
        return (*reached, *(f"{ticket_id} closed" for ticket_id in closed))


def rejections_in(data: Any) -> Iterator[str]:
    """Yield the ids of the requests that a reply shows as rejected: as a record, in a list or in a message."""
    if isinstance(data, dict):
        if data.get("status") == "rejected":
            yield str(data.get("id"))
        elif data.get("topic") == "decision" and str(data.get("text")).startswith(f"{data.get('about')} rejected"):
            yield str(data["about"])
        for value in data.values():
            yield from rejections_in(value)
    elif isinstance(data, list | tuple):
        for item in data:
            yield from rejections_in(item)


@lru_cache(maxsize=65536)
def _usual_pay(pay: Profile, max_steps: int, code: str, refused_before: int = 0) -> Pay:
    """Return what a turn pays if nothing else happens. Cached, since it is the same in all episodes of one length."""
    failed = code not in (OK, NO_ANSWER)
    before = Offences(failed=refused_before)
    parts = pay(
        TurnEffects(code == NO_ANSWER, failed, False, 0, before, 0.0, 0.0, 1.0, max_steps, 1, None, lambda: max_steps)
    )
    return parts, add_up(parts.values())


def make(
    task: str,
    seed: int = 0,
    chaos: Chaos = 0.0,
    reward: str = "dense",
    split: str = "train",
    progress: bool = False,
    actors: Iterable[str] = (),
    size: str = "office",
) -> CompanyEnv:
    """Return an environment, by family and seed or by task id. `ValueError` lists what is valid.

    `actors` are colleagues whom agents play as well, by handle or office; `chairs(task)` lists them.
    """
    if not isinstance(task, str):
        raise BadTask(f"a task is named by its id or its family; got {task!r}")
    named = TaskId.parse(task) if "-" in task else task_named(task, seed, chaos, split, size)
    return CompanyEnv(named, chosen_name(reward), progress, actors)


def task_named(name: str, seed: int = 0, chaos: Chaos = 0.0, split: str = "train", size: str = "office") -> TaskId:
    """Return the id of a family's task with this seed and these doses, in a company of this size."""
    family(name)
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed <= MAX_SEED:
        raise BadTask(f"a seed is a whole number from 0 to {MAX_SEED}; got {seed!r}")
    if split not in SPLITS:
        raise BadTask(f"unknown split {split!r}; valid: {', '.join(SPLITS)}")
    if size not in SIZES:
        raise BadTask(f"unknown size {size!r}; valid: {', '.join(SIZES)}")
    return TaskId(name, split, seed, write_doses(doses_of(chaos)), size=size)


def run_expert(env: CompanyEnv, style: ExpertStyle | None = None) -> None:
    """Let the family's expert take over, from the present state to the end of the episode."""
    program = family(env._task.family).expert(env.so_far(), style or ExpertStyle())
    reply: Reply | None = None
    while not env.done:
        call = advance(program, reply)
        if call is None:
            return
        env.step(call)
        reply = env.turns[-1].reply


@lru_cache(maxsize=8192)
def par(task: TaskId) -> int:
    """Return the par of a task: the number of steps that the expert takes from the start."""
    env = CompanyEnv(task, "sparse")
    run_expert(env)
    return env.step_count
