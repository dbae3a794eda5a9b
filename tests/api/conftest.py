"""The daemon and what the description is tried on: see operations.py."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "e2e"))

from fixtures import *  # noqa: E402,F403
from world import World  # noqa: E402


@pytest.hookimpl(wrapper=True, specname="pytest_runtest_makereport")
def name_the_operation(item, call):
    """All tests of operations come from one function; reports name the operation."""
    report = yield
    label = getattr(item, "operation_label", None)
    if label and label not in report.nodeid:
        report.nodeid += f"[{label}]"
    return report


@pytest.fixture(scope="session")
def world(daemon):
    with World(daemon) as made:
        yield made
