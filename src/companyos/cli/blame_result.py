"""What `companyos blame` prints: the story of one episode, or the habits that lost many episodes."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from companyos.evaluate.judge.blame import NOTHING, Blame, summarise_blames
from companyos.evaluate.judge.blame_text import headline, sentences
from companyos.evaluate.judge.habits import habit_of, habits

_MAX_EPISODES = 5  # listed for one habit


class BlamedFile(msgspec.Struct, frozen=True):
    """A transcript and its blame."""

    path: Path
    blame: Blame


def blame_json(files: Sequence[BlamedFile], skipped: Sequence[str]) -> dict[str, Any]:
    """Return the result as JSON: counts, habits, skipped files, and everything about each episode."""
    blames = [file.blame for file in files]
    return {
        "sheet": summarise_blames(blames),
        "habits": habits(blames),
        "skipped": skipped,
        "episodes": [_episode(file) for file in files],
    }


def _episode(file: BlamedFile) -> dict[str, Any]:
    blame = file.blame
    habit = "" if blame.kind == NOTHING else habit_of(blame)
    text = {"file": str(file.path), "habit": habit, "headline": headline(blame), "sentences": list(sentences(blame))}
    return text | msgspec.structs.asdict(blame)


def story_lines(blame: Blame) -> Iterator[str]:
    """Yield the story of one episode, under its task id."""
    yield blame.task_id
    yield from (f"  {sentence}" for sentence in sentences(blame))


def habit_lines(files: Sequence[BlamedFile]) -> Iterator[str]:
    """Yield how many episodes failed, and the failed episodes by habit, the most frequent habit first."""
    blames = [file.blame for file in files]
    failed = [file for file in files if file.blame.kind != NOTHING]
    successes = sum(blame.success for blame in blames)
    luck = f", {sum(blame.luck for blame in blames)} of them by luck" if successes else ""
    yield f"{len(files)} {'episode' if len(files) == 1 else 'episodes'}: {successes} succeeded{luck}; {len(failed)} failed."
    for habit in habits(blames):
        yield f"\n{habit.count} of {len(files)}: {habit.habit}"
        episodes = [file for file in failed if habit_of(file.blame) == habit.habit]
        yield from (f"  {file.path}\n    {headline(file.blame)}" for file in episodes[:_MAX_EPISODES])
        if len(episodes) > _MAX_EPISODES:
            yield f"  and {len(episodes) - _MAX_EPISODES} more; --json lists all"
    if failed:
        most_frequent = habits(blames)[0].habit
        example = next(file for file in failed if habit_of(file.blame) == most_frequent)
        yield f"\nThe story of one episode: companyos blame {example.path}"
