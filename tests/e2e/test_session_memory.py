"""Where the objects of a Python session lie, and that what they took is given back."""

from __future__ import annotations

from boxes import boxes  # noqa: F401

RANGE_MIB = 128  # kernels/python/arenas.c

GATHERED = f"""
import re
def size_at(address):
    for line in open("/proc/self/maps"):
        start, end = (int(part, 16) for part in line.split()[0].split("-"))
        if start <= address < end:
            return end - start >> 20
kept = [bytes(100 + n % 300) for n in range(100_000)]
print(sum(size_at(id(one)) == {RANGE_MIB} for one in kept[::500]))
"""

GIVEN_BACK = """
import gc
def resident_mib():
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmRSS")).split()[1]) >> 10
before = resident_mib()
many = [bytes(300) + n.to_bytes(4, "little") for n in range(900_000)]
full = resident_mib()
assert all(one[300:] == n.to_bytes(4, "little") for n, one in enumerate(many))
del many
gc.collect()
import json
print(json.dumps([full - before > 250, resident_mib() - before < 60]))
"""


def test_small_objects_lie_side_by_side(boxes):  # noqa: F811
    assert boxes().kernel().value(GATHERED) > 150  # of 200


def test_more_objects_than_the_range_holds_are_whole_and_then_given_back(boxes):  # noqa: F811
    assert boxes().kernel().value(GIVEN_BACK) == [True, True]
