"""Works on many tickets at a time: while one ticket waits, another goes on. Time passes only when all of them wait."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from companyos.company.programs import advance
from companyos.core.calls import Call, Procedure, Reply, Working, aloud
from companyos.families.kit.moves import Move, Shown

DELAY_TOPICS = ("out_of_office", "queue")  # topics of messages that only announce a delay
TOO_MANY = "too_many"  # the code of a refusal because too many requests of the agent are pending


class TicketJob:
    """A ticket and the program that works on it, which does not know about the other tickets."""

    def __init__(self, ticket_id: str, program: Procedure, asked: bool = False) -> None:
        self.ticket_id = ticket_id
        self.asked = asked  # whether the shared office was asked to sign for it
        self.closed: Shown = {}  # how it was closed: resolution, reason, evidence
        self._relevant_ids = {ticket_id}  # ids of records: a message about one of them matters for this ticket
        self._refused_as_too_many = False  # whether it waits because too many requests are pending
        self._program = aloud(program)
        self._call: Call | None = None  # the next call; None when the program has ended
        self.working: tuple[str, ...] = ()  # the working lines before the next call
        self._run_to_next_call(None)

    @property
    def done(self) -> bool:
        """Whether the program has ended."""
        return self._call is None

    @property
    def call(self) -> Call:
        """The next call of the program."""
        assert self._call is not None, f"nothing is left to do for {self.ticket_id}"
        return self._call

    @property
    def waits(self) -> bool:
        """Whether nothing can be done for the ticket before time passes."""
        return self._refused_as_too_many or self.call.method == "wait"

    def switch_to(self, program: Procedure) -> None:
        """Replace the program by another one."""
        self._program.close()
        self._program = aloud(program)
        self._run_to_next_call(None)

    def hear(self, reply: Reply) -> None:
        """Receive the reply to the last call."""
        if reply.code == TOO_MANY:
            self._refused_as_too_many = True
            return
        call = self.call
        self._relevant_ids |= {value for value in call.params.values() if isinstance(value, str)}
        if reply.ok:
            self._relevant_ids |= {row["id"] for row in reply.data.get("rows", [reply.data]) if self._is_for_ticket(row)}
            if call.method == "resolve_ticket":
                self.closed = call.params
        self._run_to_next_call(reply)

    def wake(self, reply: Reply) -> None:
        """Go on after a wait if a message for this ticket arrived, or if no message arrived at all."""
        arrived = reply.data["arrived"]
        subjects = {message["about"] for message in arrived if message["topic"] not in DELAY_TOPICS}
        if self._refused_as_too_many:
            self._refused_as_too_many = False
        elif not arrived or self._relevant_ids & subjects:
            self._run_to_next_call(reply)

    def _is_for_ticket(self, row: Shown) -> bool:
        """Return whether a record is a request or a comment for this ticket."""
        data: Any = row.get("data") or {}
        return self.ticket_id in (row.get("ticket_id"), data.get("ticket_id"))

    def _run_to_next_call(self, reply: Reply | None) -> None:
        """Run the program up to its next call or to its end. `reply` answers its last call."""
        self.working, self._call = advance(self._program, reply) or ((), None)


class SharedOffice(Struct, frozen=True):
    """An office (job title) whose holder signs for a limited number of tickets, those that are due first."""

    people: frozenset[str]  # the holder and the delegates, who may all sign
    signatures: int  # the maximum number of tickets

    def is_asked_by(self, job: TicketJob) -> bool:
        """Return whether the next call of a job asks this office for a signature."""
        return job.call.method == "submit_approval" and job.call.params["approver"] in self.people


def run_jobs(jobs: list[TicketJob], office: SharedOffice, beyond_limit: Mapping[str, Procedure]) -> Move[None]:
    """Run all jobs to their end. They are ordered by due date.

    When the office has signed for its maximum of tickets, a job goes on with its program in `beyond_limit` instead.
    """
    while unfinished := [job for job in jobs if not job.done]:
        for job in unfinished:
            if job.waits:
                continue
            if not job.asked and office.is_asked_by(job):
                earlier_jobs = jobs[: jobs.index(job)]
                if not all(earlier_job.done or earlier_job.asked for earlier_job in earlier_jobs):
                    continue  # an earlier ticket may still need the signature
                if sum(earlier_job.asked for earlier_job in earlier_jobs) >= office.signatures:
                    job.switch_to(beyond_limit[job.ticket_id])
                    break
                job.asked = True
            for line in job.working:
                yield Working(line)
            job.hear((yield job.call))
            break
        else:  # no job could make a call: let time pass
            waiting = [job for job in unfinished if job.waits]
            reply = yield Call("ticketdesk", "wait", {"hours": 24})
            for job in waiting:
                job.wake(reply)
