"""What a sandbox is and what it refuses, exactly: the one place the tests compare with.

A value may be a set where several answers are equally right. Change this file only together with docs/threat-model.md.
"""

# ---- credentials ----
NO_CAPABILITIES = "0" * 16
INIT_CAPABILITIES = "00000000000000e0"  # CAP_SETUID, CAP_SETGID, CAP_KILL
USER, INIT, NOBODY = 1000, 999, 65534


def credentials(uid: int, capabilities: str) -> dict[str, str]:
    """Lines of /proc/PID/status, as seen inside."""
    ids = "\t".join([str(uid)] * 4)
    return {
        "Uid": ids, "Gid": ids, "Groups": "",
        "CapInh": NO_CAPABILITIES, "CapPrm": capabilities, "CapEff": capabilities,
        "CapBnd": NO_CAPABILITIES, "CapAmb": NO_CAPABILITIES,
        "NoNewPrivs": "1", "Seccomp": "2",
    }  # fmt: skip


# ---- namespaces: one of its own for each sandbox, except time ----
OWN_NAMESPACES = {"cgroup", "ipc", "mnt", "net", "pid", "pid_for_children", "user", "uts"}
SHARED_NAMESPACES = {"time", "time_for_children"}

# ---- mounts: point -> type, options of the mount (atime left out), and whether the file system is read-only ----
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
RO_DEVICE = {"ro", "nosuid", "noexec"}
MOUNTS = {
    "/": ("overlay", {"rw", "nosuid", "nodev"}),
    "/proc": ("proc", {"rw", "nosuid", "nodev", "noexec"}),
    "/dev": ("tmpfs", {"ro", "nosuid", "noexec"}),
    "/dev/pts": ("devpts", {"rw", "nosuid", "noexec"}),
    "/dev/shm": ("tmpfs", {"rw", "nosuid", "nodev"}),
    "/proc/sys": ("proc", {"ro", "nosuid", "nodev", "noexec"}),
    **{f"/dev/{name}": (None, RO_DEVICE) for name in DEVICES},
}
# What of /proc is covered where the kernel has it: files by /dev/null, folders by an empty read-only tmpfs.
MASKED_FILES = {
    "kcore", "keys", "key-users", "kmsg", "kallsyms", "kpagecount", "kpageflags", "kpagecgroup", "timer_list", "sched_debug",
    "slabinfo", "vmallocinfo", "iomem", "ioports", "config.gz", "sysrq-trigger", "latency_stats", "modules", "kprobes",
}  # fmt: skip
MASKED_FOLDERS = {"acpi", "scsi", "irq", "bus", "fs", "tty", "driver", "pressure"}
MASK_OF_FILE = (None, RO_DEVICE)
MASK_OF_FOLDER = ("tmpfs", {"ro", "nosuid", "nodev", "noexec"})
NEVER_MOUNTED = {"sysfs", "cgroup", "cgroup2", "debugfs", "tracefs", "securityfs", "bpf", "binfmt_misc", "fusectl", "devtmpfs", "mqueue"}
# All of /dev: nodes, folders, links.
DEV_NAMES = {*DEVICES, "pts", "ptmx", "shm", "fd", "stdin", "stdout", "stderr"}

# ---- descriptors: number -> kind ----
KERNEL_DESCRIPTORS = {0: "/dev/null", 1: "pipe", 2: "pipe", 3: "socket", 10: "pipe", 11: "pipe"}
COMMAND_DESCRIPTORS = {0: "/dev/null", 1: "pipe", 2: "pipe"}
# Init: 0-2, its control socket, its loop, the files by which commands enter their control group. Numbers are its own matter.
INIT_DESCRIPTOR_KINDS = {"/dev/null", "socket", "anon_inode:[eventpoll]", "anon_inode:[signalfd]", "cgroup.procs"}

# ---- limits: name in /proc/PID/limits -> soft and hard ----
LIMITS = {
    "Max cpu time": "unlimited",
    "Max file size": str(64 << 30),
    "Max data size": "unlimited",
    "Max stack size": str(8 << 20),
    "Max core file size": "0",
    "Max resident set": "unlimited",
    "Max processes": "4096",
    "Max open files": "4096",
    "Max locked memory": str(8 << 20),
    "Max address space": "unlimited",
    "Max file locks": "unlimited",
    "Max pending signals": "256",
    "Max msgqueue size": str(64 << 10),
    "Max nice priority": "0",
    "Max realtime priority": "0",
    "Max realtime timeout": "0",
}
UNLIMITED = {"CPU", "DATA", "RSS", "AS", "LOCKS"}

