"""Hooks of `mkdocs` for the site: pages from outside docs/, and files instead of inline code.

The web app's Content-Security-Policy allows no inline script, no inline style and no `data:` image. So what the theme
writes inline becomes files of the site here. `site_check.py` fails the build if something is left.
"""

from __future__ import annotations

import hashlib
import re
import urllib.parse
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
OUTSIDE = {"../benchmarks/results/": "results/", "../examples/": "examples/"}
"""Folders beside docs/ that pages link to, and where the site has them."""
INLINE = "assets/inline"

_scripts: dict[str, str] = {}
_styles: dict[str, str] = {}


def on_config(config: Any) -> Any:
    """Forget what an earlier build left, and list the pages of folders in the navigation."""
    _scripts.clear()
    _styles.clear()
    decisions = sorted(path.name for path in (ROOT / "docs" / "decisions").glob("0*.md"))
    results = sorted(path.name for path in (ROOT / "benchmarks" / "results").glob("*.md"))
    named = set(re.findall(r"[\w-]+\.md", str(config["nav"])))
    others = [path.name for path in sorted((ROOT / "docs").glob("*.md")) if path.name not in named]
    config["nav"] += [{"More": others}] if others else []
    config["nav"] += [
        {"Decisions": ["decisions/index.md", *(f"decisions/{name}" for name in decisions)]},
        {"Examples": [f"examples/{path.stem}.md" for path in sorted((ROOT / "examples").glob("*.py"))]},
        {"Results": ["results/index.md", *(f"results/{name}" for name in results)]},
    ]
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the results of benchmarks, the example programs, and the page on deployment."""
    results = sorted((ROOT / "benchmarks" / "results").glob("*.md"))
    for path in results:
        files.append(File.generated(config, f"results/{path.name}", content=path.read_text("utf-8")))
    listed = "\n".join(f"* [{_title(path)}]({path.name})" for path in results)
    opening = "# Results\n\nWhat benchmarks found, each with its machine and its command.\n\n"
    files.append(File.generated(config, "results/index.md", content=f"{opening}{listed}\n"))
    for path in sorted((ROOT / "examples").glob("*.py")):
        shown = f"# {path.name}\n\n```python\n{path.read_text('utf-8')}```\n"
        files.append(File.generated(config, f"examples/{path.stem}.md", content=shown))
    deploy = (ROOT / "deploy" / "README.md").read_text("utf-8")
    files.append(File.generated(config, "deploy.md", content=deploy.replace("](../docs/", "](")))
    mark = (ROOT / "webui" / "static" / "mark.svg").read_text("utf-8")
    files.append(File.generated(config, "images/mark.svg", content=mark))
    files.append(File.generated(config, "site.css", content=(ROOT / ".ci" / "site.css").read_text("utf-8")))
    return files


def _title(path: Path) -> str:
    found = re.search(r"^# (.+)$", path.read_text("utf-8"), re.MULTILINE)
    return found[1] if found else path.stem


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Point links out of docs/ at where the site has those files; leave fences only their language."""
    markdown = re.sub(r"^(```\w+) [^\n`]*$", r"\1", markdown, flags=re.MULTILINE)
    if page.file.src_uri.startswith("results/"):
        return markdown.replace("](../../docs/", "](../")
    for outside, inside in OUTSIDE.items():
        markdown = markdown.replace(f"]({outside})", f"]({inside}index.md)").replace(f"]({outside}", f"]({inside}")
    markdown = re.sub(r"\]\(examples/(\w+)\.py\)", r"](examples/\1.md)", markdown)
    return markdown.replace("](../deploy/README.md", "](deploy.md")


def on_page_content(html: str, page: Any, config: Any, files: Files) -> str:
    """Mark code that is short enough to stay on one line, also in a narrow column of a table."""
    return re.sub(r"<code>(?=[^<\s]{1,24}</code>)", '<code class="short">', html)


def on_post_page(output: str, page: Any, config: Any) -> str:
    """Take inline scripts and styles out of a page."""
    base = "../" * page.url.rstrip("/").count("/") + ("../" if page.url.strip("./") else "")
    return without_inline(output, base)


def on_post_template(output_content: str, template_name: str, config: Any) -> str:
    """Do the same for 404.html, whose links are absolute."""
    if not template_name.endswith(".html"):
        return output_content
    return without_inline(output_content, "/docs/").replace('="/assets/', '="/docs/assets/')


def without_inline(html: str, base: str) -> str:
    """The page with files of the site instead of inline scripts, style elements and style attributes."""

    def script(found: re.Match[str]) -> str:
        attributes, body = found[1], found[2]
        if not body.strip() or "src=" in attributes or "application/json" in attributes:
            return found[0]
        return f'<script{attributes} src="{base}{INLINE}/{_keep(_scripts, body)}.js"></script>'

    def style(found: re.Match[str]) -> str:
        return f'<link rel="stylesheet" href="{base}{INLINE}/{_keep(_styles, found[1])}.css">'

    html = re.sub(r"<script((?:\s[^>]*)?)>(.*?)</script>", script, html, flags=re.DOTALL)
    html = re.sub(r"<style[^>]*>(.*?)</style>", style, html, flags=re.DOTALL)
    html = re.sub(r'\sstyle="text-align:\s*(left|right|center);?"', r' class="align-\1"', html)
    return re.sub(r'\sstyle="[^"]*"', "", html)


def _keep(where: dict[str, str], body: str) -> str:
    digest = hashlib.sha256(body.encode()).hexdigest()[:16]
    where[digest] = body
    return digest


def on_post_build(config: Any) -> None:
    """Write what was inline, and the images in style sheets, as files."""
    site = Path(config["site_dir"])
    folder = site / INLINE
    folder.mkdir(parents=True, exist_ok=True)
    for suffix, kept in (("js", _scripts), ("css", _styles)):
        for digest, body in kept.items():
            (folder / f"{digest}.{suffix}").write_text(body, "utf-8")
    for sheet in site.rglob("*.css"):
        _images_as_files(sheet, folder)
    for left in ("sitemap.xml", "sitemap.xml.gz"):
        (site / left).unlink(missing_ok=True)  # of a site with an address of its own
    for source_map in site.rglob("*.map"):
        source_map.unlink()


def _images_as_files(sheet: Path, folder: Path) -> None:
    up = "../" * len(sheet.parent.relative_to(folder.parents[1]).parts)

    def image(found: re.Match[str]) -> str:
        body = urllib.parse.unquote(found["body"])
        digest = hashlib.sha256(body.encode()).hexdigest()[:16]
        (folder / f"{digest}.svg").write_text(body, "utf-8")
        return f'url("{up}{INLINE}/{digest}.svg")'

    text = sheet.read_text("utf-8")
    pattern = r"""url\((?P<quote>["']?)data:image/svg\+xml;charset=utf-8,(?P<body>.*?</svg>)(?P=quote)\)"""
    changed = re.sub(pattern, image, text, flags=re.DOTALL)
    changed = re.sub(r"/\*# sourceMappingURL=.*?\*/", "", changed)
    if changed != text:
        sheet.write_text(changed, "utf-8")
