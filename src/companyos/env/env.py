"""Environment: one episode of one task. Reset, step, fork, and whether it can still be won."""

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache, partial
from typing import Any

import msgspec

from companyos.chaos import INJECTORS, Chaos, Injector, doses_of, write_doses
from companyos.company import Approval, Ticket, Tool, Toolbox
from companyos.company.clerk import advance
from companyos.company.colleagues import OBJECTION_CODES
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
from companyos.core.task import MAX_SEED, SPLITS, TaskId
from companyos.core.world import Record, World, clock_text
from companyos.env.chairs import hand_over
from companyos.env.observations import Observation, Scene
from companyos.env.rewards import Happened, Offences, Profile, Verdict, chosen_name, profile
from companyos.families import Memory, Setting, Taste, canonical, family, setting
from companyos.families.kit.family import LINKED, Linked
from companyos.families.kit.goals import Damage, add_up, damage

_HELLO = Reply(True, OK)
_NO_CALL = Call("", "", {})  # stands in a turn whose action was none
OVER = Reply(False, EPISODE_OVER, None, "the episode is over; reset starts another")
OUT_OF_STEPS = Reply(False, NO_STEPS_LEFT, None, "you have no steps left; the episode goes on without you")
REFUSED = "refused"  # stands for all codes that say so: they cost the same
Pay = tuple[dict[str, float], float]  # by its parts, and in all
_INTERCEPTORS = tuple(i for i in INJECTORS if type(i).intercept is not Injector.intercept)


