"""Each test gets a session of its own, started as the zygote's child would execute it, without a sandbox."""
import os
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "../../python/tests"))

from harness import Spawned


@pytest.fixture
def kernel(tmp_path):
    kernel = Spawned("bash", [os.path.join(HERE, "../setup.sh")], str(tmp_path))
    yield kernel
    kernel.close()
