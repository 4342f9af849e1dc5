#!/usr/bin/env python3
"""Build the bootstraps of the functions, check them, and zip them so that the same source gives the same bytes.

    python infra/package.py --architecture arm64 --architecture x86_64 [--out DIR]
    python infra/package.py --architecture x86_64 --built .aws-sam/build

Needs cargo-lambda and ziglang. A bootstrap has at most 9 MB, is of its architecture, and needs no glibc above that of
Amazon Linux 2023. Zips hold nothing but the bootstrap, with a fixed time and mode; the source's and cargo's folders are
left out of the binary. Writes a zip for each function and architecture, and SHA256SUMS. Exits with 1 if a check fails.
"""

import argparse
import hashlib
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FUNCTIONS = {name: f"dynashard-{name.removesuffix('Function').lower()}" for name in
             ("ReadFunction", "RebalanceFunction", "ScaleFunction", "WriteFunction")}

# Lambda fetches a bootstrap before the first event of an environment, so a larger one begins later.
MOST_BYTES = 9_000_000
# That of Amazon Linux 2023 (provided.al2023).
GLIBC = (2, 34)

# By architecture, Rust's target and what `file` calls machine in an ELF header.
TARGETS = {"arm64": ("aarch64-unknown-linux-gnu", 0xB7), "x86_64": ("x86_64-unknown-linux-gnu", 0x3E)}

# The folders of this machine, and what the programs call them instead: they are the same wherever they are built.
FOLDERS = {str(ROOT): "/source", os.environ.get("CARGO_HOME", str(Path.home() / ".cargo")): "/cargo"}

# The first moment that a zip can hold.
TIME = (1980, 1, 1, 0, 0, 0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--architecture", action="append", choices=sorted(TARGETS), required=True)
    parser.add_argument("--built", type=Path, help="take the bootstraps of FUNCTION/bootstrap below this folder, and build none")
    parser.add_argument("--out", type=Path, default=ROOT / "target/package", help="where the zips are written")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    faults, sums = [], {}
    for architecture in sorted(options.architecture):
        folder = options.built or build(architecture)
        for function, binary in FUNCTIONS.items():
            bootstrap = folder / (function if options.built else binary) / "bootstrap"
            content = bootstrap.read_bytes()
            problems = check(content, architecture, is_remapped=not options.built)
            faults += [f"{bootstrap}: {problem}" for problem in problems]
            path = options.out / f"{binary}-{architecture}.zip"
            write_zip(path, content)
            sums[path.name] = hashlib.sha256(path.read_bytes()).hexdigest()
            print(f"{path.name}: {len(content) / 1e6:.2f} MB, glibc {dotted(glibc_of(content))}, sha256 {sums[path.name]}")
    (options.out / "SHA256SUMS").write_text("".join(f"{digest}  {name}\n" for name, digest in sorted(sums.items())))
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


def build(architecture: str) -> Path:
    """Builds all functions for an architecture, and returns the folder of their bootstraps."""
    target, _ = TARGETS[architecture]
    remap = " ".join(f"--remap-path-prefix={folder}={name}" for folder, name in FOLDERS.items())
    folder = ROOT / "target/lambda" / architecture
    binaries = [word for binary in FUNCTIONS.values() for word in ("--bin", binary)]
    subprocess.run(
        ["cargo", "lambda", "build", "--release", "--locked", "--target", target, "--lambda-dir", str(folder), *binaries],
        cwd=ROOT, env={**os.environ, "RUSTFLAGS": remap}, check=True,
    )
    return folder


def check(content: bytes, architecture: str, *, is_remapped: bool = False) -> list[str]:
    """What keeps a bootstrap from being deployed."""
    problems = []
    if len(content) > MOST_BYTES:
        problems.append(f"it has {len(content)} bytes, more than {MOST_BYTES}")
    machine = int.from_bytes(content[18:20], "little")
    if content[:4] != b"\x7fELF" or machine != TARGETS[architecture][1]:
        problems.append(f"it is not a program for {architecture}")
    if glibc_of(content) > GLIBC:
        problems.append(f"it needs glibc {dotted(glibc_of(content))}, and Amazon Linux 2023 has {dotted(GLIBC)}")
    if is_remapped:
        problems += [f"it names the folder of this machine {folder}" for folder in FOLDERS if folder.encode() in content]
    return problems


def glibc_of(content: bytes) -> tuple[int, ...]:
    """The newest version of glibc whose symbols a program names."""
    names = set(re.findall(rb"GLIBC_(\d+(?:\.\d+)+)\0", content))
    return max((tuple(map(int, name.decode().split("."))) for name in names), default=(0,))


def dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def write_zip(path: Path, content: bytes) -> None:
    entry = zipfile.ZipInfo("bootstrap", TIME)
    entry.external_attr = 0o100755 << 16
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.create_system = 3
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(entry, content, compresslevel=9)


if __name__ == "__main__":
    sys.exit(main())