class CompanyEnv:
    """A company, a case in it, and the one who works it. Everything it holds is data: it forks, pickles and replays."""

    __slots__ = (
        "_actor",
        "_chairs",
        "_early",
        "_faults",
        "_offences",
        "_paid",
        "_potential",
        "_profile",
        "_progress",
        "_quiet",
        "_read",
        "_resolved",
        "_setting",
        "_settled",
        "_standing",
        "_step",
        "_taken",
        "_task",
        "_toolbox",
        "_untold",
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
        self._chairs = hand_over(self._setting, actors)
        doses = self._setting.doses
        self._faults = tuple(partial(i.intercept, doses[i.dial] / 100) for i in _INTERCEPTORS if doses[i.dial])
        self.reset()
        self._quiet = {code: _usual_pay(self._profile, self.max_steps, code) for code in (OK, NO_ANSWER)}

    # -- the episode -----------------------------------------------------------------------------------------------

    def reset(self) -> Observation:
        """Starts the task anew: the same morning, down to the last byte."""
        self.world: World = self._setting.world.fork()
        if self._chairs:
            self.world.seats = tuple(sorted(self.actors))
        self._taken = dict.fromkeys(self._chairs, 0)  # steps, of those in other chairs
        self.turns: list[Turn] = []
        self.verdict: Verdict | None = None
        self._step = 0
        self._offences = Offences()
        self._resolved = False
        self._settled: dict[str, bool] = {}  # the linked tickets that are closed, and whether rightly
        self._standing = [False] * self._setting.places
        self._potential = 0.0  # of the milestones that stand: the right ending shows in it
        self._early = self._paid = 0.0  # of the shared ones that stand; of those that rewards have heard of
        self._read = 0  # how far into the journal we have looked
        self._untold: list[str] = []  # requests that were rejected for good reason, until a reply has told the agent so
        return self._look_around(_HELLO)

    def step(self, action: Call | Mapping[str, Any] | object, actor: str = "") -> Observation:
        """Carries out one call: chaos, toolbox, clock and agenda, milestones, reward, journal of turns, observation.

        `actor` is who calls, where that is not the one who works the task: somebody whose chair was handed over.
        """
        if actor:
            actor = self._seat(actor)
        if self.verdict is not None:
            return self._look_around(OVER, actor)
        if actor and self._taken[actor] >= self.scene.max_steps:
            return self._look_around(OUT_OF_STEPS, actor)
        world, call, caller = self.world, parse(action), actor or self._actor
        revision = world.revision
        sent: tuple[Any, ...] = ()
        if isinstance(call, Reply):
            reply, call, sent, minutes = call, _NO_CALL, (as_json(action),), 1
        elif (tool := self._toolbox.tools.get((call.app, call.method))) is None:
            reply, minutes = self._toolbox.call(world, caller, call), 1
        else:
            fault = None if tool.steady else self._strike(caller, tool, call)
            reply = self._toolbox.use(world, caller, tool, call) if fault is None else fault
            minutes = tool.minutes
        world.advance(minutes)
        if actor:
            self._taken[actor] += 1
        else:
            self._step += 1
        step = self._step
        if world.revision != revision:
            self._look_at_changes(world.revision - revision)
        over = self._resolved or step >= self.scene.max_steps
        if over:
            self.verdict = self._judge()
        charged = self._charge(reply, actor) if self._untold else 0
        if over or charged or self._early != self._paid:
            parts = self._profile(self._happened(reply, charged))
            reward = add_up(parts.values())
        else:
            known, reward = self._quiet.get(reply.code) or self._fine(reply)
            parts = known.copy()
        now = clock_text(world.now)
        self.turns.append(Turn(call, reply, now, reward, parts, world.digest(), sent, actor))
        if actor:
            return Observation(self._chairs[actor], now, self._taken[actor], reply, reward, over)
        return Observation(self.scene, now, step, reply, reward, over, self._checklist() if self._progress else None)

    def fork(self) -> "CompanyEnv":
        """An independent copy of the episode as it stands, in microseconds."""
        twin = CompanyEnv.__new__(CompanyEnv)
        twin._profile = self._profile
        twin.reward = self.reward
        twin._progress = self._progress
        twin._task = self._task
        twin._setting = self._setting
        twin._actor = self._actor
        twin._toolbox = self._toolbox
        twin.scene = self.scene
        twin._chairs = self._chairs
        twin._taken = self._taken.copy()
        twin._faults = self._faults
        twin._quiet = self._quiet
        twin.world = self.world.fork()
        twin.turns = self.turns.copy()
        twin.verdict = self.verdict
        twin._step = self._step
        twin._offences = self._offences
        twin._resolved = self._resolved
        twin._settled = self._settled.copy()
        twin._standing = self._standing.copy()
        twin._potential = self._potential
        twin._early = self._early
        twin._paid = self._paid
        twin._read = self._read
        twin._untold = self._untold.copy()
        return twin

    # -- what can be asked -----------------------------------------------------------------------------------------

    @property
    def task_id(self) -> str:
        return str(self._task)

    @property
    def setting(self) -> Setting:
        """The first morning with its causes and its right ending: for proofs and inspection, never for agents."""
        return self._setting

    @property
    def toolbox(self) -> Toolbox:
        """The tools that this episode offers."""
        return self._toolbox

    @property
    def actors(self) -> tuple[str, ...]:
        """Everybody who is played from outside: the one who works the task, then those whose chairs were handed over."""
        return (self._actor, *self._chairs)

    def look(self, actor: str = "") -> Observation:
        """What somebody has before them, at no cost: the last reply to them, or their brief."""
        seat = self._seat(actor)
        return self._look_around(next((turn.reply for turn in reversed(self.turns) if turn.actor == seat), _HELLO), seat)

    def steps_left(self, actor: str = "") -> int:
        """How many calls somebody can still make. In other chairs one has as many as the one who works the task."""
        seat = self._seat(actor)
        return self.max_steps - (self._taken[seat] if seat else self._step)

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
        """Whether the ticket is resolved, be it wrongly. An episode that ends otherwise ran out of steps."""
        return self._resolved

    @property
    def success(self) -> bool | None:
        return None if self.verdict is None else self.verdict.success

    @property
    def total(self) -> float:
        """The return: all that was paid so far."""
        return add_up(turn.reward for turn in self.turns)

    @property
    def potential(self) -> float:
        """What the milestones of the right ending that stand now are worth. It shows the right ending: never for agents."""
        return self._potential

    @property
    def shared_potential(self) -> float:
        """What the milestones that stand now pay while the episode runs: the same whatever the right ending."""
        return self._early

    @property
    def whole_potential(self) -> float:
        """What all milestones are worth that did not hold at the start."""
        return self._setting.potential

    def lost(self) -> str | None:
        """Why nobody can win any more, or None. A budget that ran out is no such reason: a fresh one would do."""
        ticket = self.world.get(Ticket, self._setting.case.ticket_id)
        if ticket.resolution is not None:
            return None if self.success else "irreversible"
        if not all(self._settled.values()):
            return "irreversible"
        if any(not harm.can_be_put_back for harm in self._damage()):
            return "damage"
        return None

    def digest(self) -> str:
        """128 bits for the state of the company."""
        return self.world.digest()

    def memory(self, actor: str = "") -> Memory:
        """What whoever takes over would find: the brief, the clock, the calls and replies so far."""
        seat = self._seat(actor)
        turns = tuple((turn.call, turn.reply) for turn in self.turns if turn.actor == seat)
        return Memory(self._scene_of(seat).task, clock_text(self.world.now), turns)

    def fresh_budget(self) -> "CompanyEnv":
        """A fork with all its steps ahead again, and not over unless the ticket is resolved."""
        twin = self.fork()
        twin._step = 0
        twin._taken = dict.fromkeys(self._chairs, 0)
        if twin.world.get(Ticket, twin._setting.case.ticket_id).resolution is None:
            twin.verdict = None
        return twin

    def transcript(self) -> Transcript:
        """What happened so far, ready to be written, replayed and judged again."""
        header = Header(self.task_id, self.reward, self._setting.case.brief, actors=tuple(self._chairs) or msgspec.UNSET)
        verdict = msgspec.json.decode(msgspec.json.encode(self.verdict)) if self.verdict is not None else {}
        return Transcript(header, tuple(self.turns), Footer(self.done, self.success, self.total, verdict))

    # -- how a step goes -------------------------------------------------------------------------------------------

    def _strike(self, caller: str, tool: Tool, call: Call) -> Reply | None:
        """What the agent hears if chaos strikes this call, which may have been carried out all the same."""
        for intercept in self._faults:
            fault = intercept(self.world, tool, call)
            if fault is not None:
                if fault.carried_out:
                    self._toolbox.use(self.world, caller, tool, call)
                return fault.reply
        return None

    def _look_at_changes(self, events: int) -> None:
        """Takes in what a turn wrote: whether the ticket is resolved, the milestones, and rejections to be charged."""
        world, case, watched, linked = self.world, self._setting.case, self._setting.watched, self._setting.linked
        written = world.journal[self._read :]
        kinds: dict[type[Record] | None, None] = {None: None} if events > len(written) else {}  # also a read mark
        for change in written:
            after = change.after
            kinds[type(after)] = None
            if isinstance(after, Ticket):
                if after.id == case.ticket_id:
                    self._resolved = after.resolution is not None
                elif after.id in linked and after.resolution is not None:
                    self._settle(linked[after.id])
            elif isinstance(after, Approval) and after.status == "rejected" and after.requester == case.actor:
                self._untold += [after.id] if after.code not in OBJECTION_CODES else []
        self._read = len(world.journal)
        standing = self._standing
        for kind in kinds:
            for i, worth, early, goal in watched[kind]:
                if goal.holds(world) != standing[i]:
                    self._potential += -worth if standing[i] else worth
                    self._early += -early if standing[i] else early
                    standing[i] = not standing[i]

    def _charge(self, reply: Reply, actor: str) -> int:
        """How many rejections this turn is charged for: those that the reply shows, and at the end all that are left.

        A rejection that nobody has told the agent of must not show in the reward: it would tell what the approver found.
        """
        before = len(self._untold)
        if self.verdict is not None:
            self._untold.clear()
        elif not actor:
            for request_id in rejections_in(reply.data):
                if request_id in self._untold:
                    self._untold.remove(request_id)
        return before - len(self._untold)

    def _settle(self, ticket: Linked) -> None:
        """A linked ticket is closed, for good: so is whether that was right."""
        self._settled[ticket.ticket_id] = right = ticket.closed_rightly(self.world)
        self._potential += ticket.worth * right

    def _judge(self) -> Verdict:
        goals = {name: goal.holds(self.world) for name, goal in self._setting.goals.items()}
        goals |= {f"{LINKED}{one.name}": self._settled.get(one.ticket_id, False) for one in self._setting.ending.linked}
        harm = tuple(self._damage())
        return Verdict(all(goals.values()) and not harm, goals, harm)

    def _damage(self) -> list[Damage]:
        return damage(self.world, self._setting.case.actor, self._setting.given)

    def _happened(self, reply: Reply, rejections: int = 0) -> Happened:
        """What the turn comes to for the rewards, with what went before it; then counts its own.

        While the episode runs, rewards hear of shared milestones alone; at the end, of those of the right ending.
        """
        before, paid = self._offences, self._paid
        self._paid = standing = self._early if self.verdict is None else self._potential
        fault = reply.code == NO_ANSWER
        unknown = reply.code in (UNKNOWN_TOOL, BAD_ACTION)
        failed = not (reply.ok or fault or unknown)
        if failed or unknown or rejections:
            self._offences = Offences(before.failed + failed, before.unknown + unknown, before.rejected + rejections)
        return Happened(
            fault, failed, unknown, rejections, before, paid, standing, self._setting.potential,
            self.scene.max_steps, self._step, self.verdict, self._par,
        )  # fmt: skip

    def _fine(self, reply: Reply) -> Pay:
        """What a turn pays that was refused and had no other consequence."""
        before = self._offences
        if reply.code in (UNKNOWN_TOOL, BAD_ACTION):
            parts = self._profile(self._happened(reply))
            return parts, add_up(parts.values())
        self._offences = Offences(before.failed + 1, before.unknown, before.rejected)
        return _usual_pay(self._profile, self.scene.max_steps, REFUSED, before.failed)

    def _par(self) -> int:
        return par(self._task)

    def _look_around(self, reply: Reply, actor: str = "") -> Observation:
        """What is to be seen where no step was taken."""
        scene, now = self._scene_of(actor), clock_text(self.world.now)
        if actor:
            return Observation(scene, now, self._taken[actor], reply, 0.0, self.done)
        progress = self._checklist() if self._progress else None
        return Observation(scene, now, self._step, reply, 0.0, self.done, progress)

    def _scene_of(self, actor: str) -> Scene:
        return self._chairs[actor] if actor else self.scene

    def _seat(self, actor: str) -> str:
        """Somebody's handle as turns have it: empty for the one who works the task."""
        if actor in self._chairs:
            return actor
        if actor not in ("", self._actor):
            raise BadChoice("actor", actor, self.actors)
        return ""

    def _checklist(self) -> tuple[str, ...]:
        ending = self._setting.ending
        reached = [m.name for m, s in zip(ending.milestones, self._standing, strict=False) if s]
        return (*reached, *(f"{one.ticket_id} closed" for one in ending.linked if self._settled.get(one.ticket_id)))


def rejections_in(data: Any) -> Iterator[str]:
    """The ids of requests of which a reply says that they were rejected: as a record, in a list, or in a letter."""
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
def _usual_pay(of: Profile, max_steps: int, code: str, refused_before: int = 0) -> Pay:
    """What a turn pays in which nothing else happens that rewards look at: the same in all episodes of one length."""
    failed = code not in (OK, NO_ANSWER)
    before = Offences(failed=refused_before)
    parts = of(Happened(code == NO_ANSWER, failed, False, 0, before, 0.0, 0.0, 1.0, max_steps, 1, None, lambda: max_steps))
    return parts, add_up(parts.values())


def make(
    task: str,
    seed: int = 0,
    chaos: Chaos = 0.0,
    reward: str = "dense",
    split: str = "train",
    progress: bool = False,
    actors: Iterable[str] = (),
) -> CompanyEnv:
    """An environment, by family and seed or by task id. `ValueError` lists what is valid.

    `actors` are the colleagues whose chairs are played from outside as well, by handle or office; `chairs(task)` lists them.
    """
    if not isinstance(task, str):
        raise BadTask(f"a task is named by its id or its family; got {task!r}")
    named = TaskId.parse(task) if "-" in task else task_named(task, seed, chaos, split)
    return CompanyEnv(named, chosen_name(reward), progress, actors)


def task_named(name: str, seed: int = 0, chaos: Chaos = 0.0, split: str = "train") -> TaskId:
    """The task of a family with this seed and these doses."""
    family(name)
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed <= MAX_SEED:
        raise BadTask(f"a seed is a whole number from 0 to {MAX_SEED}; got {seed!r}")
    if split not in SPLITS:
        raise BadTask(f"unknown split {split!r}; valid: {', '.join(SPLITS)}")
    return TaskId(name, split, seed, write_doses(doses_of(chaos)))


def work(env: CompanyEnv, taste: Taste | None = None) -> None:
    """Lets the family's expert take over, from wherever the episode stands, until it is over."""
    program = family(env._task.family).expert(env.memory(), taste or Taste())
    reply: Reply | None = None
    while not env.done:
        call = advance(program, reply)
        if call is None:
            return
        env.step(call)
        reply = env.turns[-1].reply


@lru_cache(maxsize=8192)
def par(task: TaskId) -> int:
    """How many steps the expert takes from the start."""
    env = CompanyEnv(task, "sparse")
    work(env)
    return env.step_count
