"""Make ``docs/_static/math.woff2``, the font of the formulas, out of Latin Modern Math.

``python docs/_extensions/math_font.py latinmodern-math.otf``, with fonttools and brotli installed.

Browsers lay MathML out well only in a font with a table of mathematical measures, and not every system has one. The
signs kept are those that the pages use, their alphabets, and what may come near them.
"""

import sys
from itertools import chain
from pathlib import Path

from fontTools import subset

KEPT = [
    (0x20, 0x7E),  # ASCII
    (0xAC, 0xAC), (0xB1, 0xB1), (0xB7, 0xB7), (0xD7, 0xD7), (0xF7, 0xF7),
    (0x2C6, 0x2DC), (0x300, 0x30C),  # accents
    (0x391, 0x3F6),  # Greek
    (0x2016, 0x2016), (0x2026, 0x2026), (0x2032, 0x2034), (0x2061, 0x2062),
    (0x2102, 0x2102), (0x210E, 0x210E), (0x2113, 0x2115), (0x211A, 0x211D), (0x2124, 0x2124),
    (0x2190, 0x2199), (0x21A6, 0x21A6), (0x21D0, 0x21D4),  # arrows
    (0x2200, 0x223C), (0x2243, 0x22A5), (0x22C0, 0x22C6), (0x22EE, 0x22F1),  # operators
    (0x2308, 0x230B), (0x239B, 0x23B1), (0x23DC, 0x23DF), (0x25A1, 0x25A1), (0x27E8, 0x27E9),  # fences
    (0x1D400, 0x1D467), (0x1D5A0, 0x1D5D3),  # bold, italic and upright letters
    (0x1D6E2, 0x1D71B), (0x1D7CE, 0x1D7D7),  # italic Greek, bold digits
]  # fmt: skip


def main(source: str) -> None:
    """Write the font, under a name of its own, as its licence asks."""
    options = subset.Options(
        flavor="woff2", layout_features=["*"], name_IDs=["*"], drop_tables=["FFTM"], notdef_outline=True
    )
    font = subset.load_font(source, options)
    subsetter = subset.Subsetter(options)
    subsetter.populate(unicodes=list(chain.from_iterable(range(first, last + 1) for first, last in KEPT)))
    subsetter.subset(font)
    # TeX asks for these drops beside composite bases only, browsers beside single signs, too. With these values an
    # exponent stands as high beside a bracket, and an index as low beside a q, as beside other signs.
    constants = font["MATH"].table.MathConstants
    constants.SuperscriptBaselineDropMax.Value, constants.SubscriptBaselineDropMin.Value = 390, 50
    for record in font["name"].names:
        if record.nameID == 0:
            continue  # the copyright is that of the original
        record.string = (
            record.toUnicode().replace("Latin Modern Math", "Recfact Math").replace("LatinModern", "Recfact")
        )
    cff = font["CFF "].cff
    cff.fontNames = ["RecfactMath-Regular"]
    cff[0].FullName, cff[0].FamilyName = "RecfactMath-Regular", "Recfact Math"
    subset.save_font(font, Path(__file__).parent.parent / "_static" / "math.woff2", options)


if __name__ == "__main__":
    main(sys.argv[1])
