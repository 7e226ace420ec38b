"""Fills a page's template: the head (what a page may load, its style) and the script are the same for all."""

from __future__ import annotations

from importlib import resources
from typing import Any


def fill(name: str, kind: str, **values: Any) -> str:
    """The page `name` with its values; `kind` is what it calls itself ("report")."""
    import jinja2
    from markupsafe import Markup

    here = resources.files("puridiver.report") / "templates"
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("puridiver.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
    )
    return environment.get_template(name).render(
        css=Markup((here / "page.css").read_text(encoding="utf-8")),
        js=Markup((here / "page.js").read_text(encoding="utf-8")),
        safe=Markup,
        kind=kind,
        **values,
    )
