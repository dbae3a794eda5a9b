"""The builder of templates. Two programs use it: build.py by hand, over_api.py for the daemon.

    inputs.py    a template's folder, and the key of its image
    cache.py     entries and names in the cache, the folder of a build
    running.py   how tools are run, and what each may do
    debian.py    Debian's packages, which make the tree
    fetch.py     wheels: what pip fetches without rights, and the lock
    tree.py      what is done to the tree
    checks.py    whether it is as promised
    image.py     the steps in order; the image and what is said of it

Only the standard library is used. What runs the target's programs does so offline in a chroot and without
capabilities. Code of wheels and of placed files is not trusted: it runs as the sandbox's user in a tree that is
read-only, or not at all, since whoever writes to the tree decides what the steps after it meet there.
"""


class BuildError(Exception):
    """What failed, and what the reader can do about it."""

    def __init__(self, message, hint=""):
        super().__init__(message)
        self.hint = hint
