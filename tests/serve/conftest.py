"""Fixtures for the tests of the server."""

from collections.abc import Iterator

import pytest

from tests.serve.postgres import Postgres, running


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A database server for all tests that do not break it; each takes a database of its own."""
    with running() as server:
        yield server
