"""Journals: what a training run wrote down, and where it can go on.

    run.json          what the run is: no other one is mixed into its folder
    log.jsonl         a line an update or a checkup, as it happened
    checkpoint.pt     the newest state, whole or not there
    model/            what was learnt so far, as `--model` and `local:` take it

Whatever ends a run, the same command goes on from its newest checkpoint. What was logged after that is cut off, for it will
happen again: the same, if the loop's next update follows from its state alone.
"""

import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

from companyos.core.errors import BadChoice, Misuse
from companyos.core.files import write_atomic

RUN, LOG, CHECKPOINT, MODEL = "run.json", "log.jsonl", "checkpoint.pt", "model"
EVERY = 60.0  # seconds between checkpoints
TRACKERS = ("trackio", "wandb")  # they are called alike
Record = dict[str, Any]


class Journal:
    """The folder of one run, for whoever trains."""

    checkpoint = CHECKPOINT

    def __init__(self, folder: Path, plan: Mapping[str, Any], tracker: str = "", every: float = EVERY) -> None:
        """Opens a run, or finds it begun. `Misuse` where the folder holds something else."""
        self.folder = folder
        self._every = every
        self._spent = 0.0  # seconds, in earlier sittings
        self._saved = self._began = time.monotonic()
        self._begin(msgspec.json.decode(msgspec.json.encode(dict(plan))))
        (folder / LOG).touch()
        self._tracker = import_module(tracker) if tracker else None
        if self._tracker is not None:
            self._tracker.init(project="companyos", name=folder.name, config=dict(plan))

    def _begin(self, plan: Record) -> None:
        path = self.folder / RUN
        self.folder.mkdir(parents=True, exist_ok=True)
        if path.exists():
            found = msgspec.json.decode(path.read_bytes())
            for name in {**found, **plan}:
                if found.get(name) != plan.get(name):
                    other = f"{name} is {found.get(name)}, not {plan.get(name)}"
                    raise Misuse(f"{self.folder} holds a run whose {other}; go on with that, or give another folder")
        elif any(self.folder.iterdir()):
            raise Misuse(f"{self.folder} is neither empty nor the folder of a training run")
        else:
            write_atomic(path, msgspec.json.format(msgspec.json.encode(plan)) + b"\n")

    @property
    def elapsed(self) -> float:
        """How many seconds the run has taken, over all its sittings."""
        return self._spent + time.monotonic() - self._began

    def log(self, record: Record) -> None:
        """Writes down what came of an update, or of a checkup."""
        with (self.folder / LOG).open("ab") as file:
            file.write(msgspec.json.encode({**record, "elapsed": round(self.elapsed, 3)}) + b"\n")
        if self._tracker is not None:
            self._tracker.log(dict(_flat(record)), step=record.get("update"))

    # -- checkpoints -----------------------------------------------------------------------------------------------

    def due(self) -> bool:
        """Whether it is time for a checkpoint."""
        return time.monotonic() - self._saved >= self._every

    def save(self, state: Record) -> None:
        """Keeps a state to go on from, in place of the one before."""
        part = self.folder / f"{self.checkpoint}.part"
        self._write({"state": state, "logged": (self.folder / LOG).stat().st_size, "elapsed": self.elapsed}, part)
        part.replace(self.folder / self.checkpoint)
        self._saved = time.monotonic()

    def resume(self) -> Record | None:
        """The state to go on from, if there is one; the log ends where it was kept, or begins anew."""
        path = self.folder / self.checkpoint
        kept: Record = {"state": None, "logged": 0, "elapsed": 0.0}
        if path.exists():
            kept = self._read(path)
        os.truncate(self.folder / LOG, kept["logged"])
        self._spent, self._began = kept["elapsed"], time.monotonic()
        state: Record | None = kept["state"]
        return state

    def _write(self, kept: Record, path: Path) -> None:
        import torch

        torch.save(kept, path)

    def _read(self, path: Path) -> Record:
        import torch

        kept: Record = torch.load(path, map_location="cpu")
        return kept

    def publish(self, write: Callable[[Path], None]) -> Path:
        """Has somebody write what was learnt into `model`, in place of what was there."""
        model, part, old = (self.folder / name for name in (MODEL, f"{MODEL}.part", f"{MODEL}.old"))
        for path in (part, old):
            shutil.rmtree(path, ignore_errors=True)
        write(part)
        if model.exists():
            model.rename(old)
        part.rename(model)
        shutil.rmtree(old, ignore_errors=True)
        return model

    def close(self) -> None:
        if self._tracker is not None:
            self._tracker.finish()


def records(folder: Path) -> Iterator[Record]:
    """What a run has logged so far. The last line may be half written: somebody is at work, or was killed."""
    for line in (folder / LOG).read_bytes().split(b"\n")[:-1]:
        yield msgspec.json.decode(line)


def settings(folder: Path) -> Record:
    """What a run is."""
    said: Record = msgspec.json.decode((folder / RUN).read_bytes())
    return said


def check_run(folder: Path) -> None:
    """Raises `Misuse` where a folder holds no training run."""
    if not (folder / LOG).is_file():
        raise Misuse(f"{folder} holds no training run: there is no {LOG} in it")


def check_tracker(name: str) -> None:
    """Raises where nobody of this name can follow a run."""
    if name not in TRACKERS:
        raise BadChoice("tracker", name, TRACKERS)
    if find_spec(name) is None:
        raise Misuse(f"--track {name} needs it: pip install {name}")


def _flat(record: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, float]]:
    for name, value in record.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{name}/")
        elif isinstance(value, int | float):
            yield f"{before}{name}", value
