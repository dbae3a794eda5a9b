"""What a cell may rely on, one sentence a test. See harness.py for where the kernels run."""
import base64
import importlib
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys

import pytest

from harness import HEADER, KERNELS, READY, RUN, KernelDied

PLOT = "import matplotlib.pyplot as plt\n"


def png_size(text):
    data = base64.b64decode(text)
    assert data[:8] == b"\x89PNG\r\n\x1a\n" and b"IEND" in data[-12:]
    return struct.unpack(">II", data[16:24])


# ------------------------------------------------------------ state and values

def test_names_imports_and_functions_carry_over(kernel):
    kernel.run("import math\ndef area(r):\n    return math.pi * r ** 2\nsize = 3")
    assert kernel.run("round(area(size), 3)").text == "28.274"


@pytest.mark.parametrize("code", ["x = 5", "None", "for i in range(3):\n    i", "def f():\n    return 1", "7;", "(7);", "7;  # seven", "'é;';", "", "  \n", "# only a comment"])
def test_cells_without_a_value_have_no_result(kernel, code):
    run = kernel.run(code)
    assert run.log == [("done", {"exit": 0})]


@pytest.mark.parametrize("code, text", [
    ("1 + 1", "2"), ("'é\\n'", "'é\\n'"), ("a = 4\na * 2  # twice; really", "8"), ("{'k': [1]}", "{'k': [1]}"),
    ("\n\n5", "5"), ("  6", "6"), ("a = 7;a", "7"), ("'漢🙂;'", "'漢🙂;'"), ("1.5", "1.5"), ("True", "True"),
    ("from __future__ import annotations\ndef f(x: nowhere): pass\nf.__annotations__", "{'x': 'nowhere'}")])
def test_the_last_expression_is_the_result(kernel, code, text):
    run = kernel.run(code)
    assert (run.text, run.exit, run.stdout, run.stderr) == (text, 0, "", "")


def test_underscore_and_out_hold_the_last_values(kernel):
    kernel.run("40 + 2")
    assert kernel.run("_ + 1").text == "43"
    assert kernel.run("__, _1, Out[1], len(In)").text == "(42, 42, 42, 4)"


def test_only_a_few_old_values_are_kept(kernel):
    for n in range(120):
        kernel.run(f"{n}")
    run = kernel.run("len(Out) <= 50, Out[120], '_3' in globals()")
    assert run.text == "(True, 119, False)" and run.stderr == ""


def test_an_underscore_of_the_users_own_is_left_alone(kernel):
    kernel.run("_ = 'mine'")
    kernel.run("5")
    assert kernel.run("_").text == "'mine'"


def test_future_imports_hold_for_later_cells(kernel):
    kernel.run("from __future__ import annotations")
    assert kernel.run("def f(x: nowhere): pass\nf.__annotations__['x']").text == "'nowhere'"


def test_main_is_a_real_module_with_the_users_names(kernel):
    kernel.run("class C:\n    pass\nx = 7")
    assert kernel.run("import pickle, sys\n(__name__, sys.modules['__main__'].x, type(pickle.loads(pickle.dumps(C()))) is C)").text == "('__main__', 7, True)"


def test_a_new_kernel_knows_no_names(new_kernel):
    new_kernel().run("mine = 1")
    names = new_kernel().run("sorted(n for n in globals() if not n.startswith('_'))")
    assert names.text == "['In', 'Out', 'get_ipython']"


def test_the_source_of_a_function_can_be_had(kernel):
    kernel.run("def twice(x):\n    return 2 * x")
    assert kernel.run("import inspect\ninspect.getsource(twice)").text == r"'def twice(x):\n    return 2 * x\n'"


def test_long_code_and_odd_characters_come_through(kernel):
    assert kernel.run("s = '" + "z" * 1_000_000 + "'\nlen(s)").text == "1000000"
    assert kernel.run("größe = '漢🙂'\nprint(größe)\nlen(größe)").stdout == "漢🙂\n"
    assert kernel.run("\ufeffprint('after the mark')\n").stdout == "after the mark\n"
    assert kernel.run("\ufeff%pwd").exit == 0
    assert kernel.run("'a\0b'").exit == 1  # what Python says to it
    assert kernel.run("1").text == "1"


# ------------------------------------------------------------ output and its order

def test_streams_are_told_apart(kernel):
    run = kernel.run("import sys\nprint('to out')\nprint('to err', file=sys.stderr)\n[1, 2]")
    assert (run.stdout, run.stderr, run.text, run.exit) == ("to out\n", "to err\n", "[1, 2]", 0)


def test_prints_displays_and_errors_are_read_in_the_order_of_writing(kernel):
    run = kernel.run("import sys\nfor i in range(300):\n    print('o', i)\n    print('e', i, file=sys.stderr)\n    display(i)\n'end'")
    want = [entry for i in range(300) for entry in
            (("stdout", f"o {i}\n"), ("stderr", f"e {i}\n"), ("display", {"data": {"text/plain": str(i)}}))]
    assert run.log[:-2] == want and run.log[-2][0] == "result"


def test_children_and_c_code_keep_their_place(kernel):
    run = kernel.run(
        "import ctypes, os, subprocess, sys\nlibc = ctypes.CDLL(None)\nfor i in range(10):\n    print('1')\n    os.system('echo 2')\n    display(3)\n"
        "    subprocess.run('echo 4 >&2', shell=True)\n    print('5')\n    subprocess.Popen(['echo', '6'], stdout=sys.stdout).wait()\n"
        "    libc.puts(b'7')\n    libc.fflush(None)\n    display(8)")
    flat = "".join(value if isinstance(value, str) else value["data"]["text/plain"] + "\n" for kind, value in run.log if kind != "done")
    assert flat.split() == [str(n) for n in range(1, 9)] * 10


def test_what_c_code_has_buffered_comes_at_the_end_of_the_cell(kernel):
    assert kernel.run("import ctypes\nctypes.CDLL(None).puts(b'buffered');").stdout == "buffered\n"


def test_a_reader_that_does_not_read_costs_the_order_not_the_cell(kernel):
    kernel.start("import sys\nprint('o')\nprint('e', file=sys.stderr)\ndisplay(1)")
    assert select.select([kernel.err], [], [], 60)[0], "stderr waits for ever for the reader of stdout"
    run = kernel.finish()
    assert (run.stdout, run.stderr, run.exit, len(run.displays)) == ("o\n", "e\n", 0, 1)


def test_more_than_a_pipe_holds_does_not_block(kernel):
    run = kernel.run("import sys\nfor i in range(20):\n    print('o' * 100_000)\n    print('e' * 100_000, file=sys.stderr)")
    assert len(run.stdout) == len(run.stderr) == 20 * 100_001


def test_many_lines_are_whole(kernel):
    assert kernel.run("for i in range(8000):\n    print('line', i)").stdout.splitlines() == [f"line {i}" for i in range(8000)]


def test_bytes_and_lone_surrogates_can_be_printed(kernel):
    run = kernel.run("import sys\nn = sys.stdout.buffer.write(bytes([255, 254, 10]))\nsys.stdout.flush()\nprint('\\udc80')\nprint('then')\nn")
    assert run.stdout == "��\n\\udc80\nthen\n" and run.text == "3"


