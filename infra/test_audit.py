"""An audit that could not be made must not pass for one that found nothing."""

import json
import unittest

from audit import of_npm, of_pip


class Reports(unittest.TestCase):
    def test_what_is_no_report_is_no_clean_audit(self):
        for text in ("", "Traceback", "[]", "{}", json.dumps({"message": "request failed", "error": {"code": "ENOTFOUND"}})):
            self.assertIsNone(of_pip(text), text)
            self.assertIsNone(of_npm(text), text)
        skipped = {"dependencies": [{"name": "a", "skip_reason": "not found on the index"}]}
        self.assertIsNone(of_pip(json.dumps(skipped)))

    def test_advisories_are_named(self):
        package = {"name": "a", "version": "1.0", "vulns": [{"id": "PYSEC-1", "fix_versions": []}]}
        self.assertEqual(of_pip(json.dumps({"dependencies": [package, package | {"vulns": []}]})), ["a 1.0: PYSEC-1"])
        self.assertEqual(of_npm(json.dumps({"vulnerabilities": {"b": {"severity": "high"}}})), ["b: high"])
        self.assertEqual((of_pip('{"dependencies": []}'), of_npm('{"vulnerabilities": {}}')), ([], []))


if __name__ == "__main__":
    unittest.main()
