#!/usr/bin/env python3
"""Turns files into a C source with their bytes, so that the program carries them.

    embed.py OUTPUT NAME=FILE ...
"""

import sys
from pathlib import Path


def array_of(name: str, content: bytes) -> str:
    rows = [", ".join(str(byte) for byte in content[at : at + 32]) for at in range(0, len(content), 32)]
    return f"const unsigned char {name}[] = {{\n\t" + ",\n\t".join(rows) + f"\n}};\nconst size_t {name}_size = sizeof({name});\n"


def main(arguments: list[str]) -> int:
    output, *files = arguments
    pairs = [pair.split("=", 1) for pair in files]
    text = '/* Made by embed.py. */\n#include "api/embedded.h"\n\n'
    Path(output).write_text(text + "\n".join(array_of(name, Path(path).read_bytes()) for name, path in pairs))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
