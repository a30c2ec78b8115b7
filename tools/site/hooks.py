"""Hooks of MkDocs. Pages link to each other and to files as they do in the repository: docs/ is the top of the site, the
pages at the root of the repository are beside it, and links to other files lead to the source."""

import os
import posixpath
import re

from pymdownx.slugs import slugify

SOURCE = "https://github.com/prelet/prelet/blob/main/"
LINK = re.compile(r"\]\(([^()\s:#]+)(#[^()\s]*)?\)")


def on_config(config):
    """Anchors of headings are those of GitHub, so that links work in both places."""
    config["mdx_configs"].setdefault("toc", {})["slugify"] = slugify(case="lower")


def page_of(name, files):
    """The page of a file or folder of the repository, or None."""
    for candidate in (name, posixpath.join(name, "README.md")):
        staged = "readme.md" if candidate == "README.md" else candidate.removeprefix("docs/")
        if files.get_file_from_path(staged):
            return staged
    return None


def on_page_markdown(markdown, page, config, files):
    repository = os.path.join(os.path.dirname(config["config_file_path"]), "../..")
    here = page.file.src_path
    folder = "docs" if os.path.exists(os.path.join(repository, "docs", here)) else ""
    folder = posixpath.join(folder, posixpath.dirname(here))

    def target(match):
        name, anchor = posixpath.normpath(posixpath.join(folder, match[1])), match[2] or ""
        to = page_of(name, files)
        if to:
            return f"]({posixpath.relpath(to, posixpath.dirname(here) or '.')}{anchor})"
        if os.path.exists(os.path.join(repository, name)):
            return f"]({SOURCE}{name})"
        return match[0]  # the strict build refuses it

    return LINK.sub(target, markdown)
