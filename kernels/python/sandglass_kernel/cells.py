"""Compiles one cell and runs it.

IPython's run_cell compiles statement by statement and catches errors in many places of its own. Here a cell is two
pieces of code, its statements and, if the last of them is an expression, that expression; errors simply come out.
A cell with a top-level await becomes a coroutine.
"""
from __future__ import annotations

import __future__
import ast
import inspect
import linecache
import re
import sys
from collections import deque

from . import loops
from .interrupts import gate

FUTURE_FLAGS = 0
for _name in __future__.all_feature_names:
    FUTURE_FLAGS |= getattr(__future__, _name).compiler_flag
SOURCES_MAX = 8 << 20  # characters of cells kept for tracebacks and inspect

_WORD = re.compile(r"\w+")

_own_transforms = None
_future = 0  # what `from __future__ import` of earlier cells has set
_sources, _sources_size = deque(), 0


def _keep_source(name: str, text: str) -> None:
    """Let tracebacks and inspect.getsource find the lines of the cell."""
    global _sources_size
    lines = text.splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    linecache.cache[name] = (len(text), None, lines, name)
    _sources.append((name, len(text)))
    _sources_size += len(text)
    while _sources_size > SOURCES_MAX and len(_sources) > 1:
        old, size = _sources.popleft()
        linecache.cache.pop(old, None)
        _sources_size -= size


def _has_no_magic(shell, source: str) -> bool:
    """Is there surely nothing for IPython to change? Its look at the tokens takes longer than a small cell."""
    if "%" in source or "!" in source or "?" in source or source[:1] in " \t\n\f\r,;/" or not source:
        return False
    if source.startswith(("In ", ">>>", "...")) or shell.input_transformers_post:
        return False
    manager = shell.input_transformer_manager
    if _count_transforms(manager) != _own_transforms:
        return False
    if "\n" in source.rstrip("\n"):
        return True
    word = _WORD.match(source)  # a single line may be a magic without its sign: `pip install x`
    return word is None or word[0] not in shell.magics_manager.magics["line"]


def _count_transforms(manager) -> tuple[int, int, int]:
    return len(manager.cleanup_transforms), len(manager.line_transforms), len(manager.token_transformers)


def prepare(shell) -> None:
    global _own_transforms
    _own_transforms = _count_transforms(shell.input_transformer_manager)


def _transform(shell, source: str) -> str:
    """Magics become Python. IPython drops leading empty lines; line numbers must stay the user's."""
    source = source.removeprefix("\ufeff")  # of a file that some editor has begun so
    if _has_no_magic(shell, source):
        return source if source.endswith("\n") else source + "\n"
    text = shell.transform_cell(source)
    stripped = source.lstrip("\n")
    leading = 0
    for line in source.splitlines():
        if line.strip():
            break
        leading += 1
    if leading and stripped.strip() and text.count("\n") + leading <= source.count("\n") + 1:
        text = "\n" * leading + text
    return text


def _is_silenced(text: str, last: ast.Expr) -> bool:
    """Does a semicolon follow the last expression?"""
    line = text.split("\n")[last.end_lineno - 1].encode("utf-8", "surrogatepass")
    return line[last.end_col_offset:].lstrip().startswith(b";")


class Cell:
    def __init__(self, shell, source: str, name: str):
        global _future
        text = _transform(shell, source)
        same_lines = text.count("\n") == source.count("\n") + (not source.endswith("\n"))
        _keep_source(name, source if same_lines else text)
        flags = _future | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        tree = compile(text, name, "exec", flags | ast.PyCF_ONLY_AST, dont_inherit=True)
        shell.displayhook.is_silenced = False
        tree = shell.transform_ast(tree)
        self.wants_loop = loops.wants_loop(text, tree)
        self.ns = shell.user_ns
        self.statements = self.value = None
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        if tree.body:
            self.statements = compile(tree, name, "exec", flags, dont_inherit=True)
            _future |= self.statements.co_flags & FUTURE_FLAGS
            flags |= _future
        if last is not None:
            shell.displayhook.is_silenced = _is_silenced(text, last)
            self.value = compile(ast.Expression(last.value), name, "eval", flags, dont_inherit=True)
        self.is_async = self.wants_loop or any(
            code is not None and code.co_flags & inspect.CO_COROUTINE for code in (self.statements, self.value))

    def run(self) -> None:
        if self.is_async:
            loops.run(self._run_async())
            return
        if self.statements is not None:
            exec(self.statements, self.ns)
        if self.value is not None:
            sys.displayhook(eval(self.value, self.ns))

    async def _run_async(self) -> None:
        for code in (self.statements, self.value):
            if code is None:
                continue
            value = eval(code, self.ns)
            if code.co_flags & inspect.CO_COROUTINE:
                value = await value
            if code is self.value:
                sys.displayhook(value)


def run(shell, source: str, name: str) -> None:
    """Run the cell. To be called through the gate; whatever goes wrong comes out as exception."""
    gate.raise_missed()
    events = shell.events
    events.trigger("pre_execute")
    info = _tell_pre_run(shell, source) if events.callbacks["pre_run_cell"] or events.callbacks["post_run_cell"] else None
    failed = True
    try:
        Cell(shell, source, name).run()
        failed = False
    finally:
        events.trigger("post_execute")
        if events.callbacks["post_run_cell"]:
            _tell_post_run(shell, info, sys.exc_info()[1] if failed else None)


def _tell_pre_run(shell, source):
    from IPython.core.interactiveshell import ExecutionInfo
    info = ExecutionInfo(source, True, False, True, None)
    shell.events.trigger("pre_run_cell", info)
    return info


def _tell_post_run(shell, info, error):
    from IPython.core.interactiveshell import ExecutionInfo, ExecutionResult
    result = ExecutionResult(info or ExecutionInfo("", True, False, True, None))
    result.error_in_exec = error
    shell.events.trigger("post_run_cell", result)
