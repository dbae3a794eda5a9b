"""End-to-end tests: the real clients against a real daemon. What the fixtures do: fixtures.py."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from fixtures import *  # noqa: E402,F403
