#!/usr/bin/env python3
# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Packs the explorer into one page: styles, modules, bundled models and the WebAssembly; and the
page of `roformer look`, look.html beside it.

    explorer/pack.py BUILD_FOLDER OUT.html

The result depends on the inputs alone, byte for byte. Modules are written one after another,
without their imports and exports, in an order in which none precedes what it imports; a name that
two of them declare is an error.
"""

import base64
import gzip
import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent
MODELS = [ROOT.parent / "examples/models", ROOT / "models"]
MAX_BYTES = 2_000_000

IMPORT = re.compile(r'^import \{[^}]*\} from "([^"]+)";\n', re.M)
DECLARED = re.compile(r"^(?:export )?(?:async )?(?:function|class|const|let) (\w+)", re.M)


def module_order(entry: Path) -> list[Path]:
    order: list[Path] = []

    def visit(path: Path, above: tuple[Path, ...]) -> None:
        if path in above:
            sys.exit(f"pack.py: {path.name} imports itself through others")
        if path in order:
            return
        for name in IMPORT.findall(path.read_text(encoding="utf-8")):
            visit((path.parent / name).resolve(), (*above, path))
        order.append(path)

    visit(entry, ())
    return order


def pack_modules(entry: Path) -> str:
    owner: dict[str, str] = {}
    parts = []
    for path in module_order(entry):
        text = path.read_text(encoding="utf-8")
        for name in DECLARED.findall(text):
            if name in owner:
                sys.exit(f"pack.py: {name} is declared in {owner[name]} and {path.name}")
            owner[name] = path.name
        text = IMPORT.sub("", text)
        text = re.sub(r"^// (Copyright|SPDX).*\n", "", text, flags=re.M)
        parts.append(re.sub(r"^export ", "", text, flags=re.M).strip())
    return "\n\n".join(parts)


def bundled_models() -> dict[str, str]:
    files = {path.stem: path for folder in MODELS for path in folder.glob("*.json")}
    return {name: files[name].read_text(encoding="utf-8") for name in sorted(files)}


def json_in_script(value: object) -> str:
    """JSON that cannot end the <script> that holds it."""
    return json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")


def ascii_script(script: str) -> str:
    """Characters outside ASCII stand in strings and comments alone, where escapes do."""
    return re.sub(r"[^\x00-\x7f]", lambda found: f"\\u{ord(found[0]):04x}", script)


def pack(build: Path) -> str:
    folder = build / "explorer/wasm"
    wasm = gzip.compress((folder / "explorer.wasm").read_bytes(), 9, mtime=0)
    loader = (folder / "explorer.js").read_text(encoding="utf-8")
    script = "\n".join(
        [
            '"use strict";(() => {',
            loader.strip(),
            f'const WASM = "{base64.b64encode(wasm).decode()}";',
            f"const MODELS = {json_in_script(bundled_models())};",
            pack_modules(ROOT / "page/main.js"),
            "})();",
        ]
    )
    return fill("index.html", script)


def pack_look() -> str:
    modules = pack_modules(ROOT / "page/look.js")
    return fill("look.html", f'"use strict";(() => {{\n{modules}\n}})();')


def fill(template: str, script: str) -> str:
    if "</script" in script.lower():
        sys.exit("pack.py: a script holds '</script'")
    page = (ROOT / "page" / template).read_text(encoding="utf-8")
    page = page.encode("ascii", "xmlcharrefreplace").decode()
    style = (ROOT / "page/style.css").read_text(encoding="utf-8").strip()
    return page.replace("/*STYLE*/", style).replace("/*SCRIPT*/", ascii_script(script))


def main() -> None:
    build, out = map(Path, sys.argv[1:])
    page = pack(build).encode("ascii")
    if len(page) > MAX_BYTES:
        sys.exit(f"pack.py: the page has {len(page)} bytes; at most {MAX_BYTES} are allowed")
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_bytes(page)
    out.with_name("look.html").write_bytes(pack_look().encode("ascii"))
    print(f"{out}: {len(page)} bytes")


if __name__ == "__main__":
    main()
