"""Writes golden_syscalls.json from a walk inside a sandbox; the result is to be reviewed, not believed.

    python3 make_golden.py WALK.json [HEADER]

WALK.json is the output of `sandglass-probe syscalls` inside. For each number: its name, `filter` (the errno that only the
filter gives, by the policy of docs/threat-model.md), or `kernel` (what the kernel says to arguments that are all ones).
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

# Newer than the headers of Debian 12.
NEW_NAMES = {
    451: "cachestat", 452: "fchmodat2", 453: "map_shadow_stack", 454: "futex_wake", 455: "futex_wait", 456: "futex_requeue",
    457: "statmount", 458: "listmount", 459: "lsm_get_self_attr", 460: "lsm_set_self_attr", 461: "lsm_list_modules", 462: "mseal",
    463: "setxattrat", 464: "getxattrat", 465: "listxattrat", 466: "removexattrat", 467: "open_tree_attr", 468: "file_getattr", 469: "file_setattr",
}  # fmt: skip
# Refused with EPERM by policy. Everything else that answers ENOSYS is unlisted.
EPERM = set(
    "mount umount2 pivot_root chroot fsopen fsconfig fsmount fspick move_mount open_tree open_tree_attr mount_setattr setns ptrace "
    "process_vm_readv process_vm_writev pidfd_getfd kcmp process_madvise process_mrelease bpf perf_event_open fanotify_init "
    "open_by_handle_at name_to_handle_at quotactl quotactl_fd acct swapon swapoff reboot settimeofday clock_settime clock_adjtime adjtimex "
    "sethostname setdomainname syslog vhangup iopl ioperm nfsservctl kexec_load kexec_file_load init_module finit_module delete_module "
    "set_mempolicy mbind migrate_pages move_pages set_mempolicy_home_node vmsplice lsm_set_self_attr clone unshare prctl seccomp".split()
)


def names(header: str) -> dict[int, str]:
    found = {int(n): name for name, n in re.findall(r"#define __NR_(\w+) (\d+)", Path(header).read_text())}
    return found | NEW_NAMES


# The kernel itself says ENOSYS to an operation of all ones.
ENOSYS_BY_KERNEL = {"futex"}


def row(name: str, answer: str) -> dict:
    if name in ENOSYS_BY_KERNEL:
        return {"name": name, "filter": None, "kernel": [answer]}
    if answer == "ENOSYS" or (answer == "EPERM" and name in EPERM):
        return {"name": name, "filter": answer, "kernel": []}
    return {"name": name, "filter": None, "kernel": [answer]}


def main(walk: str, header: str = "/usr/include/x86_64-linux-gnu/asm/unistd_64.h") -> None:
    known = names(header)
    answers = json.loads(Path(walk).read_text())
    calls = {number: row(known[int(number)], answer) for number, answer in answers.items() if int(number) in known}
    unknown = {number: answer for number, answer in answers.items() if int(number) not in known and answer != "ENOSYS"}
    assert not unknown, f"nameless numbers pass: {unknown}"
    golden = {"architecture": os.uname().machine, "kernel": ".".join(os.uname().release.split(".")[:2]) + ".", "calls": calls}
    target = Path(__file__).parent / "golden_syscalls.json"
    lines = ",\n".join(f"  {json.dumps(n)}: {json.dumps(r)}" for n, r in calls.items())
    target.write_text(f'{{"architecture": "{golden["architecture"]}", "kernel": "{golden["kernel"]}", "calls": {{\n{lines}\n}}}}\n')


if __name__ == "__main__":
    main(*sys.argv[1:])
