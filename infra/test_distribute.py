"""Installs `dynashard` from each of the forms that infra/distribute.py makes, with a program that stands in for it.

    python -m unittest discover --start-directory infra

Beside Python that takes npm, for the formula Ruby, and for the image ziglang and the right to change the root.
"""

import hashlib
import io
import json
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import unittest
import zipfile
from pathlib import Path

import distribute

VERSION = "1.2.3"
URL = "https://example.com/v1.2.3"
TARGETS = ["aarch64-unknown-linux-musl", "x86_64-pc-windows-msvc", "x86_64-unknown-linux-musl"]
MACHINE = {"x86_64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}[platform.machine()]
OF_THIS_MACHINE = f"{MACHINE}-unknown-linux-musl"

CHROOT = shutil.which("chroot", path=os.pathsep.join([os.environ["PATH"], "/usr/sbin"]))
# Whoever may not change the root by himself is one who may ask to.
SUDO = [] if os.geteuid() == 0 else ["sudo", "--non-interactive"]
MAY_CHANGE_ROOT = CHROOT and (not SUDO or shutil.which("sudo") and subprocess.run([*SUDO, "true"], capture_output=True, check=False).returncode == 0)

# Says its version, and what lies beside it, as the command finds it.
PROGRAM = """#!/bin/sh
case "$1" in
  --version) echo "dynashard 1.2.3";;
  completions) echo "completions of $2";;
  man) echo page > "$2/dynashard.1";;
  *) here="$(cd "$(dirname "$(readlink -f "$0")")" && pwd)"; ls "$here/../share/dynashard/functions"; exit 7;;
esac
"""


def distributed(out: Path) -> list[str]:
    programs = {}
    for target in TARGETS:
        folder = out / "built" / target
        folder.mkdir(parents=True)
        for name in (distribute.COMMAND, *distribute.FUNCTIONS, distribute.EXTENSION):
            file = folder / distribute.program(name, target)
            # This machine runs none of Windows.
            file.write_text("MZ" if distribute.is_windows(target) else PROGRAM)
            file.chmod(0o755)
        programs[target] = folder
    return distribute.distribute(programs, VERSION, URL, out)


class ADistribution(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.out = Path(folder.name)
        cls.names = distributed(cls.out)

    def assert_installed(self, command: Path):
        said = subprocess.run([command, "--version"], capture_output=True, text=True, check=True).stdout
        self.assertEqual(said, "dynashard 1.2.3\n")
        found = subprocess.run([command, "demo"], capture_output=True, text=True, check=False)
        self.assertEqual(found.stdout.split(), distribute.FUNCTIONS, "it finds its functions")
        self.assertEqual(found.returncode, 7, "its exit status is that of the program")

    def test_the_layer_holds_the_extension_by_the_name_that_it_registers_by(self):
        for architecture in ("arm64", "x86_64"):
            with zipfile.ZipFile(self.out / f"dynashard-layer-1.2.3-{architecture}.zip") as layer:
                (entry,) = layer.infolist()
            self.assertEqual((entry.filename, entry.external_attr >> 16 & 0o111), ("extensions/dynashard", 0o111))

    def test_has_the_same_bytes_each_time(self):
        with tempfile.TemporaryDirectory() as folder:
            again = Path(folder)
            self.assertEqual(distributed(again), self.names)
            for name in self.names:
                self.assertEqual((again / name).read_bytes(), (self.out / name).read_bytes(), name)
        sums = dict(line.split("  ")[::-1] for line in (self.out / "SHA256SUMS").read_text().splitlines())
        self.assertEqual(sorted([*sums, "SHA256SUMS"]), self.names)

    def test_is_installed_from_an_archive(self):
        with tempfile.TemporaryDirectory() as folder, tarfile.open(self.out / f"dynashard-{VERSION}-{OF_THIS_MACHINE}.tar.gz") as archive:
            archive.extractall(folder, filter="data")
            prefix = Path(folder) / f"dynashard-{VERSION}-{OF_THIS_MACHINE}"
            self.assert_installed(prefix / "bin/dynashard")
            for place in ("share/dynashard/template.yaml", "share/man/man1/dynashard.1", *distribute.COMPLETIONS.values()):
                self.assertTrue((prefix / place).is_file(), place)

    def test_has_the_program_where_cargo_binstall_looks_for_it(self):
        told = tomllib.loads((distribute.ROOT / "cli/Cargo.toml").read_text())["package"]["metadata"]["binstall"]
        for target in TARGETS:
            is_windows = distribute.is_windows(target)
            suffix = ".zip" if told.get("overrides", {}).get(target, told)["pkg-fmt"] == "zip" else ".tar.gz"
            values = {"{ repo }": "REPO", "{ version }": VERSION, "{ target }": target, "{ bin }": "dynashard",
                      "{ binary-ext }": ".exe" if is_windows else "", "{ archive-suffix }": suffix}
            url, place = told["pkg-url"], told["bin-dir"]
            for name, value in values.items():
                url, place = url.replace(name, value), place.replace(name, value)
            archive = self.out / url.removeprefix(f"REPO/releases/download/v{VERSION}/")
            opened = zipfile.ZipFile(archive) if is_windows else tarfile.open(archive)
            with opened:
                self.assertIn(place, opened.namelist() if is_windows else opened.getnames())

    def test_holds_what_windows_calls_programs(self):
        places = ["bin/dynashard.exe", *(f"share/dynashard/functions/{name}.exe" for name in distribute.FUNCTIONS), "share/dynashard/template.yaml"]
        with zipfile.ZipFile(self.out / f"dynashard-{VERSION}-x86_64-pc-windows-msvc.zip") as archive:
            names = {name.split("/", 1)[1] for name in archive.namelist()}
        self.assertLessEqual(set(places), names)
        with tarfile.open(self.out / f"dynashard-win32-x64-{VERSION}.tgz") as package:
            self.assertLessEqual({f"package/{place}" for place in places}, set(package.getnames()))

    def test_is_installed_by_pip(self):
        wheel = self.out / f"dynashard-{VERSION}-py3-none-{distribute.TARGETS[OF_THIS_MACHINE][0]}.whl"
        with tempfile.TemporaryDirectory() as folder:
            words = ["install", "--quiet", "--no-index", "--no-deps", "--ignore-installed", "--prefix", folder, str(wheel)]
            subprocess.run([sys.executable, "-m", "pip", "--disable-pip-version-check", *words], check=True)
            self.assert_installed(Path(folder) / "bin/dynashard")

    def test_is_installed_by_npm(self):
        of_platform = "-".join(distribute.TARGETS[OF_THIS_MACHINE][1])
        packages = [str(self.out / name) for name in (f"dynashard-{of_platform}-{VERSION}.tgz", f"dynashard-{VERSION}.tgz")]
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(["npm", "install", "--silent", "--offline", "--no-audit", "--no-fund", *packages], cwd=folder, check=True)
            self.assert_installed(Path(folder) / "node_modules/.bin/dynashard")
            # As where npm is told to omit optional packages.
            shutil.rmtree(Path(folder) / f"node_modules/dynashard-{of_platform}")
            command = [Path(folder) / "node_modules/.bin/dynashard", "--version"]
            alone = subprocess.run(command, capture_output=True, text=True, check=False)
            self.assertEqual(alone.returncode, 1)
            self.assertIn(f"package dynashard-{of_platform} is not installed", alone.stderr)

    def test_has_a_formula_of_what_the_archives_are(self):
        text = (self.out / "dynashard.rb").read_text()
        for target in (target for target in TARGETS if not distribute.is_windows(target)):
            name = f"dynashard-{VERSION}-{target}.tar.gz"
            digest = hashlib.sha256((self.out / name).read_bytes()).hexdigest()
            self.assertIn(f'url "{URL}/{name}"\n      sha256 "{digest}"', text)
        self.assertNotIn("on_macos", text)
        self.assertNotIn("windows", text)

    @unittest.skipUnless(shutil.which("ruby"), "a formula is Ruby, which is not installed")
    def test_is_installed_by_its_formula(self):
        with tempfile.TemporaryDirectory() as folder:
            words = ["ruby", distribute.ROOT / "infra/formula.rb", self.out / "dynashard.rb", self.out, folder]
            subprocess.run(words, check=True)
            self.assert_installed(Path(folder) / "bin/dynashard")
            (Path(folder) / f"dynashard-{VERSION}-{OF_THIS_MACHINE}.tar.gz").write_text("something else")
            damaged = subprocess.run([*words[:3], folder, folder], capture_output=True, text=True, check=False)
            self.assertNotEqual(damaged.returncode, 0)
            self.assertIn("has another digest", damaged.stderr)

    @unittest.skipUnless(MAY_CHANGE_ROOT, "only root can have a program run where nothing else is")
    def test_runs_in_its_image_where_nothing_else_is(self):
        # No image has a shell to run a script, so a program without libraries stands in here.
        says = f'puts("dynashard {VERSION}"); return access(getenv("SSL_CERT_FILE"), R_OK) || access(getenv("HOME"), W_OK) || !getuid();'
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)
            (folder / "dynashard.c").write_text(f"#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\nint main() {{ {says} }}\n")
            compiler = [sys.executable, "-m", "ziglang", "cc", "-target", f"{MACHINE}-linux-musl", "-static"]
            subprocess.run([*compiler, "dynashard.c", "-o", "dynashard"], cwd=folder, check=True)
            files = {"usr/local/bin/dynashard": ((folder / "dynashard").read_bytes(), True)}
            _, content = distribute.image({distribute.OCI_ARCHITECTURES[OF_THIS_MACHINE]: files}, VERSION)
            with tarfile.open(fileobj=io.BytesIO(content)) as archive:
                (image,) = json.load(archive.extractfile("manifest.json"))
                config = json.load(archive.extractfile(image["Config"]))["config"]
                for name in image["Layers"]:
                    with tarfile.open(fileobj=archive.extractfile(name)) as layer:
                        layer.extractall(folder / "root", filter="fully_trusted")
            enter = ["env", "--ignore-environment", *config["Env"], CHROOT, "--userspec", config["User"], folder / "root"]
            ran = subprocess.run([*SUDO, *enter, *config["Entrypoint"], "--version"], capture_output=True, text=True, check=False)
            self.assertEqual((ran.returncode, ran.stdout), (0, f"dynashard {VERSION}\n"), ran.stderr)

    def test_has_an_image_whose_digests_are_right(self):
        with tarfile.open(self.out / f"dynashard-{VERSION}-oci.tar") as archive:
            content = {entry.name: archive.extractfile(entry).read() for entry in archive}
        for name in (name for name in content if name.startswith("blobs/")):
            self.assertEqual(hashlib.sha256(content[name]).hexdigest(), name.rsplit("/", 1)[1])

        def blob(of: dict) -> bytes:
            found = content[f"blobs/{of['digest'].replace(':', '/')}"]
            self.assertEqual(len(found), of["size"])
            return found

        named, *each = json.loads(content["index.json"])["manifests"]
        index = json.loads(blob(named))
        # In Docker's store of containerd they have the names that `manifest.json` gives them in its own.
        names = [of["annotations"]["io.containerd.image.name"].removeprefix("docker.io/library/") for of in each]
        self.assertEqual(names, [f"dynashard:{VERSION}-amd64", f"dynashard:{VERSION}-arm64"])
        self.assertEqual([one["platform"]["architecture"] for one in index["manifests"]], ["amd64", "arm64"])
        for one in index["manifests"]:
            manifest = json.loads(blob(one))
            config, layer = json.loads(blob(manifest["config"])), blob(manifest["layers"][0])
            with tarfile.open(fileobj=io.BytesIO(layer)) as files:
                self.assertTrue(files.getmember("usr/local/bin/dynashard").mode & 0o111)
                self.assertTrue(files.getmember("tmp").isdir())
                self.assertIn("etc/ssl/cert.pem", files.getnames())
            self.assertEqual(config["config"]["Entrypoint"], ["/usr/local/bin/dynashard"])
        # By these Docker finds the same, without OCI's index.
        of_docker = json.loads(content["manifest.json"])
        self.assertEqual([one["RepoTags"] for one in of_docker], [[f"dynashard:{VERSION}-amd64"], [f"dynashard:{VERSION}-arm64"]])
        for one, manifest in zip(of_docker, (json.loads(blob(one)) for one in index["manifests"]), strict=True):
            digests = [of["digest"] for of in (manifest["config"], *manifest["layers"])]
            self.assertEqual([one["Config"], *one["Layers"]], [f"blobs/{digest.replace(':', '/')}" for digest in digests])


if __name__ == "__main__":
    unittest.main()