def test_lone_surrogates_in_values_and_errors_are_escaped(kernel):
    assert kernel.run("from IPython.display import HTML\nHTML('\\ud800')").result["text/html"] == "\\ud800"
    assert kernel.run("raise ValueError('\\ud800')").error["message"] == "\\ud800"


def test_streams_are_what_libraries_expect(kernel):
    run = kernel.run("import sys\n(sys.stdout.fileno(), sys.stderr.fileno(), sys.stdout.isatty(), sys.stdout.encoding, sys.stdout.writable(), sys.__stdout__ is sys.stdout)")
    assert run.text == "(1, 2, False, 'utf-8', True, True)"


def test_text_is_written_at_once(kernel):
    kernel.start("import time\nprint('early word', end='')\ntime.sleep(600)")
    kernel.wait_for("early word")
    kernel.interrupt()
    kernel.finish()


@pytest.mark.parametrize("harm", [
    "import sys\nsys.stdout.close()\nsys.stderr.close()", "import os\nos.close(1)\nos.close(2)\nos.close(0)", "import sys\nsys.stdout = sys.stderr = None",
    "import os\nfd = os.open('f', os.O_CREAT | os.O_WRONLY)\nos.dup2(fd, 1)\nos.dup2(fd, 2)\nos.close(fd)", "import sys\nsys.stdout.detach()\nsys.stderr.detach();",
    "import os, sys\nsys.stdin.close()\nos.close(10)\nos.close(11)", "import os\nos.closerange(4, 64)", "import os\nos.set_blocking(1, False)",
    "import io, sys\nsys.stdout = sys.stderr = io.StringIO()\n1 / 0", "import sys\nsys.stdout = sys.stderr = open('f', 'w')", "import io, sys\nsys.stdout = io.TextIOWrapper(io.BytesIO())"])
def test_a_cell_that_ruins_its_streams_ruins_nothing_else(kernel, harm):
    kernel.run(harm)
    run = kernel.run("import sys\nprint('ok')\nprint('err', file=sys.stderr)\n'value'")
    assert (run.stdout, run.stderr, run.text) == ("ok\n", "err\n", "'value'")
    assert kernel.run("!echo child").stdout == "child\n"
    assert kernel.run("try:\n    input()\nexcept EOFError:\n    print('eof')").stdout == "eof\n"


def test_a_wrapper_around_the_buffer_does_no_harm(kernel):
    run = kernel.run("import io, sys\nsys.stdout = io.TextIOWrapper(sys.stdout.buffer, encoding='utf-8')\nprint('wrapped')")
    assert run.stdout == "wrapped\n"
    assert kernel.run("sys.stdout = sys.__stdout__\nimport gc\ngc.collect()\nprint('back')").stdout == "back\n"


def test_an_object_that_passes_on_what_is_printed_stays_in_place(kernel):
    kernel.run("import sys\nclass Both:\n    def __init__(self, one):\n        self.one, self.kept = one, []\n    def write(self, text):\n        self.kept.append(text)\n        return self.one.write(text)\n"
               "    def flush(self):\n        pass\nsys.stdout = both = Both(sys.stdout)")
    assert kernel.run("print('seen')").stdout == "seen\n"
    assert kernel.run("''.join(both.kept)").text == r"'seen\n'"


def test_a_log_handler_of_an_earlier_cell_still_writes(kernel):
    kernel.run("import logging\nlogging.basicConfig()")
    assert "second cell" in kernel.run("logging.warning('second cell')").stderr
    run = kernel.run("print('third')")
    assert (run.stdout, run.stderr) == ("third\n", "")


def test_printing_into_a_string_catches_children_of_the_shell_line_too(kernel):
    assert kernel.run("import contextlib, io\ns = io.StringIO()\nwith contextlib.redirect_stdout(s):\n    print('a')\n    get_ipython().system('echo b')\ns.getvalue()").text == r"'a\nb\n'"


def test_a_warning_is_no_failure_and_comes_each_time(kernel):
    for _ in range(2):
        run = kernel.run("import warnings\nwarnings.warn('careful now')\n5")
        assert run.text == "5" and "careful now" in run.stderr and run.exit == 0 and run.error is None


# ------------------------------------------------------------ displays

def test_displays_updates_and_clearing_are_events(kernel):
    run = kernel.run("from IPython.display import HTML, clear_output\nh = display(HTML('<b>1</b>'), display_id='me')\nh.update(HTML('<b>2</b>'))\nclear_output(wait=True)")
    (one,), (two,), (clear,) = run.all("display"), run.all("update"), run.all("clear")
    assert one["id"] == two["id"] == "me" and clear == {"wait": True}
    assert one["data"]["text/html"] == "<b>1</b>" and two["data"]["text/html"] == "<b>2</b>"


def test_rich_values_of_every_kind_are_strings(kernel):
    run = kernel.run(
        "from IPython.display import HTML, JSON, SVG, Markdown, Latex, display\n"
        "display(HTML('<b>h</b>'))\ndisplay(JSON({'a': [1, None, 'é', float('nan')]}))\n"
        "display(SVG('<svg xmlns=\"http://www.w3.org/2000/svg\"><rect/></svg>'))\ndisplay(Markdown('# m'))\ndisplay(Latex('$x$'))\n'last'")
    html, json_, svg, markdown, latex, last = run.displays
    assert html["text/html"] == "<b>h</b>" and json.loads(json_["application/json"]) == {"a": [1, None, "é", None]}
    assert "<rect" in svg["image/svg+xml"] and markdown["text/markdown"] == "# m" and latex["text/latex"] == "$x$" and last["text/plain"] == "'last'"


def test_a_bundle_of_an_objects_own_is_made_fit(kernel):
    run = kernel.run("class P:\n    def _repr_mimebundle_(self, **_):\n        return {'application/vnd.p+json': {'d': [1]}, 'type': 'x', 'text/html': None, 'image/png': b'ab', 'text/plain': 'p'}\nP()")
    assert run.result == {"application/vnd.p+json": '{"d": [1]}', "image/png": "YWI=", "text/plain": "p"}


def test_a_data_frame_comes_as_html_and_text_with_all_its_columns(kernel):
    run = kernel.run("import pandas as pd\npd.DataFrame({f'col{n:02}': range(200) for n in range(30)})")
    for n in range(30):
        assert f"col{n:02}" in run.result["text/html"] and f"col{n:02}" in run.text
    assert "<table" in run.result["text/html"]


def test_a_very_wide_data_frame_says_how_wide(kernel):
    assert "80 columns" in kernel.run("import pandas as pd\npd.DataFrame({f'c{n}': [1] for n in range(80)})").result["text/html"]


def test_a_value_longer_than_a_packet_is_whole(kernel):
    run = kernel.run("from IPython.display import HTML, display\ndisplay(HTML('<p>' + 'y' * 6_000_000 + '</p>'))\nprint('ok')")
    assert len(run.displays[0]["text/html"]) == 6_000_007 and run.stdout == "ok\n"


