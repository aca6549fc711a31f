"""Adds to the site what is outside of docs/, without copies in git: the README as its first page, other pages, man pages, linked files.

mkdocs calls the functions whose names begin with `on_`; mkdocs.yml names this file as a hook.
"""

from __future__ import annotations

import posixpath
import re
import subprocess
from html import unescape
from pathlib import Path

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

ROOT = Path(__file__).parents[1]
# file → page of the site
PAGES = {
    "README.md": "index.md", "CHANGELOG.md": "changelog.md", ".github/CONTRIBUTING.md": "contributing.md",
    ".github/SECURITY.md": "vulnerabilities.md", "tests/data/provenance.md": "provenance.md",
}  # fmt: skip
SOURCES = {page: source for source, page in PAGES.items()}
STYLE = ".md-grid { max-width: 80rem }\n"  # lines of 128 columns fit
LINK = re.compile(r"(\]\()([^)#:\s]+)((?:#[^)\s]*)?\))")
HEADING = re.compile(r'<h([12]) class="S[hs]"[^>]*><a[^>]*>(.*?)</a></h\1>', re.DOTALL)


def place(source: str, target: str) -> str:
    """Return where the site has what a file of the project links to, e.g. docs/tour.md. Raises PluginError if there is nothing."""
    path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
    if not (ROOT / path).is_file():
        raise PluginError(f"{source} links to {target}, which does not exist")
    if path in PAGES:
        return PAGES[path]
    return path.removeprefix("docs/") if path.startswith("docs/") else f"files/{path}"


def man_page(path: Path) -> str:
    """Return a man page as Markdown: its headings, and HTML between them."""
    done = subprocess.run(["mandoc", "-T", "html", "-O", "fragment", path], capture_output=True, text=True, check=True)
    body = re.sub(r'<table class="(?:head|foot)">.*?</table>|</?section[^>]*>|</?div[^>]*>', "", done.stdout, flags=re.DOTALL)
    parts = HEADING.sub(lambda found: f"\n\n{'#' * (int(found[1]) + 1)} {' '.join(found[2].capitalize().split())}\n\n", body)
    parts = re.sub(r"`([^`]+)`", r"<code>\1</code>", parts.replace('<p class="Pp"></p>', ""))
    parts = re.sub(r"<pre>(.*?)</pre>", lambda found: f"\n\n```text\n{unescape(found[1])}\n```\n\n", parts, flags=re.DOTALL)
    return f"# {path.stem.replace('-', ' ', 1)}\n\n{parts}"


def on_config(config):
    """Add the man pages to the navigation, and the style."""
    config.extra_css.append("site.css")
    names = sorted(path.stem for path in (ROOT / "man").glob("*.1"))
    config.nav.append({"Commands": [{name.replace("-", " ", 1): f"man/{name}.md"} for name in names]})
    return config


def on_files(files, config):
    """Add pages, man pages and linked files."""
    files.append(File.generated(config, "site.css", content=STYLE))
    for source, page in PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text()))
    for path in sorted((ROOT / "man").glob("*.1")):
        files.append(File.generated(config, f"man/{path.stem}.md", content=man_page(path)))
    sources = [*PAGES, *(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))]
    for source in sources:
        for found in LINK.finditer((ROOT / source).read_text()):
            target = place(source, found[2])
            if target.startswith("files/") and files.get_file_from_path(target) is None:
                files.append(File.generated(config, target, abs_src_path=str(ROOT / target.removeprefix("files/"))))
    return files


def on_page_markdown(markdown, page, **_):
    """Point links at the places that the site has."""
    uri = page.file.src_uri
    if uri.startswith("man/"):
        return markdown
    source = SOURCES.get(uri, f"docs/{uri}")

    def moved(found: re.Match[str]) -> str:
        return found[1] + posixpath.relpath(place(source, found[2]), posixpath.dirname(uri) or ".") + found[3]

    return LINK.sub(moved, markdown)
