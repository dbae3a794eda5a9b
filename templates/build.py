#!/usr/bin/env python3
"""Builds a template: a read-only root file system that sandboxes start from.

    python3 templates/build.py NAME [--force] [--quiet]    build it, or do nothing if it is there
    python3 templates/build.py NAME --print-key            say which image the inputs ask for
    python3 templates/build.py NAME --lock                 pin the newest wheels

Everything that goes in is named by the inputs: the folder templates/NAME (what to install, which
wheels by hash), templates/skeleton (files of /etc) and BUILDER in builder/inputs.py. Their hash is the key, and
the key is the folder of the image in the cache:

    $SANDGLASS_CACHE (default ~/.cache/sandglass)
        <key>/image.erofs       the root, lz4
        <key>/template.json     what the daemon reads, written last
        <key>/manifest.json     the exact Debian packages and wheels inside
        <NAME> -> <key>         what NAME means now
        <NAME>.log              what the tools said during the last build

Debian's packages are whatever the suite holds on the day: their versions are recorded, not chosen,
and so not part of the key. --force builds again for the same key, with the fixes that came since.

A finished entry is never changed, only replaced as a whole: a daemon that has the old image mounted
keeps it. All work happens in one folder inside the cache, with mounts only in namespaces that end
with the command, so a build that is killed leaves at most that folder, and the next one removes it.

The work itself is in builder/.
"""

import argparse
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from builder import BuildError  # noqa: E402
from builder.cache import cache_folder, is_complete, point, publish, work_folder  # noqa: E402
from builder.fetch import make_lock  # noqa: E402
from builder.image import build  # noqa: E402
from builder.inputs import Template  # noqa: E402
from builder.running import Runner, check_host  # noqa: E402


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="build.py", description="Build a template into the image cache.")
    parser.add_argument("name", metavar="NAME", help="a folder beside this program")
    parser.add_argument("--force", action="store_true", help="build again though the image is there")
    parser.add_argument("--quiet", action="store_true", help="no progress, only errors and the result")
    parser.add_argument("--print-key", action="store_true", help="only print the key of the image")
    parser.add_argument("--lock", action="store_true", help="write the lock file of the wheels anew, build nothing")
    options = parser.parse_args(arguments)
    os.umask(0o022)
    try:
        return run(options)
    except BuildError as error:
        print(f"build.py: {error}", file=sys.stderr)
        if error.hint:
            print(f"  -> {error.hint}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def run(options):
    template = Template(options.name)
    key = template.key()
    if options.print_key:
        print(key)
        return 0
    cache = cache_folder()
    entry = cache / key
    if not (options.force or options.lock) and is_complete(entry):
        point(cache, template.name, key)
        print(entry)
        return 0
    if not options.lock:
        template.pinned()  # an unreadable lock is said before anything is fetched
    cache.mkdir(parents=True, exist_ok=True)
    if not options.lock:
        check_host(cache)
    start = time.monotonic()
    runner = Runner(cache / f"{template.name}.log", options.quiet)
    with work_folder(cache, runner.say) as work:
        if options.lock:
            make_lock(template, work, runner)
            print(template.lock)
            return 0
        if options.force or not is_complete(entry):  # another build may have made it meanwhile
            build(template, work, runner)
            publish(work / "entry", entry)
            size = (entry / "image.erofs").stat().st_size / 1e6
            runner.say(f"{template.name}: {size:.0f} MB in {time.monotonic() - start:.0f} s")
        point(cache, template.name, key)
    print(entry)
    return 0


if __name__ == "__main__":
    sys.exit(main())
