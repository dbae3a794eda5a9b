"""What sessions and commands find around them, whatever earlier ones have done to it."""

from __future__ import annotations

import time

import pytest
from boxes import boxes  # noqa: F401
from daemon import PATIENCE

WHERE = {"python": "import os; open('made', 'w').close(); print(os.getcwd())", "bash": "touch made; pwd", "node": "require('fs').writeFileSync('made', ''); console.log(process.cwd())"}


@pytest.mark.parametrize("harm", ["shell", "api"])
@pytest.mark.parametrize("language", WHERE)
def test_a_removed_workspace_is_made_again_for_the_next_session(boxes, language, harm):  # noqa: F811
    box = boxes()
    box.kernel().said("print(1)")
    if harm == "shell":
        box.shell("cd / && rm -rf /workspace")
    else:
        box.request("DELETE", "/fs", want=204, params={"path": "/workspace"})
    assert box.kernel(language).said(WHERE[language]) == "/workspace\n"
    assert box.shell("pwd; ls; stat -c %U:%a .") == "/workspace\nmade\nuser:755\n"


@pytest.mark.parametrize("language", ["python", "node"])
def test_a_session_outlives_the_workspace_it_stands_in(boxes, language):  # noqa: F811
    box = boxes()
    kernel = box.kernel(language)
    kernel.said("kept = 5")
    box.shell("rm -rf /workspace")
    answer = kernel.run(WHERE[language])
    assert answer["stdout"] == "/workspace\n" and answer["kernel"]["state_kept"] is True and "was removed" in answer["stderr"]
    assert kernel.said({"python": "print(kept)", "node": "console.log(kept)"}[language]) == "5\n"
    assert box.shell("ls") == "made\n"


def test_where_the_workspace_cannot_be_entered_work_goes_on_in_the_root(boxes):  # noqa: F811
    box = boxes()
    box.shell("rm -rf /workspace && ln -s /nowhere /workspace")
    assert box.shell("pwd") == "/\n"
    assert box.kernel("bash").said("pwd") == "/\n"
    assert box.kernel().said("import os; print(os.getcwd())") == "/\n"


def test_pip_says_soon_that_there_is_no_network_wherever_it_is_called(boxes):  # noqa: F811
    box = boxes()
    kernel = box.kernel()
    for call in (lambda: box.command("pip install no-such-thing"), lambda: kernel.run("!python3 -m pip install no-such-thing 2>&1 | cat")):
        start = time.monotonic()
        answer = call()
        assert time.monotonic() - start < 20 * PATIENCE
        said = answer["stdout"] + answer["stderr"]
        assert "Retrying" in said and said.count("Retrying") <= 2 and "No matching distribution" in said
    assert "already satisfied: pandas" in kernel.said("%pip install pandas")
