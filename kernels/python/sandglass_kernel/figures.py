"""matplotlib without a screen: a backend whose window is the answer.

Every open figure is shown once and then closed: by plt.show(), or at the end of the cell. A figure that was shown
as a value (or by display) counts as shown until it is changed. Models like to write matplotlib.use("Agg") first;
that must not turn plt.show() into nothing, so backends for screens and Agg all mean this one.

Sizes are checked before a pixel is drawn: a wrong figsize must give an error that can be read, not use up the
memory.
"""
from __future__ import annotations

import base64
import io
import math
import sys
import weakref

BACKEND = "module://sandglass_kernel.figures"
PIXELS_MAX = 36_000_000
PNG_MAX = 5 << 20  # a bigger one is drawn again with less resolution
FILE_BACKENDS = {"pdf", "pgf", "ps", "svg", "cairo", "template"}

_publish = None  # set by the shell: takes a bundle
_shown = weakref.WeakSet()


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


def _show_and_close(manager) -> None:
    from matplotlib._pylab_helpers import Gcf
    figure = manager.canvas.figure
    try:
        if figure not in _shown or figure.stale:
            data = png_of_value(figure)
            if data is not None:
                _publish({"image/png": data})
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
    """Forget open figures without showing them."""
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


def _draw_asian_letters(matplotlib) -> None:
    """Glyphs that the first font lacks come from the second, if it is there and the family itself is a list."""
    from matplotlib import font_manager
    names = {entry.name for entry in font_manager.fontManager.ttflist}
    if len(matplotlib.rcParams["font.family"]) > 1:
        return  # the image has settled it
    for wide in ("WenQuanYi Micro Hei", "Noto Sans CJK JP", "WenQuanYi Zen Hei"):
        if wide in names:
            family = ["DejaVu Sans", wide]
            matplotlib.rcParams["font.family"] = matplotlib.rcParamsDefault["font.family"] = family
            return


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
