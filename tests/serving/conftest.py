"""What tests of the server share: a server of small models, and a client."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from served_models import models

from fusewire.serving import running


@pytest.fixture(scope="session")
def server() -> Iterator[Any]:
    with running(models()) as started:
        yield started


@pytest.fixture
def http(server: Any) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, timeout=30) as client:
        yield client
