"""What must hold between the requirements of the Python tools and their hashes."""

import re
import unittest

from start_benchmark import ROOT

PIN = re.compile(r"^([\w.-]+)==([\w.]+)", re.MULTILINE)


def pins(text: str) -> set[tuple[str, str]]:
    return {(re.sub(r"[-_.]+", "-", name).lower(), version) for name, version in PIN.findall(text)}


class Locked(unittest.TestCase):
    def test_regression_python_tools_were_taken_without_hashes(self):
        requirements = [*ROOT.glob("infra/requirements*.txt"), *(ROOT / "infra" / tests / "requirements.txt" for tests in ("api-tests", "engine-examples", "sdk-sessions"))]
        self.assertGreater(len(requirements), 3)
        for file in requirements:
            locked = ROOT / "infra/locked" / str(file.relative_to(ROOT / "infra")).replace("/", "-")
            text = locked.read_text(encoding="utf-8")
            self.assertEqual(pins(text), pins(file.read_text(encoding="utf-8")), f"{locked.name}: run .ci/lock")
            for package in re.split(r"^(?=[\w.-]+==)", text, flags=re.MULTILINE):
                if package.strip():
                    self.assertRegex(package, r"--hash=sha256:[0-9a-f]{64}")
        self.assertIn("--require-hashes", (ROOT / ".ci/venv").read_text(encoding="utf-8"))


if __name__ == "__main__":
    unittest.main()
