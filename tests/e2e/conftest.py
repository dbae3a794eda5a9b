"""End-to-end tests: the real clients against a real daemon. What the fixtures do: fixtures.py."""

import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from fixtures import *  # noqa: E402,F403

# Whoever runs the tests in the background ignores SIGINT, and what the tests start would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
