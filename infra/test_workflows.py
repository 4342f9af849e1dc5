"""What must hold for the workflows on GitHub."""

import json
import os
import re
import subprocess
import unittest

import yaml
from start_benchmark import ROOT

WORKFLOWS = {file.name: yaml.safe_load(file.read_text(encoding="utf-8")) for file in (ROOT / ".github/workflows").glob("*.yml")}
JOBS = {f"{name}: {job}": body for name, workflow in WORKFLOWS.items() for job, body in workflow["jobs"].items()}
# What runs code of dependencies, or lets one workflow put files into another.
BUILDS = re.compile(r"sam build|cargo |rustup|rust-cache|actions/cache|package\.py|\.ci/(run|nightly|book|tool)")


class Workflows(unittest.TestCase):
    def test_regression_actions_floated_by_their_major_version(self):
        for name in WORKFLOWS:
            for uses in re.findall(r"uses: (.+)", (ROOT / ".github/workflows" / name).read_text(encoding="utf-8")):
                # The comment is what tells people, and tools that move versions, which one it is.
                self.assertRegex(uses, r"^(\./|[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$)", name)

    def test_regression_what_was_built_could_ask_for_credentials(self):
        may = {job for job, body in JOBS.items() if body.get("permissions", {}).get("id-token") == "write"}
        self.assertEqual(may, {"deploy.yml: deploy", "pages.yml: publish", "release.yml: publish"})
        for name, workflow in WORKFLOWS.items():
            # What a job does not say it has from here.
            self.assertEqual(workflow["permissions"], {"contents": "read"}, name)
        for job in may:
            self.assertIsNone(BUILDS.search(json.dumps(JOBS[job]["steps"])), job)
            self.assertIn("environment", JOBS[job])

    def test_what_is_deployed_is_what_was_built(self):
        build, deploy = JOBS["deploy.yml: build"], JOBS["deploy.yml: deploy"]
        self.assertEqual(deploy["needs"], "build")
        self.assertIn("sha256sum --check", json.dumps(deploy["steps"]))
        self.assertIn("sha256", build["outputs"])
        self.assertNotIn("rust-cache", json.dumps(build["steps"]))

    def test_every_job_ends_by_itself(self):
        for job, body in JOBS.items():
            self.assertTrue("timeout-minutes" in body or "uses" in body, job)

    def test_regression_parts_of_the_nightly_run_were_in_no_job(self):
        parts = re.findall(r'^part "([^" ]+)', (ROOT / ".ci/nightly").read_text(encoding="utf-8"), re.MULTILINE)
        jobs = JOBS["nightly.yml: part"]["strategy"]["matrix"]["include"]
        self.assertEqual(sorted(parts), sorted(part for job in jobs for part in job["parts"].split()))

    def test_regression_a_word_that_is_no_part_of_the_nightly_run_passed(self):
        ran = subprocess.run([ROOT / ".ci/nightly"], env=os.environ | {"PARTS": "Nothing"}, capture_output=True, text=True, check=False)
        self.assertEqual(ran.returncode, 1, ran.stdout)
        self.assertIn("Nothing", ran.stderr)

    def test_each_part_of_a_change_has_a_job(self):
        parts = set(re.findall(r'section (\w+) "', (ROOT / ".ci/run").read_text(encoding="utf-8")))
        jobs = {job["part"] for job in JOBS["ci.yml: part"]["strategy"]["matrix"]["include"]}
        # In place of the tests it has nextest.
        self.assertEqual(parts - {"tests"}, jobs | {"format"})

    def test_regression_a_check_was_skipped_on_github_and_passed(self):
        scripts = [ROOT / ".ci/run", *(ROOT / "infra").rglob("*.py")]
        text = "\n".join(script.read_text(encoding="utf-8") for script in scripts if "node_modules" not in script.parts)
        # `[ "${DYNASHARD_AUDIT:-}" != required ]`, and the same in Python.
        switches = set(re.findall(r'(DYNASHARD_\w+)(?::-\}"|"\)) [!=]=? "?required', text))
        required = {
            name
            for job in ("ci.yml: format", "ci.yml: part")
            for step in JOBS[job]["steps"]
            for name, value in step.get("env", {}).items()
            if value == "required"
        }
        self.assertIn("DYNASHARD_BROWSER", switches)
        self.assertEqual(switches, required)

    def test_regression_macos_and_windows_were_compiled_for_behind_the_tag(self):
        released = {job["runner"] for job in JOBS["release.yml: programs"]["strategy"]["matrix"]["include"]}
        compiles = JOBS["ci.yml: compiles"]
        self.assertEqual(set(compiles["strategy"]["matrix"]["runner"]), {runner for runner in released if not runner.startswith("ubuntu")})
        self.assertIn("cargo check --locked -p dynashard-cli", json.dumps(compiles["steps"]))

    def test_the_action_hands_its_inputs_over_as_variables(self):
        action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
        script = (ROOT / "infra/start-engine.sh").read_text(encoding="utf-8")
        (step,) = action["runs"]["steps"]
        # What somebody else may have written is never a part of a script.
        self.assertNotIn("${{", step["run"])
        self.assertIn("infra/start-engine.sh", step["run"])
        self.assertEqual(set(re.findall(r"inputs\.(\w+)", json.dumps(step["env"]))), set(action["inputs"]))
        self.assertEqual(set(re.findall(r"^#   ([A-Z]+) ", script, re.MULTILINE)), set(step["env"]))
        told = set(re.findall(r'"(\w+)=\$\w+', script.rsplit("GITHUB_OUTPUT", 1)[0].rsplit("printf", 1)[1]))
        self.assertEqual(told, set(action["outputs"]))


if __name__ == "__main__":
    unittest.main()
