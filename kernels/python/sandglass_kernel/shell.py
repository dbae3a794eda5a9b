"""IPython, told to talk to us instead of a terminal.

We use it for what a notebook has and Python has not: magics, display and its formatters, `_` and `Out`. We do not
use its way of running a cell (see cells). Nothing here may start a thread or leave a file open, since the shell is
built in the zygote and a session must be able to become a file.
"""
from __future__ import annotations

import builtins
import fnmatch
import os
import sys
import types

import IPython
import traitlets
from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.formatters import DisplayFormatter
from IPython.core.history import HistoryManager
from IPython.core.interactiveshell import InteractiveShell
from IPython.lib import pretty
from traitlets.config import Config, Configurable

from . import bundles, commands, figures, tracebacks
from .wire import CLEAR, DISPLAY, RESULT, UPDATE, wire

KEPT_RESULTS = 50
KEPT_INPUTS = 200
PLAIN_TYPES = frozenset({int, float, complex, bool, str})
REPR_TYPES = {kind: pretty._type_pprinters.get(kind) for kind in (int, bool, str)}  # these print no more than repr()


class Publisher(DisplayPublisher):
    """display(), update_display() and clear_output()."""

    def publish(self, data, metadata=None, source=None, *, transient=None, update=False, **_):
        self._validate_data(data, metadata)
        self.shell.send_bundle(UPDATE if update else DISPLAY, data, (transient or {}).get("display_id"))

    def clear_output(self, wait=False):
        if wire.takes_values:
            wire.send(CLEAR, {"wait": bool(wait)})


class Hook(DisplayHook):
    """The value of a cell's last expression."""

    is_silenced = False  # by a semicolon

    def quiet(self):
        return self.is_silenced

    def write_output_prompt(self):
        pass

    def write_format_data(self, format_dict, md_dict=None):
        self.shell.send_bundle(RESULT, format_dict)

    def log_output(self, format_dict):
        pass

    def finish_displayhook(self):
        self._is_active = False

    def update_user_ns(self, result):
        """`_`, `__`, `___` as long as the user has no other use for these names, `Out`, and `_7` for cell 7."""
        names = self.shell.user_ns
        kept = names.get("_oh")
        if result is kept:
            return
        before = (self._, self.__, self.___)
        self._, self.__, self.___ = result, before[0], before[1]
        if "_" not in vars(builtins):  # gettext puts a function there
            if all(names.get(n, value) is value for n, value in zip(("_", "__", "___"), before)):
                names["_"], names["__"], names["___"] = self._, self.__, self.___
        if isinstance(kept, dict):
            number = self.prompt_count
            kept[number] = names[f"_{number}"] = result
            while len(kept) > KEPT_RESULTS:
                oldest = next(iter(kept))
                names.pop(f"_{oldest}", None)
                del kept[oldest]


class Formatter(DisplayFormatter):
    """A representation that fails is an error of the cell only if there is no other one to show."""

    _plain = None

    def format(self, obj, include=None, exclude=None):
        if type(obj) in PLAIN_TYPES and include is None and exclude is None and self._is_plain(type(obj)):
            by_repr = type(obj) in REPR_TYPES and self._plain.type_printers.get(type(obj)) is REPR_TYPES[type(obj)]
            text = repr(obj) if by_repr else self._plain(obj)
            return ({bundles.PLAIN: text}, {}) if text is not None else ({}, {})
        outer, self.shell.format_errors = self.shell.format_errors, []
        try:
            found = super().format(obj, include, exclude)
        finally:
            errors, self.shell.format_errors = self.shell.format_errors, outer
        for number, error in enumerate(errors):
            if found[0] or number:
                tracebacks.show(error)
            else:
                self.shell.on_error(error)
        return found


    def _is_plain(self, kind: type) -> bool:
        """Python's own types have text only, unless somebody has registered more; asking each formatter is slow."""
        if self._plain is None:
            self._plain = self.formatters[bundles.PLAIN]
            self._printers = [f.type_printers for f in (
                self.ipython_display_formatter, self.mimebundle_formatter,
                *(f for mime, f in self.formatters.items() if mime != bundles.PLAIN))]
        for printers in self._printers:
            if kind in printers:
                return False
        return True


class Quitter:
    """exit() and quit(), which end the cell with a code. Python's own would close sys.stdin."""

    def __init__(self, name: str):
        self._name = name

    def __call__(self, code=None):
        raise SystemExit(code)

    def __repr__(self):
        return f"{self._name}() ends the cell; the session goes on"


class Memory(dict):
    """Stands for IPython's database of bookmarks and stored variables; lives as long as the session."""

    def keys(self, pattern="*"):
        return fnmatch.filter(super().keys(), pattern)


class InlineBackend(Configurable):
    """`%config InlineBackend.figure_format = ...` is a line models like to write; of it only SVG counts."""

    figure_format = traitlets.Any("png").tag(config=True)
    figure_formats = traitlets.Any(("png",)).tag(config=True)
    print_figure_kwargs = traitlets.Any({}).tag(config=True)
    rc = traitlets.Any({}).tag(config=True)
    close_figures = traitlets.Any(True).tag(config=True)

    @traitlets.observe("figure_format", "figure_formats")
    def _on_formats(self, change):
        figures.choose_formats(change["new"])


