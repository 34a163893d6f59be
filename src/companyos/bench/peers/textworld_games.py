"""TextWorld games: houses of five rooms, generated and compiled by TextWorld, played by their walkthroughs."""

import shutil
import weakref
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import textworld

from companyos.bench.peers.peer import Peer

GAMES = 4
ROOMS, OBJECTS, QUEST = 5, 10, 8


class TextWorldGames(Peer):
    name = "TextWorld"
    module = "textworld"
    step_includes = f"a sentence parsed and carried out by a Z-machine, its reply as text; {ROOMS} rooms, {OBJECTS} objects"
    text = True
    seeded = True

    def __init__(self) -> None:
        self._folder = mkdtemp(prefix="companyos-peers-")
        weakref.finalize(self, shutil.rmtree, self._folder)
        self._games: dict[int, str] = {}
        self.scripts = [self._make(number) for number in range(GAMES)]

    def open(self) -> Any:
        return textworld.start(self._games[0])

    def begin(self, env: Any, number: int) -> Any:
        if number not in self._games:
            self._make(number)
        env.load(self._games[number])
        env.reset()
        return env

    def fork(self, env: Any) -> Any:
        return env.copy()

    def _make(self, number: int) -> list[str]:
        """Make this game, and return its walkthrough."""
        options = textworld.GameOptions()
        options.nb_rooms, options.nb_objects, options.quest_length, options.seeds = ROOMS, OBJECTS, QUEST, number
        options.path = str(Path(self._folder, f"{number}.z8"))
        self._games[number], game = textworld.make(options)
        return list(game.metadata["walkthrough"])


PEERS = (TextWorldGames,)
