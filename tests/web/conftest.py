"""What tests of pages have in common: a server, one for each file."""

from collections.abc import Iterator

import pytest

from tests.web.site import Served, served


@pytest.fixture(scope="module")
def site() -> Iterator[Served]:
    with served() as one:
        yield one
