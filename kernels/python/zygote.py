"""The warmed interpreter from which every Python kernel is forked.

    python3 -I -X frozen_modules=on zygote.py [MODULE...]      descriptor 3 is the control socket

Imports and uses once the modules named, then hands itself over to a loop in C, _sandglass.park, in which no Python
runs. That call returns only in a child: a new kernel, already inside its sandbox, without privileges, with its own
descriptors 0 to 3. What it returns is the number of processors of the kernel's share, and whether the kernel is made
ahead of time.
"""
import gc
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import _sandglass

from sandglass_kernel import runner, warming

CONTROL = 3

warming.warm(sys.argv[1:])
sys.argv[1:] = []
warming.check(allowed=(0, 1, 2, CONTROL))
gc.collect()
gc.freeze()
cpus, is_early = _sandglass.park(CONTROL)
runner.main(CONTROL, max(cpus, 1), is_early=bool(is_early))
