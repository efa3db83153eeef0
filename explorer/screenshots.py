#!/usr/bin/env python3
# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Screenshots of every view of the explorer, light and dark, 1280 and 390 pixels wide.

explorer/screenshots.py [FOLDER]     docs/explorer; needs playwright, pillow and chromium
"""

import io
import os
import shutil
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parents[1]
COLORS = 56  # of a palette: text and lines stay sharp, files small

#: What each view is shown with.
SHOTS = {
    "model": "#v=model",
    "wavelengths": "#v=wavelengths",
    "compare": "#v=compare&m=llama-2-7b&c=32768&i=40&x=recipe%3Ayarn,recipe%3Alinear",
    "decay": "#v=decay&m=llama-2-7b&c=8192",
    "maps": "#v=maps&m=llama-2-7b",
    "maps-scores": "#v=maps&m=llama-2-7b&map=scores&p=30",
    "maps-plane": "#v=maps&m=qwen2-vl-7b&map=plane",
    "precision": "#v=precision&p=30000",
    "pairing": "#v=pairing&m=deepseek-v3&i=12",
    "vector": "#v=vector",
    "plan": "#v=plan",
    "tour": "#v=wavelengths",
}
#: Shown once, wide and light.
EXTRA = {"maps-scores", "maps-plane", "tour"}


def save(png: bytes, out: Path) -> None:
    picture = Image.open(io.BytesIO(png)).convert("RGB")
    picture.quantize(COLORS, dither=Image.Dither.NONE).save(out, optimize=True)


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs/explorer"
    program = os.environ.get("ROTARY_CHROMIUM") or shutil.which("chromium")
    page = (ROOT / "docs/explorer/index.html").as_uri()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        for width, height in ((1280, 820), (390, 844)):
            for theme in ("light", "dark"):
                for name, fragment in SHOTS.items():
                    if name in EXTRA and (width, theme) != (1280, "light"):
                        continue
                    tab = browser.new_page(
                        viewport={"width": width, "height": height}, color_scheme=theme
                    )
                    tab.goto(page + fragment)
                    tab.wait_for_selector("body.ready")
                    if name == "tour":
                        tab.click("#tour")
                    save(
                        tab.screenshot(full_page=name != "tour"),
                        folder / f"{name}-{width}-{theme}.png",
                    )
                    tab.close()
        browser.close()


if __name__ == "__main__":
    main()
