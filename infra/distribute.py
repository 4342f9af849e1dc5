#!/usr/bin/env python3
"""Make what `dynashard` is installed from, out of built programs: archives, a wheel and an npm package for each target, a
Homebrew formula, an OCI image, and Lambda layers with the endpoint.

    python infra/distribute.py --target x86_64-unknown-linux-musl --target aarch64-unknown-linux-musl --url URL [--out DIR]
    python infra/distribute.py --target x86_64-unknown-linux-musl --built target --url URL

Each holds the command with the template, the four functions, manual pages and completions beside it, so that `dynashard demo`
and `dynashard local` compile nothing. The same programs give the same bytes. --built takes them from
DIR/TARGET/release; without it cargo builds them here, for musl by the C compiler of ziglang, and links nothing of this machine.
URL is where the archives of this version will lie, which the formula names.
"""

import argparse
import base64
import csv
import gzip
import hashlib
import io
import json
import os
import shutil
import stat
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SUMMARY = "Spreads a hot DynamoDB partition key over shards, and reads it back in order."
LICENCE = "MIT OR Apache-2.0"
COMMAND = "dynashard"
FUNCTIONS = [f"dynashard-{name}" for name in ("read", "rebalance", "scale", "write")]
EXTENSION = "dynashard-extension"
# Lambda fetches a layer before the first event of an environment, so a larger one begins later.
MOST_LAYER_BYTES = 6_000_000
COMPLETIONS = {
    "bash": "share/bash-completion/completions/dynashard",
    "zsh": "share/zsh/site-functions/_dynashard",
    "fish": "share/fish/vendor_completions.d/dynashard.fish",
}

# By Rust's target: the tags of a wheel, npm's platform, and the block of a Homebrew formula. A program for musl is static, so it
# runs beside any C library.
TARGETS = {
    "x86_64-unknown-linux-musl": ("manylinux2014_x86_64.musllinux_1_1_x86_64", ("linux", "x64"), ("linux", "intel")),
    "aarch64-unknown-linux-musl": ("manylinux2014_aarch64.musllinux_1_1_aarch64", ("linux", "arm64"), ("linux", "arm")),
    "x86_64-apple-darwin": ("macosx_11_0_x86_64", ("darwin", "x64"), ("macos", "intel")),
    "aarch64-apple-darwin": ("macosx_11_0_arm64", ("darwin", "arm64"), ("macos", "arm")),
    # Homebrew is not for Windows.
    "x86_64-pc-windows-msvc": ("win_amd64", ("win32", "x64"), ("windows", "")),
}
# By which Lambda knows the processors of a layer.
LAMBDA_ARCHITECTURES = {"x86_64-unknown-linux-musl": "x86_64", "aarch64-unknown-linux-musl": "arm64"}
OCI_ARCHITECTURES = {"x86_64-unknown-linux-musl": "amd64", "aarch64-unknown-linux-musl": "arm64"}
# The first moment that a zip can hold.
TIME = (1980, 1, 1, 0, 0, 0)

