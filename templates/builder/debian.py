"""Debian's packages: the tree they make, and what is in it by dpkg's own record."""

import os
import re
from pathlib import Path

from builder.running import AS_PACKAGER, ISOLATED


def host_sources(suite, apt=Path("/etc/apt")):
    """What the host's own sources say about the suite, as text and suffix; so a build uses the mirror that
    works here. None if the host is of another release: then mmdebstrap knows where Debian is."""
    suites = {suite, f"{suite}-updates", f"{suite}-security"}
    for path in sorted(apt.glob("sources.list.d/*.sources")):
        stanzas = []
        for stanza in re.split(r"\n\s*\n", path.read_text(errors="replace")):
            fields = dict(re.findall(r"(?im)^(suites|components|types|enabled):[ \t]*(.*)$", stanza))
            fields = {name.lower(): value.split() for name, value in fields.items()}
            usable = "main" in fields.get("components", []) and "deb" in fields.get("types", [])
            if usable and set(fields.get("suites", [])) <= suites and fields.get("enabled") != ["no"]:
                stanzas.append(stanza.strip("\n"))
        if any(re.search(rf"(?im)^suites:.*\b{suite}(\s|$)", stanza) for stanza in stanzas):
            return "\n\n".join(stanzas) + "\n", ".sources"
    for path in [apt / "sources.list", *sorted(apt.glob("sources.list.d/*.list"))]:
        text = path.read_text(errors="replace") if path.exists() else ""
        entries = re.findall(r"(?m)^deb\s+(?:\[[^]]*\]\s+)?\S+\s+(\S+)\s+main\b.*$", text)
        if suite in entries:
            lines = [line for line in text.splitlines() if re.match(r"deb\s", line)]
            wanted = [line for line in lines if suites & set(line.split()) and "main" in line.split()]
            return "\n".join(wanted) + "\n", ".list"
    return None


def make_base(runner, template, root, work):
    options = ["--mode=root", "--variant=essential", f"--architectures={template.arch}"]
    options += ['--aptopt=APT::Install-Recommends "false"', '--aptopt=Acquire::Retries "3"']
    for excluded in ("doc", "man", "locale"):
        options.append(f"--dpkgopt=path-exclude=/usr/share/{excluded}/*")
    options.append("--dpkgopt=path-include=/usr/share/doc/*/copyright")
    options.append("--include=" + ",".join(template.spec["debian"]["packages"]))
    command = ["mmdebstrap", *options, template.suite, root]
    sources = host_sources(template.suite)
    if sources:
        path = work / ("debian" + sources[1])
        path.write_text(sources[0])
        command.append(path)
    hint = f"see whether `apt-get update` works on this host; {runner.where}"
    environment = os.environ | {"TMPDIR": str(work), "LC_ALL": "C.UTF-8"}
    runner.run([*ISOLATED, "--mount-proc", *AS_PACKAGER, *command], "mmdebstrap", hint, env=environment)


def debian_packages(root):
    """{name: version} by dpkg's own record."""
    stanzas = (root / "var/lib/dpkg/status").read_text().split("\n\n")
    records = [dict(re.findall(r"(?m)^(Package|Version|Status): (.*)$", stanza)) for stanza in stanzas if stanza.strip()]
    return {record["Package"]: record["Version"] for record in records if record["Status"].endswith(" installed")}