class Shell(InteractiveShell):
    db = None  # a Memory; not the property of the base, which opens files
    format_errors = traitlets.Any(None)  # a list while an object is being formatted

    def __init__(self, **kwargs):
        self.on_error = tracebacks.show  # what to do with an error that IPython wants shown
        self.budget = bundles.Budget()
        super().__init__(**kwargs)
        self.db = Memory()
        self.configurables.append(InlineBackend(parent=self))

    # ---------------------------------------------------- set-up: nothing on disk, no terminal

    def init_ipython_dir(self, ipython_dir):
        pass

    def init_profile_dir(self, profile_dir):
        pass

    def init_virtualenv(self):
        pass

    def init_io(self):
        pass

    def init_display_formatter(self):
        self.display_formatter = Formatter(parent=self)
        self.display_formatter.shell = self

    def init_builtins(self):
        super().init_builtins()
        for name in ("exit", "quit"):
            del self.builtin_trap.auto_builtins[name]
            setattr(builtins, name, Quitter(name))

    def init_user_ns(self):
        super().init_user_ns()
        for name in ("exit", "quit", "open"):  # the builtins do
            self.user_ns.pop(name, None)
            self.user_ns_hidden.pop(name, None)

    def init_magics(self):
        super().init_magics()
        register = self.magics_manager.register_function
        register(lambda line: commands.pip(self, line), "line", "pip")
        for name in ("conda", "mamba", "micromamba", "uv"):
            register(commands.missing(name), "line", name)
        register(lambda line, cell: commands.script(self, line, cell), "cell", "script")
        from IPython.core.magics._table import default_script_magics
        for name in default_script_magics():
            program = sys.executable if name in ("python", "python3", "pypy") else name
            register(lambda line, cell, p=program: commands.script(self, _with_program(line, p), cell), "cell", name)

    def enable_gui(self, gui=None):
        pass

    def enable_matplotlib(self, gui=None):
        return "inline", figures.BACKEND

    # ---------------------------------------------------- what IPython calls while a cell runs

    def system(self, cmd):
        commands.system(self, self.var_expand(cmd, depth=1))

    system_raw = system_piped = system

    def getoutput(self, cmd, split=True, depth=0):
        from IPython.utils.text import LSString, SList
        text = commands.output_of(self, self.var_expand(cmd, depth=depth + 1))
        return SList(text.splitlines()) if split else LSString(text)

    def run_cell(self, *args, **kwargs):
        """Code within a cell, by %%capture for one: its figures are shown, or caught, with what else it shows."""
        result = super().run_cell(*args, **kwargs)
        try:
            figures.flush()
        except Exception as error:
            self.on_error(error)
        return result

    def showtraceback(self, exc_tuple=None, filename=None, tb_offset=None, exception_only=False, running_compiled_code=False):
        error = (exc_tuple or sys.exc_info())[1]
        if error is None:
            return
        if self.format_errors is not None:
            self.format_errors.append(error)
        else:
            self.on_error(error)

    def showsyntaxerror(self, filename=None, running_compiled_code=False):
        self.showtraceback()

    def show_usage_error(self, exc):
        self.on_error(exc)

    def ask_exit(self):
        raise SystemExit

    # ---------------------------------------------------- ours

    def send_bundle(self, kind: int, data: dict, display_id: str | None = None) -> None:
        if not wire.takes_values:
            if data.get(bundles.PLAIN):
                print(data[bundles.PLAIN])  # nobody reads frames, but what is printed comes through
            return
        bundle = self.budget.fit(data)
        if bundle:
            wire.send(kind, {"data": bundle} if display_id is None else {"data": bundle, "id": str(display_id)})

    def remember_input(self, source: str) -> None:
        for inputs in (self.history_manager.input_hist_parsed, self.history_manager.input_hist_raw):
            inputs.append(source)
            if len(inputs) > KEPT_INPUTS:
                inputs[len(inputs) - KEPT_INPUTS] = ""
        self.execution_count += 1


def _with_program(line: str, program: str) -> str:
    """Options come ahead of the program, the rest of the line behind it: `%%bash --out x -e`."""
    words, options = line.split(), []
    while words and words[0].startswith("--"):
        word = words.pop(0)
        options.append(word)
        if word in ("--out", "--err", "--proc") and words:
            options.append(words.pop(0))
    return " ".join([*options, program, *words])


def build() -> Shell:
    """Make the one shell of the process, and its namespace the module __main__."""
    HistoryManager.enabled = False
    config = Config()
    config.HistoryManager.enabled = False
    config.HistoryManager.hist_file = ":memory:"
    config.Completer.use_jedi = False
    config.StoreMagics.autorestore = False
    main = types.ModuleType("__main__")
    main.__dict__["__builtins__"] = builtins
    shell = Shell.instance(
        config=config, user_module=main, user_ns=main.__dict__, displayhook_class=Hook, display_pub_class=Publisher,
        colors="nocolor", enable_tip=False, autocall=0, history_length=0, cache_size=KEPT_RESULTS)
    shell.builtin_trap.__enter__()
    shell.display_trap.__enter__()
    figures._publish = lambda data: shell.display_pub.publish(data)
    tracebacks.hide_folder(os.path.dirname(IPython.__file__))
    tracebacks.hide_folder(os.path.dirname(traitlets.__file__))
    return shell
