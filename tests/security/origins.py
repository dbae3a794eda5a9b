"""Sandboxes of both origins: taken from the pool with all their kernels, and made for the test. What holds for one has to
hold for the other, so a module that takes these fixtures in has each of its tests run twice:

    from origins import boxes, daemon  # noqa: F401
"""

from __future__ import annotations

import pytest
from boxes import Box
from daemon import Daemon

ORIGINS = {"pooled": {"sandboxes": 2, "languages": ["python", "bash", "node"]}, "new": 0}


@pytest.fixture(scope="module", params=ORIGINS)
def daemon(request):
    with Daemon(config={"pool": ORIGINS[request.param], "templates": ["code-interpreter"]}) as running:
        yield running


@pytest.fixture
def boxes(daemon):
    made: list[Box] = []

    def make(**options) -> Box:
        if daemon.config["pool"]:
            daemon.wait_for_pool()
        made.append(Box(daemon, **options))
        told = daemon.events("sandbox.started")[-1]["message"]
        assert told.endswith("from the pool") is bool(daemon.config["pool"]), told
        return made[-1]

    yield make
    for box in made:
        box.kill()
