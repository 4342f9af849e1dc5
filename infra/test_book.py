"""The book's pages lead somewhere, and what programs read of it has the form that they expect."""

import re
import tempfile
import unittest
from pathlib import Path

from book import ROOT, first_sentence, pages, site

PAGES = list(pages())
URL = "https://example.org/dynashard/"


class Book(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.book = Path(folder.name)
        for page in PAGES:
            (cls.book / page.name).with_suffix(".html").touch()
        site(cls.book, URL)

    def test_llms_txt_lists_every_page_with_its_first_sentence(self):
        lines = (self.book / "llms.txt").read_text(encoding="utf-8").splitlines()
        self.assertRegex(lines[0], r"^# \S")
        self.assertRegex(lines[2], r"^> \S")
        parts = [line[3:] for line in lines if line.startswith("## ")]
        self.assertEqual(parts, list(dict.fromkeys(page.part for page in PAGES if page.part)))
        items = [re.fullmatch(rf"- \[(.+)\]\({URL}(.+\.md)\): (.+[.?:])", line) for line in lines[3:] if line and not line.startswith("## ")]
        self.assertEqual([(item[1], item[2]) for item in items], [(page.title, page.name) for page in PAGES])
        for item in items:
            self.assertTrue((self.book / item[2]).is_file())
            self.assertNotRegex(item[3], r"\]\(|\*\*|^[#|!-]")

    def test_a_first_sentence_is_prose(self):
        page = "# A page\n\n![A picture. Of it](a.svg)\n\n```sh\nrun. It\n```\n\n| a | b. |\n\n**Bold** is [a\nlink](B.md) to v1.2, e.g. this. Another.\n"
        self.assertEqual(first_sentence(page), "Bold is a link to v1.2, e.g. this.")

    def test_llms_full_txt_has_every_page(self):
        text = (self.book / "llms-full.txt").read_text(encoding="utf-8")
        places = [text.index(page.text.strip()) for page in PAGES]
        self.assertEqual(places, sorted(places))

    def test_a_book_that_was_not_built_is_refused(self):
        with tempfile.TemporaryDirectory() as folder, self.assertRaisesRegex(SystemExit, "has no page index.md: build it"):
            site(Path(folder), "")

    def test_regression_a_picture_of_the_project_page_was_not_in_the_book(self):
        # Beside the pages mdbook takes whatever lies in docs/.
        names = {page.name for page in PAGES} | {file.name for file in (ROOT / "docs").iterdir() if file.suffix != ".md"}
        pictures = set()
        for page in PAGES:
            prose = re.sub(r"^ *```.*?^ *```$", "", page.text, flags=re.MULTILINE | re.DOTALL)
            for is_picture, target in re.findall(r"(!?)\[[^\]]*\]\((?!https?:|#|mailto:)([^)#\s]+)(?:#[^)]*)?\)", prose):
                self.assertIn(target, names, page.name)
                pictures |= {(page.name, target)} if is_picture else set()
        self.assertLessEqual({("index.md", "demo.svg"), ("PROJECT.md", "demo.svg")}, pictures)


if __name__ == "__main__":
    unittest.main()