def test_what_is_over_the_cap_is_named_and_the_rest_comes(kernel):
    run = kernel.run("class Big:\n    def _repr_html_(self):\n        return 'x' * 20_000_000\n    def __repr__(self):\n        return 'small'\nBig()")
    assert list(run.result) == ["text/plain"] and run.text.startswith("small\n")
    assert "20,000,009" in run.text and "16,777,216" in run.text
    assert kernel.run("1").text == "1"


def test_a_flood_of_displays_is_bounded(kernel):
    run = kernel.run("for n in range(1000):\n    display('y' * 200_000)")
    assert sum(len(d["text/plain"]) for d in run.displays) < 17 << 20 and 80 < len(run.displays) < 300
    assert "without a note" in run.displays[-1]["text/plain"]


def test_twenty_displays_and_a_value_many_times(kernel):
    for _ in range(40):
        run = kernel.run("for n in range(20):\n    display(f'd{n}')\n'end'")
        assert [d["text/plain"] for d in run.displays] == [f"'d{n}'" for n in range(20)] + ["'end'"]


def test_displays_of_two_threads_are_not_torn(kernel):
    run = kernel.run("import threading\nfrom IPython.display import HTML\ndef f(c):\n    for _ in range(20):\n        display(HTML(c * 300_000))\n"
                     "ts = [threading.Thread(target=f, args=c) for c in 'ab']\n[t.start() for t in ts]\n[t.join() for t in ts];")
    assert len(run.displays) == 40 and all(len(set(d["text/html"])) == 1 for d in run.displays)


def test_a_signal_handler_that_displays_does_not_tear_a_value(kernel):
    run = kernel.run("import signal\nfrom IPython.display import HTML\nsignal.signal(signal.SIGALRM, lambda *_: display('tick'))\nsignal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)\n"
                     "for _ in range(30):\n    display(HTML('x' * 500_000))\nsignal.setitimer(signal.ITIMER_REAL, 0);")
    whole = [d for d in run.displays if "text/html" in d]
    assert len(whole) == 30 and all(len(d["text/html"]) == 500_000 for d in whole)


# ------------------------------------------------------------ figures

def test_a_figure_is_one_png_shown_where_it_was_asked_for(kernel):
    run = kernel.run(PLOT + "plt.plot([1, 4, 9])\nplt.title('squares')\nplt.show()\nprint('shown')")
    assert [kind for kind, _ in run.log] == ["display", "stdout", "done"] and list(run.displays[0]) == ["image/png"]
    assert png_size(run.pngs[0]) > (100, 100)


def test_a_figure_needs_no_show(kernel):
    run = kernel.run(PLOT + "fig, ax = plt.subplots()\nax.bar(['a', 'b'], [1, 2])\nprint('no show')")
    assert len(run.pngs) == 1 and run.stdout == "no show\n"
    assert kernel.run("plt.get_fignums()").text == "[]"


def test_a_figure_that_is_the_last_value_comes_once(kernel):
    run = kernel.run(PLOT + "fig, ax = plt.subplots()\nax.plot([1, 2])\nfig")
    assert len(run.pngs) == 1 and "image/png" in run.result and "Figure" in run.text
    assert len(kernel.run("fig").pngs) == 1


def test_a_displayed_figure_is_not_shown_again_unless_changed(kernel):
    assert len(kernel.run(PLOT + "fig, ax = plt.subplots()\nax.plot([1, 2])\ndisplay(fig)\nplt.show()").pngs) == 1
    assert len(kernel.run("fig, ax = plt.subplots()\nax.plot([1, 2])\ndisplay(fig)\nax.set_title('new')\nplt.show()").pngs) == 2


def test_figures_of_a_loop_come_in_order_between_the_prints(kernel):
    run = kernel.run(PLOT + "for i in range(3):\n    plt.plot([i, 1])\n    print(i)\n    plt.show()")
    assert [kind for kind, _ in run.log] == ["stdout", "display"] * 3 + ["done"]


def test_several_open_figures_come_in_the_order_made(kernel):
    run = kernel.run(PLOT + "for w in (2, 4, 6):\n    plt.figure(figsize=(w, 2), dpi=100)\n    plt.plot([0, 1])")
    widths = [png_size(p)[0] for p in run.pngs]
    assert len(widths) == 3 and widths == sorted(set(widths))


def test_axes_as_value_give_text_and_the_picture(kernel):
    run = kernel.run("import pandas as pd\npd.DataFrame({'a': [1, 2]}).plot(kind='bar')")
    assert "Axes" in run.text and list(run.result) == ["text/plain"] and len(run.pngs) == 1


@pytest.mark.parametrize("first", ["import matplotlib\nmatplotlib.use('Agg')\n", "import matplotlib\nmatplotlib.use('TkAgg')\n", "%matplotlib inline\n", "%matplotlib agg\n", "plt.switch_backend('agg')\n",
                                   "plt.ioff()\n", "plt.style.use('ggplot')\n"])
def test_the_choice_of_a_backend_is_harmless(kernel, first):
    run = kernel.run(PLOT + first + PLOT + "plt.plot([1, 2])\nplt.show()\nprint('after')")
    assert [kind for kind, _ in run.log] == ["display", "stdout", "done"], run.stderr


def test_a_figure_out_of_all_bounds_is_refused_with_words(kernel):
    run = kernel.run(PLOT + "plt.figure(figsize=(1e5, 1e5))\nplt.plot([1])\nplt.show()")
    assert run.exit == 1 and "pixels" in run.error["message"] and not run.pngs
    run = kernel.run("fig, ax = plt.subplots()\nax.plot([1, 2])\nax.text(1e6, 1, 'far')\nplt.show()")
    assert run.exit == 1 and "pixels" in run.error["message"]
    assert len(kernel.run("plt.plot([1, 2])\nplt.show()").pngs) == 1


def test_a_noisy_picture_is_made_smaller_and_that_is_said(kernel):
    run = kernel.run(PLOT + "import numpy as np\nplt.figure(figsize=(24, 24), dpi=100)\nplt.imshow(np.random.default_rng(1).random((2400, 2400)))\nplt.show()")
    assert len(run.pngs) == 1 and len(run.pngs[0]) < 7.5e6 and "dpi" in run.stderr and run.exit == 0


def test_a_figure_left_by_a_failing_cell_is_shown_then_gone(kernel):
    run = kernel.run(PLOT + "plt.plot([1, 2])\n1 / 0")
    assert run.exit == 1 and len(run.pngs) == 1
    assert kernel.run("plt.get_fignums()").text == "[]"


def test_asian_labels_have_glyphs(kernel):
    run = kernel.run(PLOT + "plt.plot([1])\nplt.title('中文 日本語 한국어')\nplt.show()")
    assert len(run.pngs) == 1
    if kernel.run("from matplotlib import font_manager as m\nany('WenQuanYi' in e.name for e in m.fontManager.ttflist)").text == "True":
        assert "missing from" not in run.stderr


