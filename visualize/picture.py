"""Picture: an SVG for a notebook, with the words for those who can't see it. It needs no matplotlib."""

import re


class Picture:
    """`svg` is the text of the SVG, `alt` what is to be seen in it, in words. A notebook shows it by itself."""

    def __init__(self, svg, alt):
        self.svg, self.alt = svg, alt

    def _repr_svg_(self):
        return self.svg

    def __repr__(self):
        return f"Picture: {self.alt}"

    def save(self, path):
        """Write the SVG into a file."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.svg)


def compact(svg):
    """matplotlib's SVG in less than half the bytes, to stand in a page. The comments, the texts in it, are kept."""
    svg = re.sub(r"^.*?(?=<svg )", "", svg, count=1, flags=re.DOTALL)
    svg = re.sub(r"<style.*?</style>|; stroke-linejoin: miter", "", svg)  # what SVG does by itself
    svg = re.sub(r'<g id="\w+">', "<g>", svg)  # of several pictures in a page, none may use another's names
    svg = re.sub(r'(?<= d=")[^"]*', lambda path: re.sub(r"\s*([A-Za-z])\s*", r"\1", rounded(path[0])), svg)
    svg = re.sub(r"translate\([^)]*", lambda place: rounded(place[0]), svg)
    svg = re.sub(r'(<use [^>]*)transform="translate\((\S+) 0\)"', r'\1x="\2"', svg)
    svg = re.sub(r'(?<= style=")[^"]*', lambda style: re.sub(r"(?<=[:;]) |(?<=#000)000", "", style[0]), svg)
    svg = re.sub(r'(?<=id=")DejaVuSans|(?<="#)DejaVuSans', "dv", svg)  # the letters, by the name of their font
    svg = re.sub(r"\s*\n\s*", "\n", svg)
    svg = re.sub(r"<g>\n(<path[^>]*/>)\n</g>", r"\1", svg)
    return re.sub(r"<g>\n(<!--.*-->\n<g [^>]*>(?:(?!<g|</g).)*</g>)\n</g>", r"\1", svg, flags=re.DOTALL)


def rounded(text):
    """Two digits behind the point, for every number: less than can be seen."""
    return re.sub(r"\d+\.\d{3,}", lambda digits: f"{float(digits[0]):.2f}".rstrip("0").rstrip("."), text)
