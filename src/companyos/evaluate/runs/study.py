"""A study: people play the tasks of a suite, and their episodes become a run of the agent `person`.

A visitor is a random number. Nothing else about a person is stored: no name, no address and no time of day.
"""

from collections import defaultdict
from pathlib import Path
from threading import Lock

import msgspec

from companyos.evaluate.runs.episode_file import EpisodeKey, PersonRecord, person_of, save_episode, saved_episode
from companyos.evaluate.runs.run import RUN_FILE, FinishedEpisode, RunPlan, begin, conclude, judged, plan_of
from companyos.evaluate.suites.suite import Suite

PERSON = "person"  # the name of the agent in the run
STARTS = "starts.jsonl"  # one line for each task that a visitor has begun, finished or not


class TaskStart(msgspec.Struct, frozen=True):
    """The fact that a visitor has begun a task."""

    visitor: int
    task_id: str


class StudyRun:
    """The run folder of a study. It is complete after every episode, so `companyos report` can read it at any time."""

    def __init__(self, folder: Path, tasks: Suite) -> None:
        """Open the folder, or prepare an empty one. Raises `BadRun` if it holds another run."""
        trials = plan_of(folder).trials if (folder / RUN_FILE).exists() else 1
        self._folder, self._suite = folder, tasks
        self._plan = RunPlan(PERSON, tasks.name, tasks.hash, trials)
        begin(folder, self._plan, tasks, ())
        self._lock = Lock()  # episodes are recorded on threads
        self._finished: dict[EpisodeKey, FinishedEpisode] = {}
        self._done: dict[int, dict[str, bool]] = defaultdict(dict)  # per visitor: success by task id
        for key in self._plan.episodes(tasks.tasks):
            text, person = saved_episode(folder, key), person_of(folder, key)
            if text is not None and person is not None:
                self._add(key, text, person)

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks, in the order in which visitors get them."""
        return self._suite.tasks

    def done_by(self, visitor: int) -> dict[str, bool]:
        """Return the tasks that a visitor has finished, and whether each was a success."""
        return dict(self._done.get(visitor, {}))

    def record_start(self, visitor: int, task_id: str) -> None:
        """Record that a visitor has begun a task. Tasks that are never finished can only be counted here."""
        with self._lock, (self._folder / STARTS).open("ab") as file:
            file.write(msgspec.json.encode(TaskStart(visitor, task_id)) + b"\n")

    def record_end(self, visitor: int, task_id: str, text: str, seconds: float) -> None:
        """Write a finished episode (its transcript as text) and all numbers of the run.

        The first visitor who finishes a task makes trial 0 of it, the second makes trial 1. Does nothing if this visitor's
        episode of the task is already in the folder.
        """
        with self._lock:
            if task_id in self._done.get(visitor, {}):
                return
            trial = sum(key.task_id == task_id for key in self._finished)
            key, person = EpisodeKey(task_id, trial), PersonRecord(visitor, round(seconds, 1))
            save_episode(self._folder, key, text, person=person)
            self._add(key, text, person)
            if trial >= self._plan.trials:
                self._plan = msgspec.structs.replace(self._plan, trials=trial + 1)
                begin(self._folder, self._plan, self._suite, ())
            conclude(self._folder, self._plan, self._suite, [self._finished[key] for key in sorted(self._finished)])

    def _add(self, key: EpisodeKey, text: str, person: PersonRecord) -> None:
        episode = judged(key, text, (), seconds=person.seconds)
        self._finished[key] = episode.finished()
        self._done[person.visitor][key.task_id] = episode.outcome.success