# ---- signals, as bit masks of /proc/PID/status ----
SIGPIPE, SIGXFSZ = 1 << 12, 1 << 24
PYTHON_IGNORES = SIGPIPE | SIGXFSZ  # as every Python does
# SIGINT (interrupt), SIGSEGV, SIGFPE, SIGABRT, SIGBUS, SIGILL (faulthandler)
PYTHON_MAY_CATCH = (1 << 1) | (1 << 10) | (1 << 7) | (1 << 5) | (1 << 6) | (1 << 3)

# ---- refusals, by the probe's subcommand ----
KINDS_OF_NAMESPACES = ("user", "mount", "pid", "net", "ipc", "uts", "cgroup", "time")
# clone's bit of the time namespace belongs to the exit signal: nothing is made.
_BY_CLONE = {kind: "EPERM" for kind in KINDS_OF_NAMESPACES} | {"time": {"EPERM", "OK"}}
CLONE = {
    "unshare": dict.fromkeys(KINDS_OF_NAMESPACES, "EPERM"),
    "clone": _BY_CLONE,
    "clone high bit": _BY_CLONE,
    "clone3": dict.fromkeys(KINDS_OF_NAMESPACES, "ENOSYS"),
    "clone3 others": {"plain": "ENOSYS", "into cgroup": "ENOSYS"},
    "setns": dict.fromkeys((*KINDS_OF_NAMESPACES, "pidfd of 1", "pidfd of self"), "EPERM"),
    "parent": {"CLONE_PARENT": "EPERM"},
    "ordinary": dict.fromkeys(("thread", "fork", "vfork", "clone", "unshare nothing", "unshare files"), "OK"),
}

FILE_SYSTEMS = (
    "tmpfs", "proc", "sysfs", "overlay", "fuse", "cgroup", "cgroup2", "binfmt_misc", "nfs", "ext4", "devpts", "devtmpfs",
    "mqueue", "bpf", "debugfs", "tracefs", "securityfs", "ramfs", "squashfs", "erofs", "9p", "virtiofs",
)  # fmt: skip
MOUNT = {
    "mount": dict.fromkeys(FILE_SYSTEMS, "EPERM"),
    "fsopen": dict.fromkeys(FILE_SYSTEMS, "EPERM"),
    "others": dict.fromkeys(("fsconfig", "fsmount", "move_mount", "pivot_root", "chroot", "chroot twice"), "EPERM"),
}
REMOUNT_OF_EACH = dict.fromkeys(
    ("remount", "remount bind", "umount", "umount detach", "bind over", "move", "share", "open_tree clone", "open_tree",
     "open_tree_attr", "mount_setattr", "fspick"), "EPERM")  # fmt: skip
HANDLES_OF_EACH = {"name_to_handle_at": "EPERM", "open_by_handle_at": "EPERM"}