@pytest.mark.parametrize("family", ["'SimHei'", "'Arial'", "['Times New Roman', 'SimSun']", "'serif'", "'monospace'"])
def test_a_font_that_is_not_there_is_named_once_and_glyphs_are_drawn(kernel, family):
    run = kernel.run(PLOT + f"plt.rcParams['font.family'] = {family}\nplt.plot([1, -2])\nplt.title('中文 Größe')\nplt.show()")
    lines = run.stderr.splitlines()
    assert len(run.pngs) == 1 and len(lines) == len(set(lines)) and len([line for line in lines if "findfont" in line]) <= 2
    if kernel.run("from matplotlib import font_manager as m\nany('WenQuanYi' in e.name for e in m.fontManager.ttflist)").text == "True":
        assert "missing from" not in run.stderr
    again = kernel.run("plt.plot([1])\nplt.show()")
    assert again.stderr.splitlines() == [line for line in lines if "findfont" in line]


def test_svg_comes_beside_the_png_when_it_is_asked_for(kernel):
    run = kernel.run("%config InlineBackend.figure_format = 'svg'\n" + PLOT + "plt.plot([1, 2])\nplt.show()\nfig, ax = plt.subplots()\nfig")
    assert [sorted(shown) for shown in run.displays] == [["image/png", "image/svg+xml"], ["image/png", "image/svg+xml", "text/plain"]]
    assert all("<svg" in shown["image/svg+xml"] for shown in run.displays)
    run = kernel.run("%config InlineBackend.figure_formats = ['png', 'retina']\nplt.plot([1])\nplt.show()")
    assert [list(shown) for shown in run.displays] == [["image/png"]]


# ------------------------------------------------------------ errors

def test_an_error_is_told_on_both_ways(kernel):
    run = kernel.run("print('before')\ndef inner():\n    return {}['needle']\nkept = 1\ninner()\nprint('after')")
    assert run.error["name"] == "KeyError" and run.error["message"] == "'needle'" and run.exit == 1
    text = run.error["traceback"]
    assert text.startswith("Traceback (most recent call last):\n") and 'File "<cell 1>", line 5, in <module>' in text
    assert "    return {}['needle']" in text and 'line 3, in inner' in text and "\x1b" not in text
    assert run.stderr == text + "\n" and run.stdout == "before\n"
    assert kernel.run("kept").text == "1"


def test_causes_come_in_order(kernel):
    run = kernel.run("def deep():\n    return {}['k']\ndef outer():\n    try:\n        deep()\n    except KeyError as e:\n        raise ValueError('in value') from e\nouter()")
    text = run.error["traceback"]
    assert text.index("KeyError") < text.index("direct cause") < text.rindex("ValueError: in value") and "in deep" in text


@pytest.mark.parametrize("code, words", [
    ("a = 1\nb = 2\nc = (3 +\n", ["SyntaxError", "line 3", "^"]), ("print('never')\nx = = 2", ["SyntaxError", "line 2", "^"]),
    ("\n\n  \nif True:\nx", ["IndentationError", "line 5"]), ("return 5", ["SyntaxError", "outside function", "    return 5\n"]), ("x = 'open", ["SyntaxError", "line 1"]),
    ("def f(:\n  pass\n%time 1", ["SyntaxError", "line 1"]), ("\nbreak", ["SyntaxError", "line 2", "    break\n"]), ("def f():\n    print('ä'); nonlocal q", ["SyntaxError", "line 2", "nonlocal q\n"])])
def test_a_syntax_error_has_its_place_and_nothing_runs(kernel, code, words):
    run = kernel.run(code)
    assert run.exit == 1 and run.stdout == "" and all(w in run.error["traceback"] for w in words), run.error["traceback"]
    assert "sandglass" not in run.stderr and "IPython" not in run.stderr


def test_lines_keep_their_numbers_below_magics_and_empty_lines(kernel):
    text = kernel.run("\n\n%time 1\n!true\n1 / 0").error["traceback"]
    assert "line 5" in text and "1 / 0" in text


def test_no_frames_of_ours_are_shown(kernel):
    for code in ("1 / 0", "await __import__('asyncio').sleep('x')", "%nosuchmagic", "%run nowhere.py", "get_ipython().run_cell('1/0')", "%%time\n1 / 0", "x = !false\n1 / 0"):
        text = kernel.run(code).stderr
        assert "sandglass" not in text and "IPython/core/interactiveshell" not in text, text


@pytest.mark.parametrize("code, words", [
    ("raise ValueError('m' * 10_000_000)", "characters left out"), ("class E(Exception):\n    def __str__(self):\n        raise KeyError\nraise E", "cannot be shown"),
    ("def f(): f()\nf()", "RecursionError"), ("def f(): g()\ndef g(): f()\nf()", "RecursionError"),
    ("raise ExceptionGroup('several', [ValueError('one'), KeyError('two')])", "ValueError: one"), ("e = ValueError('x')\ne.add_note('a note')\nraise e", "a note"),
    ("raise type('Odd', (Exception,), {'__module__': 3})", "Odd"), ("e = ValueError()\ne.__cause__ = e\nraise e", "ValueError"),
    ("class R:\n    def __repr__(self):\n        return 1 / 0\nR()", "ZeroDivisionError"), ("import numpy\nnumpy.linalg.inv(numpy.zeros((2, 2)))", "numpy.linalg.LinAlgError: Singular"),
    ("raise KeyboardInterrupt", "KeyboardInterrupt"), ("raise BaseException('base')", "base"), ("raise GeneratorExit", "GeneratorExit")])
def test_odd_errors_are_readable_and_bounded(kernel, code, words):
    run = kernel.run(code)
    assert run.exit == 1 and words in run.error["traceback"] and len(run.error["traceback"]) < 17_000 and len(run.error["message"]) < 5_000
    assert kernel.run("1").text == "1"


def test_a_broken_rich_form_does_not_hide_the_plain_one(kernel):
    run = kernel.run("class H:\n    def _repr_html_(self):\n        return 1 / 0\n    def __repr__(self):\n        return 'plain h'\nH()")
    assert run.text == "plain h" and "ZeroDivisionError" in run.stderr and run.exit == 0


@pytest.mark.parametrize("code, exit, stderr", [
    ("import sys\nsys.exit(3)", 3, ""), ("import sys\nsys.exit()", 0, ""), ("exit()", 0, ""), ("quit(4)", 4, ""), ("raise SystemExit", 0, ""), ("import sys\nsys.exit(-1)", 255, ""),
    ("import sys\nsys.exit(True)", 1, ""), ("import sys\nsys.exit('gave up early')", 1, "gave up early\n"), ("%%time\nimport sys\nsys.exit(5)", 5, "")])
def test_an_exit_ends_the_cell_and_not_the_session(kernel, code, exit, stderr):
    kernel.run("x = 1")
    run = kernel.run(code)
    assert (run.exit, run.stderr) == (exit, stderr)
    assert (run.error is None) == (stderr == "")
    assert kernel.run("x").text == "1"


def test_there_is_nobody_to_ask(kernel):
    run = kernel.run("try:\n    input('name? ')\nexcept EOFError as e:\n    print(type(e).__name__)")
    assert run.stdout == "name? EOFError\n" and run.stderr == ""
    run = kernel.run("import getpass\ngetpass.getpass('secret? ')")
    assert run.error["name"] == "EOFError" and run.stderr.startswith("secret? ")
    assert kernel.run("breakpoint()").exit == 1


