"""Turkish and typographic characters in the alphabet of SMS, where a template asks for it (S3: never unasked)."""

from typing import Final

_TO_GSM: Final = str.maketrans("ğĞşŞıİçâîûÂÎÛ", "gGsSiIcaiuAIU") | str.maketrans(
    {
        "\u2018": "'",
        "\u2019": "'",
        "\u201a": "'",
        "\u201c": '"',
        "\u201d": '"',
        "\u201e": '"',
        "\u00ab": '"',
        "\u00bb": '"',
        "\u2013": "-",
        "\u2014": "-",
        "\u2212": "-",
        "\u2022": "*",
        "\u2026": "...",
        "\u00a0": " ",
        "\u202f": " ",
        "\u20ba": "TL",
    }
)
"""What the default alphabet (3GPP TS 23.038) lacks: letters of Turkish (ö, ü, Ö, Ü and Ç are in it), quotes, dashes,
dots and spaces that editors put in by themselves."""


def transliterated(text: str) -> str:
    """The text in letters that cost one septet each; what is in no table stays as it is."""
    return text.translate(_TO_GSM)
