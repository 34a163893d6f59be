"""What tests of pages have in common: a server, one for each file."""

from collections.abc import Iterator

import pytest

from tests.web.site import RunningSite, served


@pytest.fixture(scope="module")
def site() -> Iterator[RunningSite]:
    with served() as one:
        yield one
