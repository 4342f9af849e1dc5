"""The preprocessor of the book (book.toml): puts in the pages that stand outside of docs/, and turns links to them.

mdbook calls it with `supports RENDERER`, and else with the book as JSON on its standard input.
"""

import json
import re
import sys
from pathlib import Path

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
        label, target, anchor = found[1], found[2], found[3] or ""
        file = (ROOT / folder / target).resolve()
        page = str(file.relative_to(ROOT)) if file.is_relative_to(ROOT) else ""
        if page in NAMES:
            return f"[{label}]({NAMES[page]}{anchor})"
        if page.startswith("docs/"):
            name = page.removeprefix("docs/")
            return f"[{label}]({'index.md' if name == 'README.md' else name}{anchor})"
        return label

    return re.sub(r"(?<!!)\[([^\]]*)\]\((?!https?:|#|mailto:)([^)#\s]+)(#[^)]*)?\)", link, text)


def main() -> None:
    if sys.argv[1:2] == ["supports"]:
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
