"""Runs inside a finished image, read-only, as the sandbox's user without network: does it keep its promises?

argv[1] is the [check] table of the template as JSON. Prints what it measured as JSON; a failure is a traceback.
Stays out of the image, so it may only use what every template has.
"""

import json
import os
import platform
import pwd
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


def check_fonts(text):
    import shutil

    # Beside the prepared list, not with it, matplotlib would write one of its own.
    shutil.copytree("/usr/share/sandglass/matplotlib", os.environ["MPLCONFIGDIR"], dirs_exist_ok=True)
    prepared = set(os.listdir(os.environ["MPLCONFIGDIR"]))
    assert any(name.startswith("fontlist-") for name in prepared), prepared
    import io

    import matplotlib
    import matplotlib.pyplot as plt

    assert matplotlib.get_backend().lower() == "agg", matplotlib.get_backend()
    assert matplotlib.rcParams["font.family"] == ["DejaVu Sans", "WenQuanYi Micro Hei"], matplotlib.rcParams["font.family"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure, axes = plt.subplots()
        axes.plot([-1, 1], label=text)
        axes.set_title(text)
        axes.legend()
        out = io.BytesIO()
        figure.savefig(out, format="png")
    assert out.getvalue().startswith(b"\x89PNG")
    assert set(os.listdir(os.environ["MPLCONFIGDIR"])) == prepared


def main():
    request = json.loads(sys.argv[1])
    os.environ["MPLCONFIGDIR"] = "/tmp/matplotlib"
    os.mkdir("/tmp/matplotlib")
    check_system(request["mount_points"])
    if request.get("glyphs"):
        check_fonts(request["glyphs"])
    imports = check_imports(request["imports"])
    check_commands(request["commands"])
    print(json.dumps({"python_version": platform.python_version(), "import_seconds": imports}))


main()
