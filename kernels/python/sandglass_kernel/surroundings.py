"""What a session finds around it, made the same each time: environment, paths, processor share, randomness.

The interpreter was warmed elsewhere and forked many times. Nothing of the place of warming may be seen in a session,
and nothing random may be shared by two.
"""
from __future__ import annotations

import os
import random
import site
import sys
import time

ENVIRONMENT = {
    "USER": "user", "LOGNAME": "user", "SHELL": "/bin/bash", "LANG": "C.UTF-8", "TZ": "UTC", "TERM": "dumb",
    "PAGER": "cat", "GIT_PAGER": "cat",
    # an editor that leaves the file as it is: git then refuses an empty message instead of waiting
    "EDITOR": "true", "VISUAL": "true", "GIT_EDITOR": "true",
    "MPLBACKEND": "agg",
    # without a network five tries take eight seconds to say what one says
    "PIP_RETRIES": "1", "PIP_NO_INPUT": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1",
}
IMAGE_ENVIRONMENT = "/usr/share/sandglass/environment"  # what the template's ENV lines set; see src/jail/environment.h
HOME = "/home/user"
SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
NUMPY_WORDS = 624  # the state of its MT19937
OWN_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def read_image_environment() -> dict[str, str]:
    try:
        with open(IMAGE_ENVIRONMENT, encoding="utf-8", newline="\n") as file:
            pairs = [line.rstrip("\n").partition("=") for line in file]
    except FileNotFoundError:
        return {}
    return {name: value for name, equals, value in pairs if equals}


_image_environment = None  # as the zygote read it: the image is the same for all its kernels


def set_environment(home: str, cpus: int) -> None:
    """Exactly this; what is so already, is left alone, since each write copies memory of the zygote's."""
    global _image_environment
    if _image_environment is None:
        _image_environment = read_image_environment()
    wanted = {**ENVIRONMENT, "HOME": home, "PATH": f"{home}/.local/bin:{SYSTEM_PATH}", "OPENBLAS_NUM_THREADS": str(cpus),
              "OMP_NUM_THREADS": str(cpus), **_image_environment}
    found = dict(os.environ)
    if found == wanted:
        return
    for name in found.keys() - wanted.keys():
        del os.environ[name]
    os.environ.update({name: value for name, value in wanted.items() if found.get(name) != value})
    if found.get("TZ") != wanted["TZ"]:
        time.tzset()


def set_paths(home: str) -> None:
    """As in a notebook: the working folder first, then the library, then what the user has installed."""
    site.USER_BASE = f"{home}/.local"
    site.USER_SITE = f"{site.USER_BASE}/lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
    site.ENABLE_USER_SITE = True
    paths = [p for p in sys.path if p not in ("", OWN_FOLDER, site.USER_SITE)]
    place = next((n for n, p in enumerate(paths) if p.endswith(("dist-packages", "site-packages"))), len(paths))
    sys.path[:] = ["", *paths[:place], site.USER_SITE, *paths[place:]]
    sys.argv[:] = [""]


def read_path_files() -> None:
    """What a user installed may bring .pth files, which run code: only once the kernel is known to be up, as part of a cell."""
    if os.path.isdir(site.USER_SITE):
        try:
            site.addsitedir(site.USER_SITE)
        except BaseException as problem:  # the user's own files must not keep the session from working
            print(f"{site.USER_SITE}: {type(problem).__name__}: {problem}", file=sys.stderr)


def find_working_folder(workspace: str) -> str:
    """Ahead of a cell. Where the folder was removed, say by a TemporaryDirectory that the session stood in, names of files
    would lead nowhere: the session goes on in the workspace, which is made again if it has to be."""
    try:
        return os.getcwd()
    except OSError:
        pass
    for folder in (workspace, "/"):
        try:
            os.makedirs(folder, exist_ok=True)
            os.chdir(folder)
        except OSError:
            continue
        print(f"[the working folder was removed; the session goes on in {folder}]", file=sys.stderr)
        return folder
    return ""


def look_again_for_modules(folder: str) -> None:
    """Ahead of a cell: files may have been put into the working folder or installed since, within one clock tick."""
    cache = sys.path_importer_cache
    finder = cache.get(folder)
    if finder is not None:
        finder.invalidate_caches()
    for path in (site.USER_SITE, ""):
        if path in cache and cache[path] is None:
            del cache[path]


def set_processors(cpus: int) -> None:
    """Let Python tell the share, not the machine: pools are sized by these numbers."""
    available = sorted(os.sched_getaffinity(0))
    count = max(1, min(cpus, len(available)))
    share = frozenset(available[:count])
    own_affinity = os.sched_getaffinity

    def cpu_count():
        """Number of processors of this sandbox's share."""
        return count

    def sched_getaffinity(pid, /):
        """Processors of this sandbox's share, as far as there are that many; other processes as they are."""
        found = own_affinity(pid)
        return set(share) if found == set(available) else found

    os.cpu_count, os.sched_getaffinity = cpu_count, sched_getaffinity
    if hasattr(os, "process_cpu_count"):
        os.process_cpu_count = cpu_count
    if count > 1:
        _set_blas_threads(count)


def _set_blas_threads(count: int) -> None:
    """OpenBLAS read its environment when it was loaded, in the zygote; tell it again."""
    with open("/proc/self/maps") as maps:
        libraries = {line.split(None, 5)[5].strip() for line in maps if "openblas" in line}
    for path in libraries:
        import ctypes
        library = ctypes.CDLL(path)
        for name in ("scipy_openblas_set_num_threads64_", "scipy_openblas_set_num_threads", "openblas_set_num_threads64_",
                     "openblas_set_num_threads"):
            if hasattr(library, name):
                getattr(library, name)(count)
                break


def reseed() -> None:
    """Forget all random state that was there before the fork."""
    random.seed()
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        # what seed() does, without its detour over a SeedSequence, which touches half a megabyte
        words = sys.modules["numpy"].frombuffer(os.urandom(4 * NUMPY_WORDS), "uint32")
        numpy_random.set_state(("MT19937", words, NUMPY_WORDS))
    ssl = sys.modules.get("_ssl")
    if ssl is not None:
        # OpenSSL tells a fork by the process id, which can be the same in two sandboxes. This renews the generator
        # that all others draw from, and they notice
        ssl.RAND_add(os.urandom(32), 32.0)
    tempfile = sys.modules.get("tempfile")
    if tempfile is not None:
        tempfile._name_sequence = tempfile.tempdir = None
    process = sys.modules.get("multiprocessing.process")
    if process is not None:
        process.current_process()._config["authkey"] = process.AuthenticationString(os.urandom(32))
    uuid = sys.modules.get("uuid")
    if uuid is not None:
        uuid._node = uuid._last_timestamp = None


def prepare() -> None:
    """Once, in the zygote, as almost every kernel will want it: settle() then finds little to change."""
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed()  # from here on there is no seed sequence that kernels would share
    set_environment(HOME, 1)


def settle(home: str, workspace: str, cpus: int) -> None:
    """All of it. The working folder comes last, when nothing more is imported by us."""
    reseed()
    set_environment(home, cpus)
    set_processors(cpus)
    if os.path.isdir(workspace) and os.access(workspace, os.X_OK):  # else where we were put
        os.chdir(workspace)
    set_paths(home)