# ------------------------------------------------------------ interrupts

LONG = {
    "loop": "print('go')\nwhile True:\n    pass", "sleep": "import time\nprint('go')\ntime.sleep(600)", "await": "import asyncio\nprint('go')\nawait asyncio.sleep(600)",
    "asyncio.run": "import asyncio\nasync def f():\n    print('go')\n    await asyncio.sleep(600)\nasyncio.run(f())", "child": "!echo go; sleep 600", "script": "%%bash\necho go\nsleep 600",
    "capture": "print('go')\nx = !sleep 600", "subprocess": "import subprocess\nprint('go')\nsubprocess.run(['sleep', '600'])", "repr": "class R:\n    def __repr__(self):\n        print('go')\n        while True: pass\nR()",
    "str": "class E(Exception):\n    def __str__(self):\n        print('go')\n        while True: pass\nraise E", "join": "import threading, time\nt = threading.Thread(target=time.sleep, args=(600,), daemon=True)\nt.start()\nprint('go')\nt.join()",
    "figure": PLOT + "from matplotlib.artist import Artist\nclass A(Artist):\n    def draw(self, renderer):\n        print('go')\n        while True: pass\nplt.plot([1])\nplt.gca().add_artist(A())",
    "display": "print('go')\nwhile True:\n    display(1)", "print": "while True:\n    print('go')", "queue": "import queue\nprint('go')\nqueue.Queue().get()", "switch": "import sys\nwhile True:\n    print('go')\n    print('e', file=sys.stderr)",
    "pool": "from multiprocessing import Pool\nimport time\nprint('go')\nwith Pool(2) as p:\n    p.map(time.sleep, [600, 600])",
}


@pytest.mark.parametrize("what", LONG)
def test_an_interrupt_stops_the_cell_wherever_it_is(kernel, what):
    kernel.run("kept = 'still here'")
    kernel.start(LONG[what])
    kernel.wait_for("go")
    kernel.interrupt()
    run = kernel.finish(20)
    assert run.exit == 1
    if what == "str":
        assert "cannot be shown" in run.error["message"]
    else:
        assert run.error["name"] == "KeyboardInterrupt", run.error
    assert kernel.run("kept").text == "'still here'"
    assert kernel.run("print('fresh')").stdout == "fresh\n"


def test_an_interrupted_child_is_gone_with_its_children(kernel):
    kernel.start("%%bash\nsleep 600 &\necho $$ $! > pids\necho go\nsleep 600")
    kernel.wait_for("go")
    kernel.interrupt()
    kernel.finish()
    living = "import time\ndef lives(pid):\n    try:\n        return open(f'/proc/{pid}/stat').read().rsplit(')', 1)[1].split()[0] != 'Z'\n    except FileNotFoundError:\n        return False\n"
    wait = "end = time.monotonic() + 10\nwhile any(map(lives, pids)) and time.monotonic() < end:\n    time.sleep(0.01)\n"
    run = kernel.run(living + "pids = open('pids').read().split()\n" + wait + "(len(pids), [lives(p) for p in pids])")
    assert run.text == "(2, [False, False])"


@pytest.mark.parametrize("wait", ["time.sleep(600)", "await asyncio.sleep(600)", "asyncio.run(asyncio.sleep(600))"])
def test_the_clean_up_of_an_interrupted_cell_runs(kernel, wait):
    kernel.start(f"import asyncio, time\nlog = []\ntry:\n    print('go')\n    {wait}\nfinally:\n    log.append('cleaned')")
    kernel.wait_for("go")
    kernel.interrupt()
    assert 'File "<cell 1>", line' in kernel.finish().error["traceback"]
    assert kernel.run("log").text == "['cleaned']"


def test_a_second_interrupt_stops_the_clean_up(kernel):
    kernel.start("import time\ntry:\n    print('go')\n    time.sleep(600)\nfinally:\n    print('cleaning')\n    time.sleep(600)")
    kernel.wait_for("go")
    kernel.interrupt()
    kernel.wait_for("cleaning")
    kernel.interrupt()
    assert kernel.finish(20).error["name"] == "KeyboardInterrupt"


def test_interrupts_at_any_moment_never_break_the_protocol(kernel):
    """Three hundred cells under fire: each answers its own run, with one end, whole frames and a sane outcome."""
    for n in range(300):
        kernel.start(f"display({n})\nprint('x')\n'{'v' * (n * 700 % 200_000)}'" if n % 3 else "def f():\n    return g()\ndef g():\n    raise ValueError('v')\nf()")
        kernel.interrupt()
        if n % 2:
            kernel.interrupt()
        run = kernel.finish(20)
        assert run.exit in (0, 1) and len(run.all("done")) == 1
        if run.exit == 1:
            assert run.error["name"] in ("KeyboardInterrupt", "ValueError")
    assert kernel.run("'alive'").text == "'alive'"


@pytest.mark.parametrize("place", ["class D:\n    def __del__(self):\n        wait()\ndef f():\n    D()", "import weakref\nclass D: pass\ndef f():\n    d = D()\n    r = weakref.ref(d, lambda _: wait())\n    del d"])
def test_an_interrupt_that_python_swallows_is_raised_again(kernel, place):
    kernel.start("import time\ndef wait():\n    print('go')\n    time.sleep(600)\n" + place + "\nf()\nprint('on')\nwhile True:\n    str(1)")
    kernel.wait_for("go\n")
    kernel.interrupt()
    run = kernel.finish(20)
    assert run.error["name"] == "KeyboardInterrupt" and "ignored" not in run.stderr


def test_interrupts_during_forks_are_not_lost(kernel):
    for _ in range(30):
        kernel.start("import os\nprint('go')\nwhile True:\n    pid = os.fork()\n    if pid == 0:\n        os._exit(0)\n    os.waitpid(pid, 0)")
        kernel.wait_for("go\n")
        kernel.interrupt()
        assert kernel.finish(20).error["name"] == "KeyboardInterrupt"


def test_an_interrupt_between_cells_is_ignored(kernel):
    for _ in range(50):
        kernel.interrupt()
        assert kernel.run("6 * 7").exit in (0, 1)
        kernel.interrupt()
    run = kernel.run("6 * 7")
    while run.exit:  # one sent just before may count for this cell
        run = kernel.run("6 * 7")
    assert run.text == "42"


@pytest.mark.parametrize("harm", ["import signal\nsignal.signal(signal.SIGINT, lambda *_: None)", "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)",
                                  "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])"])
def test_a_cell_that_refuses_interrupts_does_so_for_itself_only(kernel, harm):
    kernel.run(harm)
    kernel.start("while True:\n    print('go')")
    kernel.wait_for("go")
    kernel.interrupt()
    assert kernel.finish(20).error["name"] == "KeyboardInterrupt"


