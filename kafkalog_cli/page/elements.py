"""Elements of HTML and SVG, and the whole page as text. Text and attributes are escaped when the page is written."""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from importlib.metadata import version
from importlib.resources import files
from typing import TYPE_CHECKING
from xml.etree.ElementTree import Element, tostring  # only written here, never parsed

from kafkalog_cli.app import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

GENERATOR = "kafkalog report"
_DOCTYPE = "<!DOCTYPE html>\n"
MARK = f'{_DOCTYPE}<html lang="en"><head><meta charset="utf-8"><meta name="generator" content="{GENERATOR} '


def element(tag: str, *children: Element | str | None, **attributes: object) -> Element:
    """Return an element. Text may have any characters; `_` in names of attributes is `-`, and omitted at the end."""
    made = Element(tag)
    for name, value in attributes.items():
        if value is not None:
            made.set(name.rstrip("_").replace("_", "-"), printable(str(value)))
    for child in children:
        if isinstance(child, Element):
            made.append(child)
        elif child is not None and len(made):
            made[-1].tail = (made[-1].tail or "") + printable(child)
        elif child is not None:
            made.text = (made.text or "") + printable(child)
    return made


def table(headings: Sequence[str], rows: Iterable[Sequence[Element | str]], words: Sequence[str]) -> Element:
    """Return a table. The columns with the headings `words` have text, and the first one is a name; the others have numbers."""
    kinds = ["name" if at == 0 else None if heading in words else "number" for at, heading in enumerate(headings)]
    head = element("tr", *(element("th", heading, scope="col", class_=kind if kind == "number" else None)
                           for heading, kind in zip(headings, kinds, strict=True)))  # fmt: skip
    body = (element("tr", *(element("td", cell, class_="bar" if isinstance(cell, Element) and cell.tag == "svg" else kind)
                            for cell, kind in zip(row, kinds, strict=True))) for row in rows)  # fmt: skip
    return element("div", element("table", element("thead", head), element("tbody", *body)), class_="wide")


def folded(summary: str, *children: Element) -> Element:
    """Return what is shown only when a reader opens it."""
    return element("details", element("summary", summary), *children)


def page_text(title: str, children: Iterable[Element]) -> str:
    """Return the page. Its policy forbids scripts, and everything but its own style sheet."""
    style = files("kafkalog_cli.page").joinpath("page.css").read_text("utf-8")
    digest = b64encode(sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    head = element(
        "head", element("meta", charset="utf-8"),
        element("meta", name="generator", content=f"{GENERATOR} {version('kafkalog')}"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="referrer", content="no-referrer"), element("title", title),
    )  # fmt: skip
    sheet = Element("style")
    sheet.text = style
    head.append(sheet)
    page = element("html", head, element("body", *children), lang="en")
    return _DOCTYPE + tostring(page, encoding="unicode", method="html") + "\n"
