"""Fixtures of the page tests: one running server for each test file."""

from collections.abc import Iterator

import pytest

from tests.web.site import RunningSite, served


@pytest.fixture(scope="module")
def site() -> Iterator[RunningSite]:
    with served() as running:
        yield running