def test_a_timer_of_the_users_raises_where_he_wants_it(kernel):
    run = kernel.run("import signal, time\ndef late(*_):\n    raise TimeoutError('late')\nsignal.signal(signal.SIGALRM, late)\nsignal.setitimer(signal.ITIMER_REAL, 0.01)\n"
                     "try:\n    time.sleep(600)\nexcept TimeoutError as e:\n    print(e)")
    assert run.stdout == "late\n" and run.exit == 0


# ------------------------------------------------------------ asyncio

def test_all_three_ways_of_asyncio_work_in_one_session(kernel):
    assert kernel.run("import asyncio\nasync def main():\n    await asyncio.sleep(0.01)\n    return 'r'\nasyncio.run(main())").text == "'r'"
    assert kernel.run("await main()").text == "'r'"
    assert kernel.run("loop = asyncio.new_event_loop()\nloop.run_until_complete(main())").text == "'r'"
    assert kernel.run("asyncio.get_event_loop().run_until_complete(main())").text == "'r'"
    assert kernel.run("x = await main()\nasync with asyncio.timeout(5):\n    y = await main()\nx + y").text == "'rr'"


def test_exits_and_errors_come_out_of_an_await(kernel):
    assert kernel.run("import asyncio, sys\nasync def f():\n    sys.exit(6)\nawait f()").exit == 6
    run = kernel.run("async def g():\n    await asyncio.sleep(0)\n    raise ValueError('late')\nawait g()")
    assert run.error["name"] == "ValueError" and "line 3, in g" in run.error["traceback"] and "asyncio" not in run.error["traceback"].replace("asyncio.sleep", "")
    run = kernel.run("import gc\ngc.collect()\nawait asyncio.sleep(0, 'alive')")
    assert run.text == "'alive'" and run.stderr == ""


def test_a_task_lives_on_and_can_be_awaited_later(kernel):
    kernel.run("import asyncio\nasync def slow():\n    await asyncio.sleep(0.05)\n    return 'late'\ntask = asyncio.create_task(slow())")
    assert kernel.run("await task").text == "'late'"


def test_tasks_go_on_between_cells(kernel):
    kernel.run("import asyncio\nasync def tick():\n    await asyncio.sleep(0.01)\n    print('ticked')\ntask = asyncio.create_task(tick())")
    kernel.wait_for("ticked")
    assert kernel.run("task.done()").text == "True"


def test_a_task_that_blocks_between_cells_can_be_interrupted_once_a_cell_waits(kernel):
    kernel.run("import asyncio, time\nasync def block():\n    await asyncio.sleep(0)\n    print('blocking')\n    while True: pass\ntask = asyncio.create_task(block())")
    kernel.wait_for("blocking")
    kernel.start("'next'")
    kernel.interrupt()
    assert kernel.finish(20).text == "'next'"


def test_threads_executors_and_children_work_under_await(kernel):
    run = kernel.run("import asyncio, time\np = await asyncio.create_subprocess_exec('echo', 'child', stdout=asyncio.subprocess.PIPE)\nout, _ = await p.communicate()\n"
                     "(await asyncio.to_thread(lambda: 'thread'), out, await asyncio.gather(*(asyncio.sleep(0.01, n) for n in range(3))))")
    assert run.text == "('thread', b'child\\n', [0, 1, 2])"


def test_a_thread_can_wake_the_loop(kernel):
    run = kernel.run("import asyncio, threading, time\nloop = asyncio.get_running_loop()\nf = loop.create_future()\n"
                     "threading.Thread(target=lambda: (time.sleep(0.05), loop.call_soon_threadsafe(f.set_result, 'woken'))).start()\nawait f")
    assert run.text == "'woken'"


def test_awaiting_leaves_no_descriptor_open(kernel):
    look = "import os\nsorted(int(n) for n in os.listdir('/proc/self/fd'))"
    before = kernel.run(look).text
    kernel.run("import asyncio\nawait asyncio.gather(asyncio.sleep(0.01), asyncio.sleep(0))\nasyncio.run(asyncio.sleep(0))")
    assert kernel.run(look).text == before


# ------------------------------------------------------------ processes and threads

def test_pools_find_the_functions_of_a_cell(kernel):
    assert kernel.run("from multiprocessing import Pool\ndef twice(x):\n    return x * 2\nwith Pool(2) as p:\n    r = p.map(twice, range(5))\nr").text == "[0, 2, 4, 6, 8]"
    assert kernel.run("from concurrent.futures import ProcessPoolExecutor\nimport math\nwith ProcessPoolExecutor(2) as p:\n    r = list(p.map(math.factorial, range(5)))\nr").text == "[1, 1, 2, 6, 24]"


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_the_other_start_methods_work_with_functions_of_modules(kernel, method):
    run = kernel.run(f"import math, multiprocessing\nwith multiprocessing.get_context('{method}').Pool(2) as p:\n    r = p.map(math.factorial, range(4))\nr")
    assert run.text == "[1, 1, 2, 6]", run.stderr


def test_a_process_that_user_code_forks_ends_with_the_cell(kernel):
    run = kernel.run("import os, sys\npid = os.fork()\nif pid == 0:\n    print('child')\n    display('from the child')\n    sys.exit(7)\n"
                     "os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])")
    assert run.text == "7" and run.stdout == "child\n'from the child'\n" and len(run.displays) == 1
    assert kernel.run("1").text == "1"
    run = kernel.run("pid = os.fork()\nif pid == 0:\n    1 / 0\nos.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])")
    assert run.text == "1" and "ZeroDivisionError" in run.stderr and run.error is None


def test_threads_may_print_and_go_on_between_cells(kernel):
    kernel.run("import threading\ngo = threading.Event()\ndef f():\n    go.wait()\n    print('from the thread')\n    display('nobody reads frames now')\nt = threading.Thread(target=f)\nt.start()\nthreading.Timer(0.05, go.set).start()")
    kernel.wait_for("nobody reads")
    assert "from the thread" in kernel.current.stdout
    assert kernel.run("t.join()\n1").text == "1"


def test_an_error_of_a_thread_is_on_stderr(kernel):
    run = kernel.run("import threading\nt = threading.Thread(target=lambda: 1 / 0)\nt.start()\nt.join()")
    assert "ZeroDivisionError" in run.stderr and run.exit == 0


def test_a_crash_names_the_line(kernel):
    kernel.start("import ctypes\nctypes.string_at(0)")
    kernel.wait_for_end()
    kernel.current.stderr or kernel._read_one(kernel.err)
    assert "Segmentation fault" in kernel.current.stderr and "<cell 1>" in kernel.current.stderr


def test_the_end_of_the_socket_is_the_end_of_the_kernel(kernel):
    watch = os.pidfd_open(kernel.pid)
    kernel.sock.shutdown(socket.SHUT_RDWR)
    assert select.select([watch], [], [], 60)[0], "the kernel lives on"
    os.close(watch)


# ------------------------------------------------------------ notebook lines

