"""Writes the README's episode anew: `python -m tests.golden.readme` after what the expert does there has changed."""

import os
import re
import subprocess
import sys
from pathlib import Path

from companyos.env import make

README = Path(__file__).parents[2] / "README.md"
LINES = re.compile(r'make\("(?P<family>\w+)", seed=(?P<seed>\d+), chaos=(?P<chaos>[\d.]+)\)')
WATCHED = re.compile(
    r"`companyos watch (?P<family>\w+) --seed (?P<seed>\d+) --chaos (?P<chaos>[\d.]+)`:\n\n```text\n.*?```", re.DOTALL
)


def main() -> None:
    text = README.read_text()
    [lines] = LINES.finditer(text)
    brief = make(lines["family"], int(lines["seed"]), float(lines["chaos"])).reset().task
    ticket = re.findall(r"T-\d+", brief)[0]
    text = re.sub(r'"ticket_id": "T-\d+"', f'"ticket_id": "{ticket}"', text)
    [watched] = WATCHED.finditer(text)
    words = ["watch", watched["family"], "--seed", watched["seed"], "--chaos", watched["chaos"]]
    command = [sys.executable, "-c", "from companyos.cli.main import main; main()", *words]
    width = {**os.environ, "COLUMNS": "118"}
    shown = subprocess.run(command, env=width, capture_output=True, text=True, check=True).stdout
    episode, _, end = shown.partition("\nSuccess.\n")
    verdict = end[end.index("The right ending") :]  # without the goals one by one
    kept = [line.rstrip() for line in [*episode.strip().splitlines(), "", "Success.", *verdict.strip().splitlines()]]
    title = watched[0].split("\n", 1)[0]
    README.write_text(text.replace(watched[0], f"{title}\n\n```text\n" + "\n".join(kept) + "\n```"))


if __name__ == "__main__":
    main()
