"""Files that are either complete or absent."""

from pathlib import Path

import pytest

from companyos.core.files import PART, write_atomic


def test_a_file_is_replaced_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for content in (b"one", b"another"):
        write_atomic(path, content)
        assert path.read_bytes() == content
    assert list(tmp_path.iterdir()) == [path]


def test_an_interrupted_write_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    write_atomic(path, b"whole")

    def stop(part: Path, target: Path) -> None:
        assert part.name.endswith(PART)
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", stop)
    with pytest.raises(KeyboardInterrupt):
        write_atomic(path, b"half")
    assert path.read_bytes() == b"whole"


def test_a_missing_folder_is_made_only_on_request(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "file"
    with pytest.raises(FileNotFoundError):
        write_atomic(path, b"")
    write_atomic(path, b"whole", make_folder=True)
    assert path.read_bytes() == b"whole"