# Mapped inside: 0, 999, 1000, 65534.
_BY_ID = {"0": "EPERM", "999": "EPERM", "1000": "OK", "1001": "EINVAL", "65534": "EPERM", "70000": "EINVAL"}
UIDS = {
    **dict.fromkeys(("setuid", "setgid", "setresuid", "setresgid", "seteuid", "setreuid"), _BY_ID),
    "setfsuid": dict.fromkeys(_BY_ID, "EPERM") | {"1000": "OK"},
    "setgroups": dict.fromkeys(_BY_ID, "EPERM"),
    "others": {"setgroups to none": "EPERM"},
}
_POWERS = dict.fromkeys(("0", "1", "5", "6", "7", "12", "19", "21"), "EPERM")
CAPS = {
    "capset": _POWERS,
    "inheritable": _POWERS,
    "ambient": _POWERS,
    "bounding drop": _POWERS,
    "others": {
        "capset all": "EPERM", "securebits": "EPERM", "no_new_privs off": "EINVAL", "file capability": "EPERM",
        "keepcaps": {"OK", "EPERM"},  # harmless: no id can change
    },
}  # fmt: skip
DENIED = {"unshare": "EPERM", "ptrace": "EPERM", "mount": "EPERM", "setns": "EPERM", "AF_ALG": "EAFNOSUPPORT", "keyctl": "ENOSYS"}
SECCOMP_LOOSEN = {
    "install": {"listener": "EPERM", "all threads": "OK"},
    "before": DENIED,
    "after own filter": {"install": "OK", "same process": DENIED, "new thread": DENIED},
    **dict.fromkeys(("ALLOW", "TRACE", "USER_NOTIF", "LOG"), DENIED),
}
_TRACING = ("ATTACH", "SEIZE", "process_vm_readv", "process_vm_writev", "kcmp", "pidfd_getfd", "process_madvise", "process_mrelease")
PTRACE = dict.fromkeys(("TRACEME", *_TRACING), "EPERM")
_CLOSED = {"EACCES", "EPERM", "ENOENT"}
PID1 = {
    "read": dict.fromkeys(
        ("mem", "environ", "maps", "stack", "syscall", "auxv", "io", "pagemap", "smaps", "personality", "map_files", "timers"),
        _CLOSED | {"EISDIR"}),
    "link": dict.fromkeys(("root", "cwd", "exe", "ns/user", "ns/mnt", "fd/0", "fd/1", "fd/2", "fd/3", "fd/4"), _CLOSED),
    "write": dict.fromkeys(
        ("mem", "oom_score_adj", "comm", "coredump_filter", "clear_refs", "uid_map", "gid_map", "setgroups", "attr/current",
         "timerslack_ns", "autogroup"), _CLOSED | {"EINVAL"}),
    "signal": dict.fromkeys(("TERM", "KILL", "STOP", "HUP", "INT", "USR1", "CHLD"), "EPERM"),
    "trace": dict.fromkeys((*_TRACING, "prlimit"), "EPERM"),
}  # fmt: skip
SCHED = {
    "nice -1": "EACCES", "nice -20": "EACCES", "SCHED_FIFO": "EPERM", "SCHED_RR": "EPERM", "SCHED_DEADLINE": "EPERM",
    "io realtime": "EPERM",
}  # fmt: skip
PRCTL = {
    "prctl": {
        "SET_MM": "EPERM", "SET_PTRACER": "EPERM", "SCHED_CORE": "EPERM", "SET_SECUREBITS": "EPERM",
        "SET_NAME": "OK", "GET_DUMPABLE": "OK", "SET_PDEATHSIG": "OK", "SET_CHILD_SUBREAPER": "OK",
    },
    "personality": {
        **dict.fromkeys(("0", "0x8", "0x20000", "0x20008", "0xffffffff"), "OK"),
        **dict.fromkeys(("0x40000", "0x400000", "0x6"), {"ENOSYS", "EPERM"}),
    },
}  # fmt: skip

