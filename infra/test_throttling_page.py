"""What docs/THROTTLING_DYNAMODB.md shows is what runs, and the tests that it names exist."""

import re
import tomllib
import unittest

import yaml
from start_benchmark import ROOT

PAGE = (ROOT / "docs/THROTTLING_DYNAMODB.md").read_text(encoding="utf-8")
EXAMPLES = ROOT / "infra/engine-examples"
TESTS = ("shared/limits/tests", "local/src/dynamodb/endpoint/tests")


class ThrottlingPage(unittest.TestCase):
    def test_its_blocks_are_parts_of_the_examples(self):
        blocks = re.findall(r"^```(python|js)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
        self.assertEqual(len(blocks), 3)
        files = {"python": "test_hot_partition.py", "js": "container.setup.mjs"}
        for language, block in blocks:
            self.assertIn(block, (EXAMPLES / files[language]).read_text(encoding="utf-8"))

    def test_its_step_has_inputs_of_the_action(self):
        (step,) = yaml.safe_load(re.search(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)[1])
        action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
        self.assertLessEqual(step["with"].keys(), action["inputs"].keys())

    def test_it_names_the_files_of_this_version(self):
        version = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
        self.assertEqual(set(re.findall(r"[-:v](\d+\.\d+\.\d+)\b", PAGE.replace("127.0.0.1", ""))), {version})

    def test_it_names_tests_that_exist(self):
        there = "".join(file.read_text(encoding="utf-8") for folder in TESTS for file in (ROOT / folder).glob("*.rs"))
        self.assertTrue(all(f"`{folder}`" in PAGE for folder in TESTS))
        named = [name for row in PAGE.splitlines() if row.startswith("|") for name in re.findall(r"`([a-z_]{20,})`", row)]
        self.assertGreater(len(named), 8)
        for name in named:
            self.assertIn(f"fn {name}(", there)


if __name__ == "__main__":
    unittest.main()