# The files of an installation below its prefix: each with its content, and whether it is a program.
Files = dict[str, tuple[bytes, bool]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", action="append", choices=sorted(TARGETS), required=True)
    parser.add_argument("--built", type=Path, help="take the programs of TARGET/release below this folder, and build none")
    parser.add_argument("--build-only", action="store_true", help="build the programs into target/TARGET/release, and make nothing of them")
    parser.add_argument("--url", help="where the archives of this version will lie")
    parser.add_argument("--out", type=Path, default=ROOT / "target/distribution", help="where all is written")
    options = parser.parse_args()
    if options.build_only:
        for target in options.target:
            print(build(target))
        return 0
    if options.url is None:
        parser.error("--url is needed, unless --build-only is given")
    version = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    options.out.mkdir(parents=True, exist_ok=True)
    programs = {target: options.built / target / "release" if options.built else build(target) for target in sorted(set(options.target))}
    for name in distribute(programs, version, options.url, options.out):
        digest = hashlib.sha256((options.out / name).read_bytes()).hexdigest()
        print(f"{name}: {(options.out / name).stat().st_size / 1e6:.1f} MB, sha256 {digest}")
    return 0


def distribute(programs: dict[str, Path], version: str, url: str, out: Path) -> list[str]:
    """Writes everything for the programs of these folders, by target, and SHA256SUMS. Returns the names."""
    commands = (folder / program(COMMAND, target) for target, folder in programs.items())
    shared = shared_files(next(command for command in commands if runs(command)))
    written: dict[str, bytes] = {}
    archives, layers = {}, {}
    for target, folder in programs.items():
        files = files_of(folder, target) | shared
        name = f"{COMMAND}-{version}-{target}"
        if is_windows(target):
            archives[target] = (f"{name}.zip", zip_of({f"{name}/{place}": of for place, of in files.items()}))
        else:
            archives[target] = (f"{name}.tar.gz", tarball(files, f"{name}/"))
        written |= dict([archives[target], wheel(files, version, target), npm_package(files, version, target)])
        if target in OCI_ARCHITECTURES:
            layers[OCI_ARCHITECTURES[target]] = {f"usr/local/{place}": of for place, of in files.items()}
            written |= dict([lambda_layer(folder / EXTENSION, version, target)])
    written |= dict([npm_launcher(version, list(programs)), formula(archives, version, url)])
    if layers:
        written |= dict([image(layers, version)])
    for name, content in written.items():
        (out / name).write_bytes(content)
    sums = "".join(f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in sorted(written.items()))
    (out / "SHA256SUMS").write_text(sums)
    return sorted([*written, "SHA256SUMS"])


def build(target: str) -> Path:
    """Builds the command and the functions for a target, and returns their folder."""
    # The names of functions are a quarter of a program, and a layer is fetched before an environment starts.
    environment = os.environ | {"CARGO_PROFILE_RELEASE_STRIP": "symbols", "CARGO_PROFILE_DISTRIBUTION_STRIP": "symbols"}
    if target.endswith("-linux-musl"):
        zig = f"{target.split('-')[0]}-linux-musl"
        tools = Path(tempfile.mkdtemp(prefix="dynashard-tools-"))
        for tool, words in (("cc", f"cc -target {zig}"), ("ar", "ar")):
            # The crate that compiles C names Rust's target, which zig does not know.
            script = f'#!/bin/bash\nwords=(); for word in "$@"; do [[ "$word" == --target=* ]] || words+=("$word"); done\n' \
                     f'exec "{sys.executable}" -m ziglang {words} "${{words[@]}}"\n'
            (tools / tool).write_text(script)
            (tools / tool).chmod(0o755)
        name = target.replace("-", "_")
        environment |= {f"CC_{name}": str(tools / "cc"), f"AR_{name}": str(tools / "ar"),
                        f"CARGO_TARGET_{name.upper()}_LINKER": "rust-lld"}
    # Lambda alone runs the extension.
    others = [*FUNCTIONS, *([EXTENSION] if target in LAMBDA_ARCHITECTURES else [])]
    folders = ROOT / "target" / target
    # The command alone is optimised for speed: Cargo.toml says why.
    for profile, packages in (("release", others), ("distribution", [f"{COMMAND}-cli"])):
        words = ["--profile", profile, "--locked", "--target", target, *(word for package in packages for word in ("--package", package))]
        subprocess.run(["cargo", "build", *words], cwd=ROOT, env=environment, check=True)
    shutil.copy2(folders / "distribution" / program(COMMAND, target), folders / "release")
    return folders / "release"


def runs(command: Path) -> bool:
    """Tells whether this machine can run a program."""
    try:
        return subprocess.run([command, "--version"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def is_windows(target: str) -> bool:
    return "windows" in target


def program(name: str, target: str) -> str:
    """The name of a program's file."""
    return f"{name}.exe" if is_windows(target) else name


def files_of(folder: Path, target: str) -> Files:
    """The programs of a folder, where an installation has them."""
    places = {f"bin/{program(COMMAND, target)}": COMMAND}
    places |= {f"share/dynashard/functions/{program(name, target)}": name for name in FUNCTIONS}
    return {place: ((folder / program(name, target)).read_bytes(), True) for place, name in places.items()}


def shared_files(command: Path) -> Files:
    """What is the same for all targets, some of it written by the command itself."""
    texts = {"share/dynashard/template.yaml": "template.yaml", "share/doc/dynashard/README.md": "README.md",
             "share/doc/dynashard/LICENSE-MIT": "LICENSE-MIT", "share/doc/dynashard/LICENSE-APACHE": "LICENSE-APACHE"}
    files = {place: (ROOT / name).read_bytes() for place, name in texts.items()}
    for shell, place in COMPLETIONS.items():
        files[place] = subprocess.run([command, "completions", shell], capture_output=True, check=True).stdout
    with tempfile.TemporaryDirectory() as pages:
        subprocess.run([command, "man", pages], check=True)
        files |= {f"share/man/man1/{page.name}": page.read_bytes() for page in Path(pages).iterdir()}
    return {place: (content, False) for place, content in sorted(files.items())}


def tarball(files: Files, prefix: str = "") -> bytes:
    return zipped(tar(files, prefix))


def tar(files: Files, prefix: str = "", folders: tuple[str, ...] = ()) -> bytes:
    """A tar archive without times, owners or modes of this machine. Of `folders` each is empty and for everybody."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for place in folders:
            entry = tarfile.TarInfo(prefix + place)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777
            archive.addfile(entry)
        for place, (content, is_program) in sorted(files.items()):
            entry = tarfile.TarInfo(prefix + place)
            entry.size, entry.mode = len(content), 0o755 if is_program else 0o644
            archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def zipped(content: bytes) -> bytes:
    return gzip.compress(content, compresslevel=9, mtime=0)


def wheel(files: Files, version: str, target: str) -> tuple[str, bytes]:
    """A wheel whose scripts and data pip puts below its prefix (PEP 427)."""
    tags = TARGETS[target][0]
    info, data = f"{COMMAND}-{version}.dist-info", f"{COMMAND}-{version}.data"
    names = "".join(f"Tag: py3-none-{tag}\n" for tag in tags.split("."))
    entries = {
        (f"{data}/scripts/{place.removeprefix('bin/')}" if place.startswith("bin/") else f"{data}/data/{place}"): of
        for place, of in files.items()
    } | {
        f"{info}/METADATA": (f"Metadata-Version: 2.4\nName: {COMMAND}\nVersion: {version}\nSummary: {SUMMARY}\n"
                             f"License-Expression: {LICENCE}\nRequires-Python: >=3.8\n".encode(), False),
        f"{info}/WHEEL": (f"Wheel-Version: 1.0\nGenerator: dynashard\nRoot-Is-Purelib: false\n{names}".encode(), False),
    }
    record = io.StringIO()
    rows = csv.writer(record, lineterminator="\n")
    for place, (content, _) in sorted(entries.items()):
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        rows.writerow([place, f"sha256={digest}", len(content)])
    rows.writerow([f"{info}/RECORD", "", ""])
    entries[f"{info}/RECORD"] = (record.getvalue().encode(), False)
    return f"{COMMAND}-{version}-py3-none-{tags}.whl", zip_of(entries)


def lambda_layer(extension: Path, version: str, target: str) -> tuple[str, bytes]:
    """A layer with the endpoint as an extension, which registers by the name of its file. It is static, so that it runs beside
    functions of any runtime."""
    content = zip_of({f"extensions/{COMMAND}": (extension.read_bytes(), True)})
    if len(content) > MOST_LAYER_BYTES:
        raise SystemExit(f"the layer for {target} has {len(content)} bytes, more than {MOST_LAYER_BYTES}")
    return f"{COMMAND}-layer-{version}-{LAMBDA_ARCHITECTURES[target]}.zip", content


def zip_of(files: Files) -> bytes:
    """A zip without times or owners of this machine."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for place, (content, is_program) in sorted(files.items()):
            entry = zipfile.ZipInfo(place, TIME)
            entry.create_system, entry.compress_type = 3, zipfile.ZIP_DEFLATED
            entry.external_attr = (stat.S_IFREG | (0o755 if is_program else 0o644)) << 16
            archive.writestr(entry, content)
    return packed.getvalue()


def npm_package(files: Files, version: str, target: str) -> tuple[str, bytes]:
    """The npm package of one platform, which npm installs on that alone."""
    system, processor = TARGETS[target][1]
    name = f"{COMMAND}-{system}-{processor}"
    manifest = {"name": name, "version": version, "description": SUMMARY, "license": LICENCE, "os": [system], "cpu": [processor]}
    return f"{name}-{version}.tgz", npm_tarball(files, manifest)


def npm_launcher(version: str, targets: list[str]) -> tuple[str, bytes]:
    """The npm package that people name. It starts the program of the package of their platform."""
    names = [f"{COMMAND}-{'-'.join(TARGETS[target][1])}" for target in targets]
    manifest = {
        "name": COMMAND, "version": version, "description": SUMMARY, "license": LICENCE, "engines": {"node": ">=16"},
        "bin": {COMMAND: "bin/dynashard.js"}, "optionalDependencies": {name: version for name in names},
    }
    script = (ROOT / "infra/npm-launcher.js").read_bytes()
    return f"{COMMAND}-{version}.tgz", npm_tarball({"bin/dynashard.js": (script, True)}, manifest)


def npm_tarball(files: Files, manifest: dict) -> bytes:
    text = json.dumps(manifest, indent=2).encode() + b"\n"
    return tarball(files | {"package.json": (text, False)}, "package/")


def formula(archives: dict[str, tuple[str, bytes]], version: str, url: str) -> tuple[str, bytes]:
    """The Homebrew formula of the archives that there are."""
    blocks = []
    for system in ("macos", "linux"):
        of_system = []
        for target, (name, content) in sorted(archives.items()):
            if TARGETS[target][2][0] == system:
                digest = hashlib.sha256(content).hexdigest()
                of_system.append(f"    on_{TARGETS[target][2][1]} do\n      url \"{url}/{name}\"\n      sha256 \"{digest}\"\n    end\n")
        if of_system:
            blocks.append(f"  on_{system} do\n{''.join(of_system)}  end\n")
    text = (
        f"class Dynashard < Formula\n  desc \"{SUMMARY.rstrip('.')}\"\n  version \"{version}\"\n"
        f"  license any_of: [\"MIT\", \"Apache-2.0\"]\n\n{''.join(blocks)}\n"
        "  def install\n    prefix.install Dir[\"*\"]\n  end\n\n"
        f"  test do\n    assert_match version.to_s, shell_output(\"#{{bin}}/{COMMAND} --version\")\n  end\nend\n"
    )
    return f"{COMMAND}.rb", text.encode()


def image(layers: dict[str, Files], version: str) -> tuple[str, bytes]:
    """An OCI image layout as a tar file that `docker load` takes, too, by its `manifest.json`. Each platform is one layer."""
    import certifi

    blobs: Files = {}

    def blob(content: bytes, kind: str) -> dict:
        digest = hashlib.sha256(content).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = (content, False)
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": f"sha256:{digest}", "size": len(content)}

    def encoded(value: dict) -> bytes:
        return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()

    def named(of: dict, tag: str) -> dict:
        # containerd, podman and Docker on containerd's store name an image by the second.
        name = {"org.opencontainers.image.ref.name": tag, "io.containerd.image.name": f"docker.io/library/{COMMAND}:{tag}"}
        return of | {"annotations": name}

    manifests, of_docker = [], []
    for architecture, files in sorted(layers.items()):
        # The image has nothing but the command, so it brings the authorities that AWS's certificates are of.
        certificates = {"etc/ssl/cert.pem": (Path(certifi.where()).read_bytes(), False)}
        layer = tar(files | certificates, folders=("tmp",))
        config = {
            "architecture": architecture, "os": "linux",
            "config": {
                "Entrypoint": [f"/usr/local/bin/{COMMAND}"], "User": "65532:65532", "WorkingDir": "/tmp",
                "Env": ["PATH=/usr/local/bin", "HOME=/tmp", "SSL_CERT_FILE=/etc/ssl/cert.pem"],
                "Labels": {"org.opencontainers.image.version": version, "org.opencontainers.image.licenses": LICENCE},
            },
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
        }
        manifest = {
            "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": blob(encoded(config), "config.v1+json"), "layers": [blob(zipped(layer), "layer.v1.tar+gzip")],
        }
        # What Docker's own store reads of such a file, which does not know OCI's layout.
        parts = [f"blobs/sha256/{of['digest'].removeprefix('sha256:')}" for of in (manifest["config"], *manifest["layers"])]
        of_docker.append({"Config": parts[0], "RepoTags": [f"{COMMAND}:{version}-{architecture}"], "Layers": parts[1:]})
        platform = {"architecture": architecture, "os": "linux"}
        manifests.append(blob(encoded(manifest), "manifest.v1+json") | {"platform": platform})
    index = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": manifests}
    # An image in Docker's own store is of one platform, so each platform has a name, which is the same in both stores.
    each = [named(of, f"{version}-{of['platform']['architecture']}") for of in manifests]
    whole = {"schemaVersion": 2, "manifests": [named(blob(encoded(index), "index.v1+json"), version), *each]}
    layout = {
        "oci-layout": (b'{"imageLayoutVersion":"1.0.0"}', False), "index.json": (encoded(whole), False),
        "manifest.json": (encoded(of_docker), False),
    }
    return f"{COMMAND}-{version}-oci.tar", tar(blobs | layout)


if __name__ == "__main__":
    sys.exit(main())
