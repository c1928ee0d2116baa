"""Lists the official ONNX tests that fail, and why.

`docs/how_to/deploy/load_onnx.md` shows the list as a table. `python tests/onnx_suite.py` writes it
anew.
"""

from __future__ import annotations

from pathlib import Path

TESTS = 2024  # of the kinds node, simple, pytorch-converted and pytorch-operator

_IMAGES = "there is no decoder of image files: decode them outside"
_DRAWN = "random numbers: the test compares with numbers that NumPy drew"
_GRADIENT = "the operator differentiates a graph: use `fw.grad` on the loaded module"

FAILURES: dict[str, str] = {
    **{f"test_image_decoder_decode_{kind}": _IMAGES for kind in (
        "bmp_rgb", "jpeg2k_rgb", "jpeg_bgr", "jpeg_grayscale", "jpeg_rgb", "png_rgb", "pnm_rgb",
        "tiff_rgb", "webp_rgb")},
    **{f"test_bernoulli{kind}": _DRAWN for kind in (
        "", "_expanded", "_double", "_double_expanded", "_seed", "_seed_expanded")},
    "test_gradient_of_add": _GRADIENT,
    "test_gradient_of_add_and_mul": _GRADIENT,
    "test_loop16_seq_none": "the test cannot compare the scalar that its sequence begins with",
}

PAGE = Path(__file__).resolve().parents[1] / "docs/how_to/deploy/load_onnx.md"
_BEGIN, _END = "<!-- failures -->\n", "<!-- end -->"


def table() -> str:
    """The list as a table of the page."""
    passed = TESTS - len(FAILURES)
    rows = [f"{passed} of {TESTS} tests pass ({100 * passed / TESTS:.1f} %), eager and compiled.\n",
            "| fails | because |", "|---|---|"]
    return "\n".join([*rows, *(f"| `{name}` | {why} |" for name, why in sorted(FAILURES.items()))])


def written(page: str) -> str:
    """The page with the current list."""
    head, rest = page.split(_BEGIN)
    return head + _BEGIN + table() + "\n" + _END + rest.split(_END)[1]


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
