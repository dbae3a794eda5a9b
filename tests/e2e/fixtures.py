"""The fixtures that end-to-end and security tests share; each folder's conftest.py takes them in:

    sys.path.insert(0, <tests/e2e>)
    from fixtures import *

daemon   one for the whole run: leave it as it was found. A test that stops, kills or configures one takes own_daemon.
client   the real PandaStack client, aimed at it          api      a requests session with the key set
box      a fresh sandbox for this test                    kernel   a kept Python kernel in it
"""

from __future__ import annotations

import os
import signal

import pytest

from daemon import PATIENCE, Daemon

__all__ = ["api", "box", "client", "daemon", "kernel", "own_daemon", "pytest_configure", "pytest_runtest_makereport", "watchdog"]

# An entry for localhost in a netrc would replace the bearer token, and a proxy has no business here.
os.environ["NETRC"] = os.devnull
os.environ["NO_PROXY"] = os.environ["no_proxy"] = "127.0.0.1,localhost"


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: takes more than ten seconds; left out by make check-quick")
    config.addinivalue_line("markers", "limit(seconds): the watchdog's limit for this test (default 60)")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """A failed test shows what the daemon logged while it ran."""
    report = yield
    daemon = getattr(item, "funcargs", {}).get("daemon")
    if report.failed and daemon is not None:
        report.sections.append(("the daemon's log, its last lines", "\n".join(daemon.log.splitlines()[-30:])))
    return report


@pytest.fixture(autouse=True)
def watchdog(request):
    """A call that hangs fails its own test instead of the whole run."""
    mark = request.node.get_closest_marker("limit")
    seconds = int((mark.args[0] if mark else 60) * PATIENCE)

    def bark(*_):
        raise TimeoutError(f"the test did not end within {seconds} s")

    old = signal.signal(signal.SIGALRM, bark)
    signal.alarm(seconds)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, old)


@pytest.fixture(scope="session")
def daemon():
    with Daemon() as running:
        yield running


@pytest.fixture
def own_daemon():
    """Makes daemons for one test: own_daemon(config={...}) starts one; all are ended with the test."""
    made = []

    def make(*args, **options) -> Daemon:
        made.append(Daemon(*args, **options))
        return made[-1].start()

    yield make
    problems = []
    for one in made:
        try:
            one.close()
        except Exception as problem:  # the next one has to be ended all the same
            problems.append(problem)
    if problems:
        raise problems[0]


@pytest.fixture
def client(daemon):
    from pandastack import Client

    return Client(api_url=daemon.url, api_key=daemon.key)


@pytest.fixture
def api(daemon):
    """api.get("/sandboxes"): paths below /v1, with the key; whole URLs are taken as they are."""
    import requests

    class Session(requests.Session):
        def request(self, method, url, **options):
            options.setdefault("timeout", 60 * PATIENCE)
            return super().request(method, f"{daemon.url}/v1{url}" if url.startswith("/") else url, **options)

    with Session() as session:
        session.headers["Authorization"] = f"Bearer {daemon.key}"
        yield session


@pytest.fixture
def box(client):
    from pandastack import NotFoundError

    sandbox = client.sandboxes.create(template="code-interpreter", ttl_seconds=600)
    yield sandbox
    try:
        sandbox.kill()
    except NotFoundError:
        pass  # the test ended it


@pytest.fixture
def kernel(box):
    return box.create_code_context(language="python")