def test_shell_lines(kernel):
    assert kernel.run("x = 5\n!echo val $x {x + 1}").stdout == "val 5 6\n"
    assert kernel.run("!exit 3\n_exit_code").text == "3"
    run = kernel.run("!echo o; echo e >&2")
    assert (run.stdout, run.stderr, run.exit) == ("o\n", "e\n", 0)
    assert kernel.run("files = !printf 'a\\nb'\nfiles").text == "['a', 'b']"
    assert kernel.run("!cat; echo rc $?").stdout == "rc 0\n"
    assert "nosuchcmd" in kernel.run("!nosuchcmd").stderr
    run = kernel.run("!sleep 600 > /dev/null 2>&1 & echo $!")
    assert run.exit == 0
    os.kill(int(run.stdout), signal.SIGKILL)  # it lives on, and ends here


def test_script_cells(kernel):
    assert kernel.run("%%bash\nfor i in 1 2; do echo $i; done\ncat").stdout == "1\n2\n"
    assert kernel.run("%%sh --out kept\necho in sh").stdout == "" and kernel.run("kept").text == r"'in sh\n'"
    assert kernel.run("%%script cat\nline").stdout == "line\n"
    run = kernel.run("%%bash\nexit 3")
    assert run.exit == 1 and run.error["name"] == "CalledProcessError"
    assert kernel.run("%%bash --no-raise-error\nexit 3").exit == 0
    assert kernel.run("%%python3\nprint(6 * 7)").stdout == "42\n"
    assert kernel.run("import threading\nthreading.active_count()").text == "1"


@pytest.mark.parametrize("code", ["%time 1 + 1", "%%time\nx = 1", "%timeit -n 1 -r 1 1", "%who", "%lsmagic", "%cd /tmp", "%pwd", "%env HOME", "%%capture c\nprint(1)", "%load_ext autoreload", "print?", "%matplotlib", "%config InlineBackend.figure_format = 'retina'", "%xmode Plain", "%precision 3"])
def test_usual_magics_work(kernel, code):
    run = kernel.run(code)
    assert run.exit == 0 and run.error is None, run.stderr


def test_modules_can_be_reloaded_by_themselves(kernel):
    kernel.run("open('m.py', 'w').write('x = 1')\n%load_ext autoreload\n%autoreload 2\nimport m")
    kernel.run("import os\nopen('m.py', 'w').write('x = 22')\nos.utime('m.py', (2e9, 2e9))")
    assert kernel.run("m.x").text == "22"


def test_earlier_cells_can_be_looked_at(kernel):
    kernel.run("first = 1")
    assert "first = 1" in kernel.run("%history").stdout


def test_capture_catches_all(kernel):
    assert kernel.run("%%capture c\nprint('p')\ndisplay('d')\n'v'").log == [("done", {"exit": 0})]
    assert kernel.run("(c.stdout, len(c.outputs))").text == "('p\\n', 2)"
    run = kernel.run("%%capture c\n" + PLOT + "plt.plot([1])\nplt.show()\nplt.plot([2])\n")
    assert run.log == [("done", {"exit": 0})] and len(kernel.run("c.show()").pngs) == 2


@pytest.mark.parametrize("harm", ["import os, tempfile\nwith tempfile.TemporaryDirectory() as folder:\n    os.chdir(folder)", "import os, shutil\nshutil.rmtree(os.getcwd())"])
def test_a_session_whose_folder_is_gone_goes_on_in_the_workspace(kernel, harm):
    kernel.run("kept = 1")
    kernel.run(harm)
    run = kernel.run("import os\nopen('made', 'w').close()\nos.getcwd(), os.listdir(), kept")
    workspace = kernel.how["workspace"]
    assert run.text == f"({workspace!r}, ['made'], 1)" and run.stderr == f"[the working folder was removed; the session goes on in {workspace}]\n"
    assert kernel.run("os.getcwd()").stderr == ""


def test_cd_without_a_place_goes_home(kernel):
    assert kernel.run("%cd\nimport os\nos.getcwd()").text == repr(kernel.how["home"])


def test_pip_answers_at_once(kernel):
    assert "pip" in kernel.run("%pip --version").stdout
    assert kernel.run("%pip list").exit == 0
    if kernel.run("import socket\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\ntry:\n    s.connect(('192.0.2.1', 443))\n    r = 1\nexcept OSError:\n    r = 0\nr").text == "0":
        for code in ("%pip install x", "!pip install x", "pip install x"):
            run = kernel.run(code, 20)
            assert "no network" in run.stderr and "'x'" in run.stderr and run.exit == 0 and len(run.stderr.splitlines()) == 1
        run = kernel.run("%pip install numpy 'pandas>=2'\nimport pandas\n_exit_code")
        assert "already satisfied: numpy" in run.stdout and run.text == "0" and run.stderr == ""
    run = kernel.run("%pip list | head -2")
    assert len(run.stdout.splitlines()) == 2 and "option" not in run.stderr


# ------------------------------------------------------------ surroundings

