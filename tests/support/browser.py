"""A real browser without a window: pages are opened at several widths, and what their consoles say comes back."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from html import unescape
from pathlib import Path

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
#: Milliseconds of the page's own clock, which runs ahead while nothing is to be done.
BUDGET = 30_000
_FRAMES = """<!DOCTYPE html><meta charset="utf-8"><link rel="icon" href="data:,"><pre id="result"></pre>{frames}<script>
const frames = [...document.querySelectorAll("iframe")];
const done = (frame) => /drawn|failed/.test(frame.contentDocument?.documentElement?.dataset.charts || "");
// What moving the pointer over the marks of a drawing shows; the first hint, nothing where no mark has one.
const hint = (frame, drawing) => {{
  const page = frame.contentDocument;
  for (const mark of drawing.querySelectorAll(".role-mark path")) {{
    const box = mark.getBoundingClientRect();
    const place = {{ bubbles: true, clientX: box.x + box.width / 2, clientY: box.y + box.height / 2 }};
    page.getElementById("vg-tooltip-element")?.classList.remove("visible");
    for (const kind of ["pointerover", "pointermove", "mousemove"]) {{
      mark.dispatchEvent(new frame.contentWindow.PointerEvent(kind, place));
    }}
    const shown = page.getElementById("vg-tooltip-element");
    const text = shown?.classList.contains("visible") ? shown.innerText : "";
    if (text) return text;
  }}
  return "";
}};
const timer = setInterval(() => {{
  if (!frames.every(done)) return;
  clearInterval(timer);
  document.getElementById("result").textContent = JSON.stringify(frames.map((frame) => {{
    const page = frame.contentDocument, root = page.documentElement;
    if (frame.dataset.theme) root.dataset.theme = frame.dataset.theme;
    const texts = [...page.querySelectorAll("svg text")].filter((text) => text.textContent);
    const hinted = [...page.querySelectorAll(".chart svg")].map((drawing) => hint(frame, drawing));
    const ink = frame.contentWindow.getComputedStyle(page.querySelector(".chart")).color;
    return {{
      charts: root.dataset.charts, width: root.clientWidth, content: root.scrollWidth, texts: texts.length,
      drawings: page.querySelectorAll(".chart svg").length,
      thin: [...page.querySelectorAll(".chart svg")].filter((s) => s.getBoundingClientRect().width < 100).length,
      ink: ink, hints: hinted.filter((text) => text),
    }};
  }}));
}}, 50);
</script>"""


@dataclass(frozen=True)
class Seen:
    """What a browser found of one page: ``charts`` in the page's own words, widths in pixels, drawings and texts.

    hints: what hovering shows, of every drawing that has any.
    """

    charts: str
    width: int
    content: int
    texts: int
    drawings: int
    thin: int
    ink: str
    hints: list[str]


def browser() -> str:
    """The program of a browser; the test is skipped where there is none."""
    found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip("no browser: `apt-get install chromium` brings one")
    return found


def look(pages: Sequence[tuple[Path, int, str]], folder: Path) -> tuple[list[Seen], list[str]]:
    """Open pages (file, width, `light` or `dark`) and wait until their charts are drawn; what the console says."""
    frames = "".join(
        f'<iframe src="{page.resolve().as_uri()}" width="{width}" height="900" data-theme="{theme}"></iframe>'
        for page, width, theme in pages
    )
    harness = folder / "frames.html"
    harness.write_text(_FRAMES.format(frames=frames))
    command = [
        browser(), "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
        f"--user-data-dir={folder / 'profile'}", "--allow-file-access-from-files", "--window-size=1500,1000",
        f"--virtual-time-budget={BUDGET}", "--enable-logging=stderr", "--log-level=0", "--dump-dom",
        harness.resolve().as_uri(),
    ]  # fmt: skip
    result = subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=120, env={**os.environ, "HOME": str(folder)}
    )
    found = re.search(r'<pre id="result">(.*?)</pre>', result.stdout, re.DOTALL)
    assert found is not None, result.stderr
    assert found[1], result.stderr
    said = [line for line in result.stderr.splitlines() if "CONSOLE" in line]
    return [Seen(**row) for row in json.loads(unescape(found[1]))], said
