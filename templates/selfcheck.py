"""Runs inside a finished image, read-only, as the sandbox's user without network: does it keep its promises?

argv[1] is the [check] table of the template as JSON. Prints what it measured as JSON; a failure is a traceback.
Stays out of the image, so it may only use what every template has.
"""

import io
import json
import logging
import os
import platform
import pwd
import shutil
import subprocess
import sys
import time
import warnings


def check_system(mount_points):
    assert os.getuid() == 1000 and os.getgid() == 1000
    names = {entry.pw_name: entry.pw_uid for entry in pwd.getpwall()}
    assert names == {"root": 0, "sandglass": 999, "user": 1000, "nobody": 65534}, names
    assert os.path.getsize("/etc/resolv.conf") == 0 and os.path.getsize("/etc/machine-id") == 0
    assert open("/etc/hostname").read() == "sandglass\n"
    assert time.localtime(0).tm_hour == 0 and time.tzname[0] == "UTC", time.tzname
    for name in mount_points:
        assert os.path.isdir("/" + name), f"/{name} is missing"
    try:
        open("/usr/written", "w")
    except OSError:
        pass
    else:
        raise AssertionError("the tree can be written to")


def check_imports(modules):
    """Each by its seconds, in the order given: the first to need a library pays for it."""
    seconds = {}
    for module in modules:
        start = time.monotonic()
        __import__(module)
        seconds[module] = round(time.monotonic() - start, 3)
    return seconds


def check_commands(commands):
    for command in commands:
        ran = subprocess.run(["bash", "-ec", command], capture_output=True, text=True, stdin=subprocess.DEVNULL)
        assert ran.returncode == 0, f"'{command}' ended with {ran.returncode}:\n{ran.stdout}{ran.stderr}"


def check_fonts(text, complaints):
    import matplotlib
    import matplotlib.pyplot as plt
    import seaborn

    assert matplotlib.get_backend().lower() == "agg", matplotlib.get_backend()
    assert matplotlib.rcParams["font.family"] == ["DejaVu Sans", "WenQuanYi Micro Hei"], matplotlib.rcParams["font.family"]
    styles = {
        "plain": plt.rcdefaults,
        "ggplot": lambda: plt.style.use("ggplot"),
        "seaborn-v0_8": lambda: plt.style.use("seaborn-v0_8"),
        "seaborn": seaborn.set_theme,
        "seaborn's axes": lambda: seaborn.set_style("whitegrid"),
    }
    for name, choose in styles.items():
        plt.rcdefaults()
        choose()
        figure, axes = plt.subplots()
        axes.plot([-1, 1], label=text)
        axes.set_title(text)
        axes.legend()
        out = io.BytesIO()
        figure.savefig(out, format="png")
        plt.close(figure)
        assert out.getvalue().startswith(b"\x89PNG")
        assert not complaints, f"{name}: {complaints[:5]}"


def collect_complaints():
    """A list that grows with each warning and each log message of that weight."""
    complaints = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: complaints.append(record.getMessage())
    logging.getLogger().addHandler(handler)
    warnings.showwarning = lambda message, *_rest: complaints.append(str(message))
    return complaints


def main():
    request = json.loads(sys.argv[1])
    complaints = collect_complaints()
    check_system(request["mount_points"])

    # As the warmed process does it: the prepared list of fonts in a folder that can be written to.
    config = os.environ["MPLCONFIGDIR"] = "/tmp/matplotlib"
    os.mkdir(config)
    if os.path.isdir("/usr/share/sandglass/matplotlib"):
        shutil.copytree("/usr/share/sandglass/matplotlib", config, dirs_exist_ok=True)
    prepared = {entry.name: entry.stat().st_mtime_ns for entry in os.scandir(config)}

    imports = check_imports(request["imports"])
    assert not complaints, complaints[:5]
    check_commands(request["commands"])
    if request.get("glyphs"):
        check_fonts(request["glyphs"], complaints)
        assert any(name.startswith("fontlist-") for name in prepared), prepared
    # Had the prepared list been of no use, matplotlib would have written its own.
    assert prepared == {entry.name: entry.stat().st_mtime_ns for entry in os.scandir(config)}
    print(json.dumps({"python_version": platform.python_version(), "import_seconds": imports}))


main()
