"""Security tests: what hostile code inside sees and is refused, and what requests from outside are.

The fixtures of the end-to-end tests, and those of inside.py.
"""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "e2e")]

import pytest  # noqa: E402

pytest.register_assert_rewrite("boxes", "inside", "host")

from fixtures import *  # noqa: E402,F403
from inside import *  # noqa: E402,F403
