"""Tables of the documentation that scripts write."""

from pathlib import Path


def write(page: Path, script: str, rows: list[tuple[str, ...]]) -> None:
    """Put a table in place of the one that this script has written before; the first row is the head."""
    begin, end = f"<!-- written by {script} -->\n", "<!-- end -->\n"
    text = page.read_text(encoding="utf-8")
    before, rest = text.split(begin, 1)
    _, after = rest.split(end, 1)
    page.write_text(f"{before}{begin}\n{table(rows)}\n{end}{after}", encoding="utf-8")


def table(rows: list[tuple[str, ...]]) -> str:
    """Return a table in Markdown."""
    return "".join(f"| {' | '.join(row)} |\n" for row in [rows[0], ("---",) * len(rows[0]), *rows[1:]])
