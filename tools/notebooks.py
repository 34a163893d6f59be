"""Run the example notebooks and store their outputs: `python -m tools.notebooks`.

Cells with the tag `gpu` need a GPU and a model hub. They are not run here; tests only compile them.
"""

import os
import sys
import tempfile
from copy import deepcopy
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

EXAMPLES = Path(__file__).parents[1] / "examples"
NOTEBOOKS = ("quickstart.ipynb", "train_unsloth.ipynb")
GPU = "gpu"


def read(name: str) -> Any:
    return nbformat.read(EXAMPLES / name, as_version=4)


def needs_gpu(cell: Any) -> bool:
    return GPU in cell.metadata.get("tags", ())


def run(notebook: Any, folder: Path, last: str = "") -> Any:
    """Run a copy of a notebook in this folder, without its GPU cells and with `last` as an additional cell."""
    copy = deepcopy(notebook)
    copy.cells = [cell for cell in copy.cells if not needs_gpu(cell)]
    copy.cells += [nbformat.v4.new_code_cell(last)] * bool(last)
    client = NotebookClient(
        copy,
        timeout=900,
        kernel_name="python3",
        record_timing=False,
        coalesce_streams=True,
        resources={"metadata": {"path": str(folder)}},
    )
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    client.execute(env=os.environ | {"PATH": programs, "MPLBACKEND": "module://matplotlib_inline.backend_inline"})
    for cell in code(copy):
        cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]  # progress bars and warnings
    return copy


def code(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def printed(cell: Any) -> str:
    """Return the text output of a cell, without pictures."""
    return "".join(output.get("text") or output["data"].get("text/plain", "") for output in cell.outputs)


def main() -> None:
    for name in NOTEBOOKS:
        notebook = read(name)
        with tempfile.TemporaryDirectory() as folder:
            ran = {cell.id: cell for cell in code(run(notebook, Path(folder)))}
        for cell in code(notebook):
            cell.outputs = ran[cell.id].outputs if cell.id in ran else []
            cell.execution_count = ran[cell.id].execution_count if cell.id in ran else None
        nbformat.write(notebook, EXAMPLES / name)


if __name__ == "__main__":
    main()
