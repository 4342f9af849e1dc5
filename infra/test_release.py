"""What a release is refused for, and what its files hold.

    python -m unittest discover --start-directory infra
"""

import json
import subprocess
import sys
import tempfile
import tomllib
import unittest
import zipfile
from pathlib import Path

import package
import release
import sbom

CARGO = '[workspace.package]\nversion = "1.2.3"\n'
TEMPLATE = "Metadata:\n  AWS::ServerlessRepo::Application:\n    SemanticVersion: 1.2.3\n"
CHANGELOG = """# Changelog

## [Unreleased]

## [1.2.3] - 2026-12-01

- What is new.

## [1.2.2] - 2026-11-01

- What was new.
"""


def program(*, machine: int = 0x3E, symbols: bytes = b"GLIBC_2.34\0GLIBC_2.3.4\0", size: int = 1_000) -> bytes:
    """The part of a program that is looked at."""
    header = b"\x7fELF" + bytes(14) + machine.to_bytes(2, "little") + symbols
    return header + bytes(size - len(header))


class AVersion(unittest.TestCase):
    def test_that_all_agree_on_has_the_notes_of_its_section(self):
        self.assertEqual(release.faults_of(CARGO, TEMPLATE, CHANGELOG, "v1.2.3"), [])
        self.assertEqual(release.notes_of(CHANGELOG, "1.2.3"), "- What is new.")
        self.assertEqual(release.notes_of(CHANGELOG, "1.2.2"), "- What was new.")

    def test_that_something_contradicts_is_refused(self):
        for cargo, template, changelog, tag, says in [
            (CARGO, TEMPLATE, CHANGELOG, "v1.2.4", "the tag is v1.2.4"),
            (CARGO, TEMPLATE, CHANGELOG, "1.2.3", "the tag is 1.2.3"),
            (CARGO, TEMPLATE.replace("1.2.3", "1.2.2"), CHANGELOG, "v1.2.3", "SemanticVersion 1.2.2"),
            (CARGO, "", CHANGELOG, None, "SemanticVersion None"),
            (CARGO, TEMPLATE, CHANGELOG.replace("1.2.3", "1.2.1"), "v1.2.3", "nothing of 1.2.3"),
            (CARGO, TEMPLATE, CHANGELOG.replace("- What is new.", ""), "v1.2.3", "nothing of 1.2.3"),
            (CARGO, TEMPLATE, CHANGELOG.replace(" - 2026-12-01", ""), "v1.2.3", "when 1.2.3 was released"),
            (CARGO, TEMPLATE, CHANGELOG.replace("[Unreleased]\n", "[Unreleased]\n\n- More.\n"), "v1.2.3", "under Unreleased"),
            (CARGO, TEMPLATE, "# Changelog\n", None, "says nothing of 1.2.3"),
        ]:
            with self.subTest(says):
                faults = release.faults_of(cargo, template, changelog, tag)
                self.assertTrue(any(says in fault for fault in faults), faults)


class ABootstrap(unittest.TestCase):
    def test_that_lambda_can_run_is_taken(self):
        self.assertEqual(package.check(program(), "x86_64"), [])
        self.assertEqual(package.check(program(machine=0xB7), "arm64"), [])

    def test_that_lambda_cannot_run_is_refused(self):
        for content, says in [
            (program(size=package.MOST_BYTES + 1), "more than"),
            (program(machine=0xB7), "not a program for x86_64"),
            (b"#!/bin/sh\n", "not a program for x86_64"),
            (program(symbols=b"GLIBC_2.34\0GLIBC_2.35\0"), "needs glibc 2.35, and Amazon Linux 2023 has 2.34"),
            (program(symbols=f"{package.ROOT}/functions/read/src/main.rs\0".encode()), "folder of this machine"),
        ]:
            with self.subTest(says):
                problems = package.check(content, "x86_64", is_remapped=True)
                self.assertEqual([says in problem for problem in problems], [True], problems)

    def test_is_zipped_with_no_time_owner_or_mode_of_this_machine(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "function.zip"
            package.write_zip(path, program())
            with zipfile.ZipFile(path) as archive:
                (entry,) = archive.infolist()
                self.assertEqual(archive.read(entry), program())
            self.assertEqual((entry.filename, entry.date_time, entry.extra), ("bootstrap", (1980, 1, 1, 0, 0, 0), b""))
            # Lambda runs it as another user.
            self.assertEqual((entry.create_system, entry.external_attr >> 16), (3, 0o100755))


class TheBillOfMaterials(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.text = sbom.bill()
        cls.bill = json.loads(cls.text)

    def test_is_valid_and_the_same_each_time(self):
        self.assertIsNone(sbom.fault_of(self.text))
        self.assertEqual(self.text, sbom.bill())
        self.assertIsNotNone(sbom.fault_of(self.text.replace('"components"', '"compounds"')))

    def test_names_what_is_deployed_and_nothing_else(self):
        names = {component["name"] for component in self.bill["components"]}
        self.assertLessEqual({"dynashard-read", "dynashard-core", "aws-sdk-dynamodb", "lambda_runtime", "rustls"}, names)
        # Tests, builds and the local stack.
        self.assertEqual(names & {"proptest", "insta", "clap", "dynoxide-rs", "dynashard-testkit", "cc", "syn", "windows-sys"}, set())

    def test_says_of_each_crate_whence_it_comes_and_under_what_licence(self):
        for component in self.bill["components"]:
            with self.subTest(component["name"]):
                self.assertTrue(component["licenses"])
                self.assertTrue(component["purl"].startswith(f"pkg:cargo/{component['name']}@{component['version']}"))
                if not component["name"].startswith("dynashard"):
                    self.assertEqual([digest["alg"] for digest in component["hashes"]], ["SHA-256"])
        manifest = tomllib.loads((release.ROOT / "Cargo.toml").read_text())
        self.assertEqual(self.bill["metadata"]["component"]["version"], manifest["workspace"]["package"]["version"])

    def test_regression_a_question_for_help_was_taken_for_the_name_of_a_file(self):
        with tempfile.TemporaryDirectory() as directory:
            script = Path(sbom.__file__).resolve()
            asked = subprocess.run([sys.executable, script, "--help"], cwd=directory, capture_output=True, text=True, check=True)
            self.assertIn("usage: ", asked.stdout)
            self.assertEqual(list(Path(directory).iterdir()), [])


if __name__ == "__main__":
    unittest.main()
