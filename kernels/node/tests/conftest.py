"""Each test gets a session of its own, started as the zygote's child would execute it, without a sandbox."""
import os
import shutil
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "../../python/tests"))

from harness import Spawned


def find_node() -> str:
    """SANDGLASS_TEST_NODE names one of another version."""
    found = os.environ.get("SANDGLASS_TEST_NODE") or shutil.which("node")
    if not found:
        pytest.skip("there is no node on this machine")
    return found


@pytest.fixture
def kernel(tmp_path):
    kernel = Spawned("node", [find_node(), os.path.join(HERE, "../runner.js")], str(tmp_path))
    yield kernel
    kernel.close()
