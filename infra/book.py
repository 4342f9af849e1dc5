"""The preprocessor of the book (book.toml): puts in the pages that stand outside of docs/, and turns links to them.

mdbook calls it with `supports RENDERER`, and else with the book as JSON on its standard input.

    python3 infra/book.py site target/book [URL]

adds to a book that was built what programs read: the pages as Markdown, llms.txt (https://llmstxt.org), which lists them with what
each is about, and llms-full.txt, which is all of them. URL is where the book will lie; without it links are relative.
"""

import json
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
# Page, its title, and its name in the book.
OUTSIDE = [
    ("ARCHITECTURE.md", "Architecture", "ARCHITECTURE.md"),
    ("CONTRIBUTING.md", "Contributing", "CONTRIBUTING.md"),
    ("events/README.md", "Events of the tests", "EVENTS.md"),
    ("data/README.md", "Data", "DATA.md"),
    ("CHANGELOG.md", "Changelog", "CHANGELOG.md"),
    ("README.md", "The project", "PROJECT.md"),
]
NAMES = {page: name for page, _, name in OUTSIDE}


def turned(text: str, folder: Path) -> str:
    """Return a page of this folder with its links as the book has them. What is not a page stays text."""

    def link(found: re.Match) -> str:
        is_image, label, target, anchor = found[1], found[2], found[3], found[4] or ""
        file = (ROOT / folder / target).resolve()
        page = str(file.relative_to(ROOT)) if file.is_relative_to(ROOT) else ""
        if page in NAMES:
            return f"[{label}]({NAMES[page]}{anchor})"
        if page.startswith("docs/"):
            return f"{is_image}[{label}]({name_of(page.removeprefix('docs/'))}{anchor})"
        return label

    return re.sub(r"(!?)\[([^\]]*)\]\((?!https?:|#|mailto:)([^)#\s]+)(#[^)]*)?\)", link, text)


def name_of(page: str) -> str:
    """The name in the book of a page of docs/."""
    return "index.md" if page == "README.md" else page


class Page(NamedTuple):
    """A page as it stands in the book."""

    part: str
    title: str
    name: str
    text: str


def pages() -> Iterator[Page]:
    """The pages of the book, in its order."""
    part = ""
    for line in (ROOT / "docs/SUMMARY.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("# ") and line != "# Summary":
            part = line[2:]
        elif found := re.search(r"\[(.+)\]\((.+)\)", line):
            text = (ROOT / "docs" / found[2]).read_text(encoding="utf-8")
            yield Page(part, found[1], name_of(found[2]), turned(text, Path("docs")))
    for page, title, name in OUTSIDE:
        # What a reader in a hurry may leave out has this name in llms.txt.
        yield Page("Optional", title, name, turned((ROOT / page).read_text(encoding="utf-8"), Path(page).parent))


def first_sentence(text: str) -> str:
    """The first sentence of a page, without marks: not of a heading, a picture, a list, a table or code."""
    prose = re.sub(r"^ *```.*?^ *```$|<!--.*?-->", "", text, flags=re.MULTILINE | re.DOTALL)
    paragraphs = (" ".join(part.split()) for part in re.split(r"\n\s*\n", prose))
    paragraph = next(part for part in paragraphs if part and not re.match(r"#|!|\||[-*] |\d+\. ", part))
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", paragraph)
    plain = re.sub(r"\*\*?([^*]+)\*\*?", r"\1", plain)
    return re.split(r"(?<=[.?!]) (?=[^a-z])", plain)[0]


def site(book: Path, url: str) -> None:
    """Add to a built book what programs read."""
    about = tomllib.loads((ROOT / "book.toml").read_text(encoding="utf-8"))["book"]
    lines, part = [f"# {about['title']}", "", f"> {about['description']}", ""], ""
    for page in pages():
        if not (book / page.name).with_suffix(".html").is_file():
            sys.exit(f"{book} has no page {page.name}: build it by `mdbook build`")
        (book / page.name).write_text(page.text, encoding="utf-8")
        if page.part != part:
            lines += ["", f"## {page.part}", ""]
            part = page.part
        lines.append(f"- [{page.title}]({url}{page.name}): {first_sentence(page.text)}")
    (book / "llms.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (book / "llms-full.txt").write_text("\n\n".join(page.text.strip() for page in pages()) + "\n", encoding="utf-8")


def main() -> None:
    if sys.argv[1:2] == ["supports"]:
        return
    if sys.argv[1:2] == ["site"]:
        site(Path(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else "")
        return
    _, book = json.load(sys.stdin)
    items = book["items"]
    for item in items:
        if chapter := item.get("Chapter") if isinstance(item, dict) else None:
            chapter["content"] = turned(chapter["content"], Path("docs"))
    items.append({"PartTitle": "To work on it"})
    for page, title, name in OUTSIDE:
        content = turned((ROOT / page).read_text(encoding="utf-8"), Path(page).parent)
        of_book = {"number": None, "sub_items": [], "path": name, "source_path": None, "parent_names": []}
        items.append({"Chapter": {"name": title, "content": content, **of_book}})
    json.dump(book, sys.stdout)


if __name__ == "__main__":
    main()
