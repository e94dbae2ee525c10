"""Execute the code of notebooks in this process: run_notebook.py NOTEBOOK...

A failing cell is shown with its number. Outputs are not stored, so that a notebook changes only if its text does.
"""

import json
import os
import sys
import traceback
from pathlib import Path


def execute(notebook: Path) -> bool:
    """Execute the cells in the directory of the notebook. Return whether all succeeded."""
    os.chdir(notebook.parent)
    names: dict[str, object] = {"__name__": "__main__"}
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    for number, source in enumerate(code, 1):
        try:
            exec(compile(source, f"{notebook.name}, cell {number}", "exec"), names)
        except Exception:
            traceback.print_exc()
            return False
    print(f"{notebook.name}: {len(code)} cells")
    return bool(code)


if __name__ == "__main__":
    sys.exit(0 if all([execute(Path(name).resolve()) for name in sys.argv[1:]]) else 1)
