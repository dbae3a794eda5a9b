"""matplotlib without a screen: a backend whose window is the answer.

Every open figure is shown once and then closed: by plt.show(), or at the end of the cell. A figure that was shown
as a value (or by display) counts as shown until it is changed. Models like to write matplotlib.use("Agg") first;
that must not turn plt.show() into nothing, so backends for screens and Agg all mean this one.

Sizes are checked before a pixel is drawn: a wrong figsize must give an error that can be read, not use up the
memory.
"""
from __future__ import annotations

import base64
import functools
import io
import logging
import math
import sys
import weakref

BACKEND = "module://sandglass_kernel.figures"
PIXELS_MAX = 36_000_000
PNG_MAX = 5 << 20  # a bigger one is drawn again with less resolution
WIDE_FONTS = ("WenQuanYi Micro Hei", "Noto Sans CJK JP", "WenQuanYi Zen Hei")
FILE_BACKENDS = {"pdf", "pgf", "ps", "svg", "cairo", "template"}

_publish = None  # set by the shell: takes a bundle
_shown = weakref.WeakSet()
_wants_svg = False  # beside the PNG
_told = set()  # what this cell was told of fonts


class FigureTooBig(ValueError):
    """A figure that would take more memory than it is worth."""

    __module__ = "builtins"


def _check(width: float, height: float) -> None:
    if not width * height <= PIXELS_MAX:
        raise FigureTooBig(f"the figure would have {width:,.0f} x {height:,.0f} pixels; at most {PIXELS_MAX:,} are drawn. "
                           "Choose a smaller figsize or dpi, or move what lies far outside of the axes.")


def png(figure, dpi: float | None = None) -> bytes | None:
    """The figure as PNG, cut to what is drawn; None for an empty one."""
    if not figure.axes and not figure.lines and not figure.texts and not figure.images and not figure.patches:
        return None
    dpi = figure.dpi if dpi is None else dpi
    _check(figure.get_figwidth() * dpi, figure.get_figheight() * dpi)
    measure = figure.get_tightbbox

    def measure_and_check(*args, **kwargs):
        box = measure(*args, **kwargs)
        _check(box.width * dpi, box.height * dpi)  # in inches
        return box

    from matplotlib.backends.backend_agg import FigureCanvasAgg
    canvas = figure.canvas if isinstance(figure.canvas, FigureCanvasAgg) else FigureCanvasAgg(figure)
    buffer = io.BytesIO()
    figure.get_tightbbox = measure_and_check
    try:
        canvas.print_figure(buffer, format="png", bbox_inches="tight", dpi=dpi, facecolor=figure.get_facecolor(),
                            edgecolor=figure.get_edgecolor())
    finally:
        del figure.get_tightbbox
    return buffer.getvalue()


def png_of_value(figure) -> str | None:
    """What the PNG formatter calls: base64, within the cap, and the figure counts as shown."""
    data, dpi = png(figure), figure.dpi
    if data is None:
        return None
    first_size, first_dpi = len(data), dpi
    while len(data) > PNG_MAX and dpi > 10:
        dpi *= max(0.3, 0.9 * math.sqrt(PNG_MAX / len(data)))
        data = png(figure, dpi)
    if dpi != first_dpi:
        print(f"[a figure is shown at {dpi:.0f} dpi instead of {first_dpi:.0f}: its PNG had {first_size:,} bytes]", file=sys.stderr)
    _shown.add(figure)
    figure.stale = False
    return base64.b64encode(data).decode("ascii")


def svg_of_value(figure) -> str | None:
    """What the SVG formatter calls: nothing, unless the user has asked for such pictures."""
    if not _wants_svg or not figure.axes:
        return None
    buffer, stale = io.StringIO(), figure.stale
    figure.savefig(buffer, format="svg", bbox_inches="tight", facecolor=figure.get_facecolor(), edgecolor=figure.get_edgecolor())
    figure.stale = stale
    return buffer.getvalue()


def choose_formats(names) -> None:
    """`%config InlineBackend.figure_formats`: SVG comes beside the PNG, and no other format is another picture."""
    global _wants_svg
    _wants_svg = "svg" in ({names} if isinstance(names, str) else set(names or ()))


def _show_and_close(manager) -> None:
    from matplotlib._pylab_helpers import Gcf
    figure = manager.canvas.figure
    try:
        if figure not in _shown or figure.stale:
            svg, data = svg_of_value(figure), png_of_value(figure)
            if data is not None:
                _publish({"image/png": data, "image/svg+xml": svg})
    finally:
        Gcf.destroy(manager)