def test_the_environment_is_exactly_the_promised_one(kernel):
    run = kernel.run("import json, os\nprint(json.dumps(dict(os.environ)))")
    home = kernel.how["home"]
    assert json.loads(run.stdout) == {
        "HOME": home, "USER": "user", "LOGNAME": "user", "SHELL": "/bin/bash", "LANG": "C.UTF-8", "TZ": "UTC", "PATH": f"{home}/.local/bin:/usr/local/bin:/usr/bin:/bin", "TERM": "dumb",
        "PAGER": "cat", "GIT_PAGER": "cat", "EDITOR": "true", "VISUAL": "true", "GIT_EDITOR": "true", "MPLBACKEND": "agg", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1",
        "PIP_RETRIES": "1", "PIP_NO_INPUT": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    assert kernel.run("import os\nos.getcwd()").text == repr(kernel.how["workspace"])


def test_what_a_template_sets_is_read_line_by_line(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(KERNELS)
    surroundings = importlib.import_module("sandglass_kernel.surroundings")
    monkeypatch.setattr(surroundings, "IMAGE_ENVIRONMENT", str(tmp_path / "environment"))
    assert surroundings.read_image_environment() == {}
    (tmp_path / "environment").write_text("A=1\nB=two words = ä\nEMPTY=\nodd\n")
    assert surroundings.read_image_environment() == {"A": "1", "B": "two words = ä", "EMPTY": ""}


def test_text_is_utf8_everywhere(kernel):
    assert kernel.run("open('ä.txt', 'w').write('ö')\nopen('ä.txt', 'rb').read()").text == r"b'\xc3\xb6'"
    assert kernel.run("!python3 -c \"print('Καλημέρα'); print(open('ä.txt').read())\"").stdout == "Καλημέρα\nö\n"


def test_modules_are_found_as_in_a_notebook(kernel):
    kernel.run("import os, sys\nopen('mine.py', 'w').write('x = 1')")
    assert kernel.run("import mine\nmine.x").text == "1"
    kernel.run("os.makedirs(os.path.expanduser('~/.local/lib/python3.11/site-packages'))\nopen(os.path.expanduser('~/.local/lib/python3.11/site-packages/installed.py'), 'w').write('y = 2')")
    assert kernel.run("import installed\ninstalled.y").text == "2"
    assert kernel.run("sys.path[0], sys.argv, any('sandglass' in p or 'kernels' in p for p in sys.path)").text == "('', [''], False)"


def test_files_named_like_library_modules_do_not_confuse_the_kernel(zygote):
    name = "shadow"
    base = "/tmp" if os.environ.get("SANDGLASS_TEST_IMAGE") else zygote.folder
    first = zygote.kernel(name=name)
    for module in ("json", "random", "traceback", "linecache", "socket", "zygote", "runner", "faulthandler", "platform", "ast", "sandglass_kernel", "IPython", "matplotlib"):
        first.run(f"open('{module}.py', 'w').write('raise RuntimeError(\"shadowed\")')")
    first.close()
    second = zygote.kernel(name=name)
    assert second.how["workspace"] == f"{base}/{name}/work"
    run = second.run("print('fine')\n1 / 0")
    assert run.stdout == "fine\n" and run.error["name"] == "ZeroDivisionError"
    assert len(second.run(PLOT + "plt.plot([1])").pngs) == 1
    second.close()


def test_a_kernel_made_ahead_of_time_begins_as_any_other(new_kernel):
    code = ("import random, sys\n[sorted(globals()), len(In), dict(Out), (_, __, ___), get_ipython().execution_count, _dh, sys.path,"
            " getattr(sys, 'last_type', None), sorted(n for n in __import__('linecache').cache if n.startswith('<cell'))]")
    early, other = new_kernel(is_early=True), new_kernel()
    first = early.run(code)
    assert first.exit == 0 and first.stdout == first.stderr == "" and len(first.log) == 2
    assert first.text.replace(early.how["home"], "HOME").replace(early.how["workspace"], "WORK") == (
        other.run(code).text.replace(other.how["home"], "HOME").replace(other.how["workspace"], "WORK"))
    assert early.run("Out").text.startswith("{1: [") and early.run("random.random()").text != other.run("random.random()").text


def test_processors_agree_with_the_share(new_kernel):
    kernel = new_kernel(cpus=1)
    assert kernel.run("import multiprocessing, os\n(os.cpu_count(), multiprocessing.cpu_count(), len(os.sched_getaffinity(0)))").text == "(1, 1, 1)"
    kernel = new_kernel(cpus=2)
    count = min(2, len(os.sched_getaffinity(0)))
    assert kernel.run("import os\n(os.cpu_count(), len(os.sched_getaffinity(0)), os.environ['OMP_NUM_THREADS'])").text == f"({count}, {count}, '2')"
    assert kernel.run("import numpy as np\na = np.ones((1000, 1000))\nfloat((a @ a).sum())").text == "1000000000.0"


def test_no_two_kernels_share_what_is_random(new_kernel):
    code = ("import multiprocessing, random, ssl, tempfile, uuid, secrets\nimport numpy as np\n"
            "print(random.random(), np.random.rand(), np.random.default_rng().random(), ssl.RAND_bytes(8), next(tempfile._get_candidate_names()), uuid.uuid4(), secrets.token_hex(), "
            "bytes(multiprocessing.current_process().authkey))")
    one, two = (new_kernel().run(code).stdout.split() for _ in range(2))
    assert len(one) > 7 and not set(one) & set(two)


@pytest.mark.skipif(os.geteuid() != 0 or bool(os.environ.get("SANDGLASS_TEST_IMAGE")), reason="makes pid namespaces: needs root, and nothing of the image")
def test_kernels_of_equal_process_id_share_no_ssl_randomness():
    """OpenSSL tells a fork by the process id. Without renewal both of these give the same bytes."""
    code = """if True:
        import ctypes, os, sys, _ssl
        sys.path.insert(0, sys.argv[1])
        from sandglass_kernel import surroundings
        _ssl.RAND_add(b"", 0.0)
        _ssl.RAND_bytes(1)
        for renew in (False, False, True, True):
            if os.fork() == 0:
                assert ctypes.CDLL(None).unshare(0x20000000) == 0  # CLONE_NEWPID
                if os.fork() == 0:
                    if renew:
                        surroundings.reseed()
                    print(os.getpid(), _ssl.RAND_bytes(16).hex(), flush=True)
                    os._exit(0)
                os.wait()
                os._exit(0)
            os.wait()"""
    out = subprocess.run(["unshare", "--pid", "--fork", sys.executable, "-c", code, KERNELS], check=True, capture_output=True, text=True).stdout.split()
    assert out[::2] == ["1"] * 4
    assert out[1] == out[3], "the trap is gone; so may be the renewal"
    assert len({out[3], out[5], out[7]}) == 3


def test_usual_imports_work(kernel):
    assert kernel.run("import json, sqlite3, csv, decimal, ssl, zoneinfo, numpy, pandas, matplotlib\nsqlite3.connect(':memory:').execute('select 6 * 7').fetchone()").text == "(42,)"


def test_a_fresh_kernel_has_few_descriptors_and_one_thread(kernel):
    run = kernel.run("import os\n(sorted(int(n) for n in os.listdir('/proc/self/fd'))[:6], len(os.listdir('/proc/self/task')))")
    assert run.text == "([0, 1, 2, 3, 4, 10], 1)"  # 4 is the listing's own


def test_libraries_that_are_not_warmed_get_their_settings_when_imported(zygote):
    from harness import Zygote
    cold = Zygote([])
    try:
        kernel = cold.kernel()
        run = kernel.run(PLOT + "import pandas as pd\nplt.plot([1, 2])\nplt.show()\nprint('after')\npd.get_option('display.max_columns')")
        assert [kind for kind, _ in run.log] == ["display", "stdout", "result", "done"] and run.text == "50", run.stderr
        kernel.close()
    finally:
        cold.close()


@pytest.mark.skipif(bool(os.environ.get("SANDGLASS_TEST_IMAGE")), reason="is for this machine")
def test_the_kernel_for_development_runs_without_a_zygote(tmp_path):
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    argv = [sys.executable, os.path.join(KERNELS, "dev.py"), "--home", str(tmp_path), "--workspace", str(tmp_path), "--socket", str(theirs.fileno())]
    child = subprocess.Popen(argv, pass_fds=[theirs.fileno()], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    theirs.close()
    ours.settimeout(60)
    assert HEADER.unpack_from(ours.recv(65536))[1] == READY
    ours.send(HEADER.pack(1, RUN, 0) + b"print('printed')\n6 * 7")
    assert b'"42"' in ours.recv(65536) and ours.recv(65536)[8:] == b'{"exit":0}'
    ours.close()
    assert child.communicate(timeout=60) == (b"printed\n", b"") and child.returncode == 0


def test_a_zygote_without_the_extension_fails_plainly():
    done = subprocess.run([sys.executable, "-I", os.path.join(KERNELS, "zygote.py")], capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr.rstrip().endswith("ModuleNotFoundError: No module named '_sandglass'")


def test_a_dead_kernel_is_noticed(kernel):
    kernel.start("import os\nos._exit(0)")
    with pytest.raises(KernelDied):
        kernel.finish()


def test_the_rest_of_a_cell_that_never_came_is_not_put_before_the_next(kernel):
    kernel.sock.send(HEADER.pack(kernel.number + 1, RUN, 1) + b"print('half')\n")
    kernel.number += 1
    assert kernel.run("print('whole')").stdout == "whole\n"
