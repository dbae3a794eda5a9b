"""A kernel without zygote and sandbox, for development and tests.

Descriptors as in the real one: 1 and 2 for output, a SEQPACKET socket (by default 3) for frames.
"""
import argparse
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--socket", type=int, default=3)
parser.add_argument("--cpus", type=int, default=1)
parser.add_argument("--home", default="/home/user")
parser.add_argument("--workspace", default="/workspace")
parser.add_argument("preload", nargs="*", help="modules to import and warm, as the zygote does")
options = parser.parse_args()

if options.preload:
    from sandglass_kernel import warming
    warming.warm(options.preload)

from sandglass_kernel import runner

runner.main(options.socket, options.cpus, options.home, options.workspace)