def flush() -> None:
    """Show what is open, in the order it was made. An error in one does not hide the next."""
    helpers = sys.modules.get("matplotlib._pylab_helpers")
    if helpers is None:
        return
    error = None
    for manager in helpers.Gcf.get_all_fig_managers():
        try:
            _show_and_close(manager)
        except Exception as problem:
            error = error or problem
    if error is not None:
        raise error


def close_all() -> None:
    """Forget open figures without showing them, and what was said of fonts."""
    _told.clear()
    helpers = sys.modules.get("matplotlib._pylab_helpers")
    if helpers is not None:
        helpers.Gcf.figs.clear()


def _ours(name) -> bool:
    """Is this the name of a backend that is ours, or stands for a screen that is not there?"""
    return isinstance(name, str) and name.lower() not in FILE_BACKENDS and (name == BACKEND or not name.startswith("module://"))


def configure(pyplot) -> None:
    """Make matplotlib.pyplot, just imported, ours."""
    import matplotlib
    from matplotlib.figure import Figure

    switch, use = pyplot.switch_backend, matplotlib.use

    def switch_backend(newbackend):
        switch(BACKEND if _ours(newbackend) else newbackend)

    def use_backend(backend, *, force=True):
        use(BACKEND if _ours(backend) else backend, force=force)

    switch_backend.__doc__, use_backend.__doc__ = switch.__doc__, use.__doc__
    pyplot.switch_backend, matplotlib.use = switch_backend, use_backend
    matplotlib.rcParams["backend"] = matplotlib.rcParamsDefault["backend"] = BACKEND
    switch(BACKEND)
    _draw_asian_letters(matplotlib)
    from IPython.core.getipython import get_ipython
    shell = get_ipython()
    if shell is not None:
        shell.display_formatter.formatters["image/png"].for_type(Figure, png_of_value)
        shell.display_formatter.formatters["image/svg+xml"].for_type(Figure, svg_of_value)


def _draw_asian_letters(matplotlib) -> None:
    """Glyphs that the first font lacks come from the second, if it is there and the family itself is a list."""
    from matplotlib import font_manager
    names = {entry.name for entry in font_manager.fontManager.ttflist}
    wide = next((name for name in WIDE_FONTS if name in names), None)
    if wide is None:
        return
    if len(matplotlib.rcParams["font.family"]) == 1:  # else the image has settled it
        family = ["DejaVu Sans", wide]
        matplotlib.rcParams["font.family"] = matplotlib.rcParamsDefault["font.family"] = family
    _fall_back_on(wide, font_manager)


def _fall_back_on(wide: str, font_manager) -> None:
    """Also where code names a font of its own, such as SimHei or Arial, that may not be here and has few glyphs."""
    logging.getLogger(font_manager.__name__).addFilter(_tell_font_once)
    find = getattr(font_manager.FontManager, "_find_fonts_by_props", None)
    if find is None:
        return

    @functools.wraps(find)
    def find_and_add(self, prop, fontext="ttf", *args, **kwargs):
        found = find(self, prop, fontext, *args, **kwargs)
        if fontext == "ttf":
            path = self.findfont(font_manager.FontProperties(family=wide), fontext)
            if path not in found:
                found.append(path)
        return found

    font_manager.FontManager._find_fonts_by_props = find_and_add


def _tell_font_once(record) -> bool:
    """That a font is missing is said once in a cell, not for each label of each axis."""
    text = record.getMessage()
    is_new = text not in _told
    _told.add(text)
    return is_new


# ------------------------------------------------------------ what matplotlib looks for in a backend

def __getattr__(name):
    """FigureCanvas and FigureManager, made when matplotlib asks: without matplotlib this module costs nothing."""
    if name not in ("FigureCanvas", "FigureManager", "backend_version"):
        raise AttributeError(name)
    import matplotlib
    from matplotlib.backend_bases import FigureManagerBase
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    class FigureManager(FigureManagerBase):
        def show(self):
            _show_and_close(self)

        @classmethod
        def pyplot_show(cls, *, block=None):
            flush()

    class FigureCanvas(FigureCanvasAgg):
        manager_class = FigureManager

    globals().update(FigureManager=FigureManager, FigureCanvas=FigureCanvas, backend_version=matplotlib.__version__)
    return globals()[name]