# family type protocol
SOCKETS = {
    "socket": ["1 1 0", "1 2 0", "1 5 0", "2 1 0", "2 1 6", "2 2 0", "2 2 17", "10 1 0", "10 1 6", "10 2 0", "10 2 17", "16 2 0", "16 3 0"],
    "socketpair": ["1 1 0", "1 1 1", "1 2 0", "1 2 1", "1 3 0", "1 3 1", "1 5 0", "1 5 1"],
}  # fmt: skip
REFUSED_SOCKET = {"EAFNOSUPPORT", "EPROTONOSUPPORT", "EPERM", "ENOSYS", "ESOCKTNOSUPPORT", "EOPNOTSUPP", "EINVAL", "EPROTOTYPE"}
NAMED_SOCKETS = {
    **dict.fromkeys(
        ("ALG", "RXRPC", "RDS", "VSOCK", "TIPC", "KEY", "SMC", "XDP", "CAN", "QIPCRTR", "PACKET", "BLUETOOTH", "NFC", "AX25"), "EAFNOSUPPORT"),
    **dict.fromkeys(("MPTCP", "SCTP", "UDPLITE", "ICMP", "ICMPv6"), "EPROTONOSUPPORT"),
    **dict.fromkeys(("RAW", "RAW 255", "RAW6"), {"EPERM", "EPROTONOSUPPORT"}),
}  # fmt: skip
SETSOCKOPT = {
    **dict.fromkeys(
        ("TCP_ULP tls", "TCP_ULP espintcp", "TCP_ULP smc", "SO_ATTACH_FILTER", "SO_ATTACH_BPF", "SO_ATTACH_REUSEPORT_CBPF",
         "SO_ATTACH_REUSEPORT_EBPF", "SO_ZEROCOPY", "IP_IPSEC_POLICY", "IP_XFRM_POLICY", "IPV6_IPSEC_POLICY", "IPV6_XFRM_POLICY",
         "IPT_SO_SET_REPLACE", "IPT_SO_SET_ADD_COUNTERS", "ARPT_SO_SET_REPLACE", "EBT_SO_SET_ENTRIES", "IP6T_SO_SET_REPLACE"), "ENOPROTOOPT"),
    **dict.fromkeys(("SO_REUSEADDR", "SO_KEEPALIVE", "TCP_NODELAY", "IPV6_V6ONLY"), "OK"),
}  # fmt: skip
SENDING = {
    **dict.fromkeys(("send OOB", "sendmsg OOB", "sendmmsg OOB", "recv OOB"), "EOPNOTSUPP"),
    "vmsplice": "EPERM", "tee": "OK", "splice to socket": "OK",
}  # fmt: skip
NETLINK = {
    "protocols": {str(n): "EPROTONOSUPPORT" for n in range(23)} | {"0": "OK"},
    "links": ["lo"],
    "changes": dict.fromkeys(("link down", "link add", "address add", "route add", "qdisc add"), "EPERM"),
}
DOORS = {
    **dict.fromkeys(
        ("io_uring_setup", "io_uring_enter", "io_uring_register", "userfaultfd", "memfd_secret", "keyctl", "add_key", "request_key",
         "modify_ldt", "remap_file_pages", "lookup_dcookie", "uselib", "ustat", "sysfs", "map_shadow_stack", "statmount", "listmount"), "ENOSYS"),
    **dict.fromkeys(
        ("bpf", "perf_event_open", "fanotify_init", "quotactl", "quotactl_fd", "acct", "swapon", "swapoff", "reboot", "sethostname",
         "setdomainname", "init_module", "finit_module", "delete_module", "kexec_load", "kexec_file_load", "syslog", "vhangup", "iopl",
         "ioperm", "settimeofday", "clock_settime", "vmsplice", "move_pages", "migrate_pages", "mbind", "set_mempolicy",
         "set_mempolicy_home_node", "nfsservctl", "lsm_set_self_attr"), "EPERM"),
}  # fmt: skip

_IOCTLS = {
    **dict.fromkeys(
        ("TIOCSTI", "TIOCSTI high bit", "TIOCLINUX", "TIOCCONS", "TIOCSETD", "TIOCSETD high bit", "KDSETMODE", "KDSKBENT", "KDMKTONE",
         "KDSIGACCEPT", "VT_ACTIVATE", "VT_OPENQRY", "VT_DISALLOCATE", "FIFREEZE", "FITHAW", "SIOCSIFFLAGS", "SIOCSIFADDR",
         "SIOCSIFHWADDR", "SIOCSIFNAME", "SIOCSIFMTU"), "EPERM"),
    **dict.fromkeys(("FICLONE", "FICLONERANGE"), "EOPNOTSUPP"),
}  # fmt: skip
IOCTL = {
    **dict.fromkeys(("0", "1", "2", "own terminal", "file"), _IOCTLS),
    "open ptmx": "OK",
    "open tty": "ENXIO",  # no controlling terminal
}

_NODES = ("mem", "null", "kmsg", "sda", "loop0", "fuse", "tun", "kvm", "whiteout")
_REFUSED_NODE = {"EPERM", "EACCES"}
MKNOD = {
    **dict.fromkeys(_NODES, _REFUSED_NODE),
    **{f"open {name}": "ENOENT" for name in _NODES},
    "fifo": "OK", "socket": "OK", "open socket": {"ENXIO", "ENOENT"},
}  # fmt: skip
MKNOD_READ_ONLY = {key: (... if key.startswith("open ") else _REFUSED_NODE | {"EROFS"}) for key in MKNOD}
TOUCH_NODE = {
    "touch": "EROFS", "touch open": "EROFS", "set time": {"EROFS", "EPERM"}, "chmod": "EROFS", "chown": "EROFS",
    "xattr": {"EROFS", "EPERM", "EOPNOTSUPP"}, "unlink": {"EROFS", "EBUSY", "EACCES"}, "rename": {"EROFS", "EBUSY", "EACCES"},
    "link": {"EXDEV", "EPERM", "EROFS"}, "lease": {"EINVAL", "EACCES", "EAGAIN"},
}  # fmt: skip
