#!/usr/bin/env python3
# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Screenshots of every view of the explorer, light and dark, 1280 and 390 pixels wide.

explorer/screenshots.py [FOLDER]     docs/explorer; needs playwright, pillow and chromium
"""

import io
import os
import re
import shutil
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parents[1]
COLORS = 40  # of a picture's palette, besides those of lines: files stay small
MAP_COLORS = 160  # of heat maps, whose shades would become bands
MAX_HEIGHT = {1280: 960, 390: 1440}

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


def line_colors() -> list[int]:
    """--c1 to --c6 of both themes, which a palette of few colours would mix up."""
    style = (ROOT / "explorer/page/style.css").read_text(encoding="utf-8")
    found = dict.fromkeys(re.findall(r"--c\d: #(\w{6})", style))
    return [int(color[at : at + 2], 16) for color in found for at in (0, 2, 4)]


def save(png: bytes, out: Path) -> None:
    picture = Image.open(io.BytesIO(png)).convert("RGB")
    count = MAP_COLORS if out.name.startswith("maps") else COLORS
    own = picture.quantize(count, kmeans=1).getpalette()[: 3 * count]
    colors = own + line_colors()
    palette = Image.new("P", (1, 1))
    palette.putpalette(colors + colors[:3] * (256 - len(colors) // 3))
    picture.quantize(palette=palette, dither=Image.Dither.NONE).save(out, optimize=True)


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
                    tall = tab.evaluate("document.documentElement.scrollHeight")
                    high = height if name == "tour" else min(tall, MAX_HEIGHT[width])
                    clip = {"x": 0, "y": 0, "width": width, "height": high}
                    save(
                        tab.screenshot(full_page=name != "tour", clip=clip),
                        folder / f"{name}-{width}-{theme}.png",
                    )
                    tab.close()
        browser.close()


if __name__ == "__main__":
    main()
