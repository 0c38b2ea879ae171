"""Three hints for each exercise, each saying more than the one before. exercises.py shows them."""

HINTS = {
    "ex01": ("", "", ""),
    "ex02": ("", "", ""),
    "ex03": ("", "", ""),
    "ex04": ("", "", ""),
    "ex05": ("", "", ""),
}
