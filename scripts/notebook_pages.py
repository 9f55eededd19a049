"""Pages of the notebooks, with what their cells print and draw: docs/notebooks/.

Executes every notebook of examples/ on a virtual board (two minutes): ``python scripts/notebook_pages.py``.
``tests/test_notebooks.py`` compares what it executes with the pages.
"""

from __future__ import annotations

import base64
import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
EXAMPLES, PAGES = ROOT / "examples", ROOT / "docs" / "notebooks"
#: What another kernel changes without any change of a notebook: registers and names of files that carry a hash.
_HASH = re.compile(r"(?<=0x)[0-9a-f]{8}\b|(?<=-)[0-9a-f]{8}(?=\.)")


def executed(path: Path, folder: Path) -> Any:
    """The notebook with the outputs of its cells, run as a kernel of its own in ``folder``."""
    import nbclient
    import nbformat

    notebook = nbformat.read(path, as_version=4)
    resources = {"metadata": {"path": str(folder)}}
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3", resources=resources).execute()
    return notebook


def page(notebook: Any, name: str) -> tuple[str, dict[str, bytes]]:
    """An executed notebook as Markdown, and its pictures by file name."""
    first, *cells = notebook.cells
    title, _, introduction = first.source.partition("\n")
    origin = f"The notebook is `examples/{name}.ipynb`; what is below its cells was printed on a virtual board."
    parts = [title, introduction.strip(), origin]
    pictures: dict[str, bytes] = {}
    for cell in cells:
        if cell.cell_type == "markdown":
            parts.append(cell.source)
            continue
        parts.append(f"```python\n{cell.source}\n```")
        for output in cell.outputs:
            data = output.get("data", {})
            text = output.get("text") or data.get("text/plain", "")
            if "image/png" in data:
                file = f"{name}_{len(pictures) + 1}.png"
                pictures[file] = base64.b64decode(data["image/png"])
                parts.append(f"![What the cell above draws]({file})")
            elif text and "application/javascript" not in data:
                parts.append("```text\n" + _HASH.sub("........", text).strip("\n") + "\n```")
    return "\n\n".join(part for part in parts if part) + "\n", pictures


def main() -> None:
    os.environ["MPLBACKEND"] = "module://matplotlib_inline.backend_inline"
    PAGES.mkdir(exist_ok=True)
    for path in sorted(EXAMPLES.glob("*.ipynb")):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(EXAMPLES / "models", Path(folder) / "models")
            text, pictures = page(executed(path, Path(folder)), path.stem)
        (PAGES / f"{path.stem}.md").write_text(text)
        for name, data in pictures.items():
            (PAGES / name).write_bytes(data)


if __name__ == "__main__":
    main()
