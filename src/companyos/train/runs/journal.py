"""The folder of a training run: its settings, log, checkpoint and model.

    run.json          the settings of the run; a run with other settings is refused
    log.jsonl         a line for each update or checkup
    checkpoint.pt     the latest state, written atomically
    model/            the model so far, as `--model` and `local:` take it

If a run is interrupted, the same command continues from the latest checkpoint. Log lines after that checkpoint are removed,
because those updates are made again.
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
CHECKPOINT_SECONDS = 60.0  # between checkpoints
TRACKERS = ("trackio", "wandb")  # they have the same interface
Record = dict[str, Any]


class Journal:
    """The folder of one run, as the training loop uses it."""

    checkpoint = CHECKPOINT

    def __init__(self, folder: Path, plan: Mapping[str, Any], tracker: str = "", every: float = CHECKPOINT_SECONDS) -> None:
        """Begin a run, or open one that was begun. Raise `Misuse` if the folder contains something else."""
        self.folder = folder
        self._every = every
        self._earlier_seconds = 0.0  # in earlier sessions
        self._saved = self._began = time.monotonic()
        self._begin(msgspec.json.decode(msgspec.json.encode(dict(plan))))
        (folder / LOG).touch()
        self._tracker = import_module(tracker) if tracker else None
        if self._tracker is not None:
            self._tracker.init(project="companyos", name=folder.name, config=dict(plan))

    def _begin(self, plan: Record) -> None:
        """Write the settings, or compare them with those of a run that was begun."""
        path = self.folder / RUN
        self.folder.mkdir(parents=True, exist_ok=True)
        if path.exists():
            earlier_plan = msgspec.json.decode(path.read_bytes())
            for name in {**earlier_plan, **plan}:
                if earlier_plan.get(name) != plan.get(name):
                    difference = f"{name} is {earlier_plan.get(name)}, not {plan.get(name)}"
                    raise Misuse(f"{self.folder} holds a run whose {difference}; go on with that, or give another folder")
        elif any(self.folder.iterdir()):
            raise Misuse(f"{self.folder} is neither empty nor the folder of a training run")
        else:
            write_atomic(path, msgspec.json.format(msgspec.json.encode(plan)) + b"\n")

    @property
    def elapsed(self) -> float:
        """Seconds that the run has taken, over all its sessions."""
        return self._earlier_seconds + time.monotonic() - self._began

    def log(self, record: Record) -> None:
        """Append the record of an update or a checkup to the log."""
        with (self.folder / LOG).open("ab") as file:
            file.write(msgspec.json.encode({**record, "elapsed": round(self.elapsed, 3)}) + b"\n")
        if self._tracker is not None:
            self._tracker.log(dict(_flat(record)), step=record.get("update"))

    # -- checkpoints -----------------------------------------------------------------------------------------------

    def due(self) -> bool:
        """Return whether it is time for a checkpoint."""
        return time.monotonic() - self._saved >= self._every

    def save(self, state: Record) -> None:
        """Write a checkpoint in place of the one before."""
        part = self.folder / f"{self.checkpoint}.part"
        self._write({"state": state, "logged": (self.folder / LOG).stat().st_size, "elapsed": self.elapsed}, part)
        part.replace(self.folder / self.checkpoint)
        self._saved = time.monotonic()

    def resume(self) -> Record | None:
        """Return the state of the latest checkpoint, or None. Remove the log lines after it."""
        path = self.folder / self.checkpoint
        checkpoint: Record = {"state": None, "logged": 0, "elapsed": 0.0}
        if path.exists():
            checkpoint = self._read(path)
        os.truncate(self.folder / LOG, checkpoint["logged"])
        self._earlier_seconds, self._began = checkpoint["elapsed"], time.monotonic()
        state: Record | None = checkpoint["state"]
        return state

    def _write(self, checkpoint: Record, path: Path) -> None:
        import torch

        torch.save(checkpoint, path)

    def _read(self, path: Path) -> Record:
        import torch

        checkpoint: Record = torch.load(path, map_location="cpu")
        return checkpoint

    def publish(self, write: Callable[[Path], None]) -> Path:
        """Let `write` write the model into the folder `model`, in place of the one before."""
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
    """Yield the log records of a run. Skip an incomplete last line, which a running or killed process may leave."""
    for line in (folder / LOG).read_bytes().split(b"\n")[:-1]:
        yield msgspec.json.decode(line)


def settings(folder: Path) -> Record:
    """Return the settings of a run."""
    plan: Record = msgspec.json.decode((folder / RUN).read_bytes())
    return plan


def check_run(folder: Path) -> None:
    """Raise `Misuse` if a folder contains no training run."""
    if not (folder / LOG).is_file():
        raise Misuse(f"{folder} holds no training run: there is no {LOG} in it")


def check_tracker(name: str) -> None:
    """Raise `Misuse` if a tracker is unknown or not installed."""
    if name not in TRACKERS:
        raise BadChoice("tracker", name, TRACKERS)
    if find_spec(name) is None:
        raise Misuse(f"--track {name} needs it: pip install {name}")


def _flat(record: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    """Yield the numbers in a record, also nested ones, whose names are joined by a slash."""
    for name, value in record.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}/")
        elif isinstance(value, int | float):
            yield f"{prefix}{name}", value
