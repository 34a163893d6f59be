"""Environment: one episode of one task. Reset, step, fork, and whether it can still be won."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec

from companyos.apps import TOOLBOX, Approval, Ticket
from companyos.apps.colleagues import WHIMS
from companyos.calls import BAD_ACTION, EPISODE_OVER, NO_ANSWER, OK, UNKNOWN_TOOL, Call, Reply, as_json, parse
from companyos.chaos import INJECTORS, Injector, ToolTraits, doses_of, write_doses
from companyos.episode import Footer, Header, Transcript, Turn
from companyos.errors import BadTask
from companyos.families import Memory, Setting, Taste, family, setting
from companyos.families.goals import Damage, Goal, Milestone, damage
from companyos.observe import Observation, observe
from companyos.rewards import Happened, profile
from companyos.task import SPLITS, TaskId
from companyos.world import World, clock_text

_HELLO = Reply(True, OK)
_OVER = Reply(False, EPISODE_OVER, None, "the episode is over; reset starts another")
_INTERCEPTORS = tuple(i for i in INJECTORS if type(i).intercept is not Injector.intercept)


class Verdict(msgspec.Struct, frozen=True):
    """How an ended episode is judged: every goal over the end state, and what was damaged."""

    success: bool
    goals: dict[str, bool]
    damage: tuple[Damage, ...]


class CompanyEnv:
    """A company, a case in it, and the one who works it. Everything it holds is data: it forks, pickles and replays."""

    __slots__ = (
        "_failed",
        "_faults",
        "_potential",
        "_profile",
        "_progress",
        "_rejections",
        "_setting",
        "_standing",
        "_step",
        "_task",
        "_unknown",
        "reward",
        "turns",
        "verdict",
        "world",
    )  # fmt: skip

    def __init__(self, task: TaskId, reward: str = "seed", progress: bool = False) -> None:
        self._profile = profile(reward)
        self.reward = reward
        self._progress = progress
        self._task = task
        self._setting: Setting = setting(task)
        doses = self._setting.doses
        self._faults = tuple((i, doses[i.dial] / 100) for i in _INTERCEPTORS if doses[i.dial])
        self.reset()

    # -- the episode -----------------------------------------------------------------------------------------------

    def reset(self) -> Observation:
        """Starts the task anew: the same morning, down to the last byte."""
        self.world: World = self._setting.world.fork()
        self.turns: list[Turn] = []
        self.verdict: Verdict | None = None
        self._step = self._failed = self._unknown = self._rejections = 0
        # Which milestones stand; one that held at the start pays nothing and is left out for good.
        self._standing = [None if m.goal.holds(self.world) else False for m in self._setting.ending.milestones]
        self._potential = 0.0
        return self._observe(_HELLO, 0.0)

    def step(self, action: Call | Mapping[str, Any] | object) -> Observation:
        """Carries out one call: chaos, toolbox, clock and agenda, milestones, reward, journal of turns, observation."""
        if self.verdict is not None:
            return self._observe(_OVER, 0.0)
        mark = len(self.world.journal)
        call = parse(action)
        reply = self._carry_out(call) if isinstance(call, Call) else self._nonsense(call)
        self._step += 1
        potential_before = self._potential
        rejections = self._look_at_changes(mark)
        resolved = self.world.get(Ticket, self._setting.case.ticket_id).resolution is not None
        if resolved or self._step >= self._setting.max_steps:
            self.verdict = self._judge()
        parts = self._profile(self._happened(reply, rejections, potential_before))
        reward = sum(parts.values(), 0.0)
        self._count(reply, rejections)
        known = call if isinstance(call, Call) else Call("", "", {})
        raw = None if isinstance(call, Call) else as_json(action)
        self.turns.append(Turn(known, reply, clock_text(self.world.now), reward, parts, f"{self.world.digest():032x}", raw))
        return self._observe(reply, reward)

    def fork(self) -> "CompanyEnv":
        """An independent copy of the episode as it stands, in microseconds."""
        twin = CompanyEnv.__new__(CompanyEnv)
        twin._profile = self._profile
        twin.reward = self.reward
        twin._progress = self._progress
        twin._task = self._task
        twin._setting = self._setting
        twin._faults = self._faults
        twin.world = self.world.fork()
        twin.turns = self.turns.copy()
        twin.verdict = self.verdict
        twin._step = self._step
        twin._failed = self._failed
        twin._unknown = self._unknown
        twin._rejections = self._rejections
        twin._standing = self._standing.copy()
        twin._potential = self._potential
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
    def step_count(self) -> int:
        return self._step

    @property
    def max_steps(self) -> int:
        return self._setting.max_steps

    @property
    def done(self) -> bool:
        return self.verdict is not None

    @property
    def success(self) -> bool | None:
        return None if self.verdict is None else self.verdict.success

    def lost(self) -> str | None:
        """Why nobody can win any more, or None. A budget that ran out is no such reason: a fresh one would do."""
        ticket = self.world.get(Ticket, self._setting.case.ticket_id)
        if ticket.resolution is not None:
            return None if self.success else "irreversible"
        if any(not harm.can_be_put_back for harm in self._damage()):
            return "damage"
        return None

    def digest(self) -> str:
        """128 bits for the state of the company."""
        return f"{self.world.digest():032x}"

    def memory(self) -> Memory:
        """What whoever takes over would find: the brief, the clock, the calls and replies so far."""
        turns = tuple((turn.call, turn.reply) for turn in self.turns)
        return Memory(self._setting.case.brief, clock_text(self.world.now), turns)

    def fresh_budget(self) -> "CompanyEnv":
        """A fork with all its steps ahead again, and not over unless the ticket is resolved."""
        twin = self.fork()
        twin._step = 0
        if twin.world.get(Ticket, twin._setting.case.ticket_id).resolution is None:
            twin.verdict = None
        return twin

    def transcript(self) -> Transcript:
        """What happened so far, ready to be written, replayed and judged again."""
        header = Header(self.task_id, self.reward, self._setting.case.brief)
        verdict = msgspec.to_builtins(self.verdict) if self.verdict is not None else {}
        total = sum((turn.reward for turn in self.turns), 0.0)
        return Transcript(header, tuple(self.turns), Footer(self.done, self.success, total, verdict))

    # -- how a step goes -------------------------------------------------------------------------------------------

    def _carry_out(self, call: Call) -> Reply:
        world, actor = self.world, self._setting.case.actor
        tool = TOOLBOX.find(call)
        minutes = tool.minutes if tool is not None else 1
        fault = None
        if tool is not None and not tool.steady:
            for injector, dose in self._faults:
                target = str(call.params.get(tool.target or "", ""))
                fault = injector.intercept(world, call, ToolTraits(target, tool.writes and not tool.ends), dose)
                if fault is not None:
                    break
        if fault is None or fault.carried_out:
            reply = TOOLBOX.call(world, actor, call)
        if fault is not None:
            reply = fault.reply
        world.advance(minutes)
        return reply

    def _nonsense(self, reply: Reply) -> Reply:
        self.world.advance(1)
        return reply

    def _look_at_changes(self, mark: int) -> int:
        """Brings the milestones up to date with what was written since `mark`; counts rejections that are charged."""
        changed = set()
        rejections = 0
        for change in self.world.journal[mark:]:
            after = change.after
            changed.add(type(after))
            if isinstance(after, Approval) and after.status == "rejected" and after.requester == self._setting.case.actor:
                rejections += after.code not in WHIMS
        potential = 0.0
        for i, milestone in enumerate(self._setting.ending.milestones):
            stands = self._standing[i]
            if stands is None:
                continue
            tables = milestone.goal.tables
            if not tables or not changed.isdisjoint(tables):
                stands = self._standing[i] = milestone.goal.holds(self.world)
            if stands:
                potential += milestone.worth
        self._potential = potential
        return rejections

    def _judge(self) -> Verdict:
        goals = {goal_name(goal): goal.holds(self.world) for goal in self._setting.ending.goals}
        harm = tuple(self._damage())
        return Verdict(all(goals.values()) and not harm, goals, harm)

    def _damage(self) -> list[Damage]:
        case, ending = self._setting.case, self._setting.ending
        return damage(self.world, case.actor, case.ticket_id, ending.allowed, ending.needs_signature)

    def _happened(self, reply: Reply, rejections: int, potential_before: float) -> Happened:
        verdict = self.verdict
        unknown = reply.code in (UNKNOWN_TOOL, BAD_ACTION)
        return Happened(
            fault=reply.code == NO_ANSWER,
            failed=not reply.ok and reply.code != NO_ANSWER and not unknown,
            unknown=unknown,
            rejections=rejections,
            failed_before=self._failed,
            unknown_before=self._unknown,
            rejections_before=self._rejections,
            potential_before=potential_before,
            potential=self._potential,
            whole_potential=self.whole_potential,
            max_steps=self._setting.max_steps,
            step=self._step,
            done=verdict is not None,
            success=verdict is not None and verdict.success,
            damaged=verdict is not None and bool(verdict.damage),
            par=lambda: par(self._task),
        )

    def _count(self, reply: Reply, rejections: int) -> None:
        self._rejections += rejections
        if reply.code in (UNKNOWN_TOOL, BAD_ACTION):
            self._unknown += 1
        elif not reply.ok and reply.code != NO_ANSWER:
            self._failed += 1

    @property
    def milestones(self) -> tuple[Milestone, ...]:
        """Those that did not hold at the start."""
        return tuple(m for m, s in zip(self._setting.ending.milestones, self._standing, strict=True) if s is not None)

    @property
    def whole_potential(self) -> float:
        return sum(m.worth for m in self.milestones)

    @property
    def potential(self) -> float:
        """What the milestones that stand now are worth."""
        return self._potential

    def _observe(self, reply: Reply, reward: float) -> Observation:
        progress = None
        if self._progress:
            progress = tuple(m.name for m, s in zip(self._setting.ending.milestones, self._standing, strict=True) if s)
        case, world = self._setting.case, self.world
        return observe(case.brief, world.now, self._step, self.max_steps, reply, reward, self.done, progress)


def goal_name(goal: Goal) -> str:
    """How verdicts name a goal: `Ended`, `TicketIs:verified`."""
    field = getattr(goal, "field", "")
    return f"{type(goal).__name__}:{field}" if field else type(goal).__name__


def make(
    task: str,
    seed: int = 0,
    chaos: float | Mapping[str, float] = 0.0,
    reward: str = "seed",
    split: str = "train",
    progress: bool = False,
) -> CompanyEnv:
    """An environment, by family and seed or by task id. `ValueError` lists what is valid."""
    if "-" in task:
        return CompanyEnv(TaskId.parse(task), reward, progress)
    return CompanyEnv(task_named(task, seed, chaos, split), reward, progress)


def task_named(name: str, seed: int = 0, chaos: float | Mapping[str, float] = 0.0, split: str = "train") -> TaskId:
    """The task of a family with this seed and these doses."""
    family(name)
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 10**12:
        raise BadTask(f"a seed is a whole number from 0 to {10**12 - 1}; got {seed!r}")
    if split not in SPLITS:
        raise BadTask(f"unknown split {split!r}; valid: {', '.join(SPLITS)}")
    return TaskId(name, split, seed, write_doses(doses_of(chaos)))


def work(env: CompanyEnv, taste: Taste | None = None) -> None:
    """Lets the family's expert take over, from wherever the episode stands, until it is over."""
    program = family(env._task.family).expert(env.memory(), taste or Taste())
    reply: Reply | None = None
    while not env.done:
        try:
            call = next(program) if reply is None else program.send(reply)
        except StopIteration:
            return
        env.step(call)
        reply = env.turns[-1].reply


@lru_cache(maxsize=8192)
def par(task: TaskId) -> int:
    """How many steps the expert takes from the start."""
    env = CompanyEnv(task, "sparse")
    work(env)
    return env.step_count
