"""matplotlib's SVG made short: few digits, short names, attributes instead of styles, and marks that say their numbers.

Coordinates keep a tenth of a point, which no reader can see. So a figure is the same file on every processor: their
roundings of what it shows differ far less. A page with a strict content policy may hold it, as no element has a style.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import groupby
from xml.etree import ElementTree
from xml.sax.saxutils import escape, quoteattr

FONTS = "'DejaVu Sans',Verdana,sans-serif"
SVG, HREF = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}href"
INHERITED = {"stroke-linejoin": "round", "stroke-linecap": "butt"}  # what matplotlib sets for every element
PLACES = {"x", "y", "x1", "x2", "y1", "y2", "width", "height", "transform", "viewBox"}
PATH = re.compile(r'<path d="([^"]+)"([^>]*)/>')
NEIGHBOURS = re.compile(r'(<path d="[^"]+)("(?=[^>]*fill="none")(?![^>]*opacity)[^>]*/>)<path d="([^"]+)\2')
NUMBER = re.compile(r"-?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?")
MARK, BETWEEN = "mark", "|"
SHAPE = 400  # characters; a definition below is the shape of a marker, a few points wide: it keeps hundredths


def mark(names: tuple[str, ...], said: str) -> str:
    """Return the id (`gid`) by which what is drawn becomes a mark: it belongs to networks and says its numbers."""
    return BETWEEN.join((MARK, ",".join(names), said))


def compact(svg: str, prefix: str = "i") -> str:
    """Return a drawing's SVG as one short element. Ids begin with `prefix`: a page may hold several drawings."""
    root = ElementTree.fromstring(svg)
    _drop_what_is_defined(root)
    wanted = dict.fromkeys(re.findall(r"(?:url\(|href=\")#([\w-]+)", svg))
    names = {name: f"{prefix}{number}" for number, name in enumerate(wanted)}
    attributes = {
        "font-family": FONTS,
        **INHERITED,
        **{key: root.get(key, "") for key in ("width", "height", "viewBox")},
    }
    _draw_ticks(root)
    inside, again = _children(root, names, is_definition=False), 1
    while again:  # lines that look alike, as error bars, are one path where nothing is drawn between them
        inside, again = NEIGHBOURS.subn(r"\1\3\2", inside)
    return f'<svg xmlns="http://www.w3.org/2000/svg"{_attributes(attributes)}>{inside}</svg>'


def _drop_what_is_defined(root: ElementTree.Element) -> None:
    """Drop what the style of a marker repeats of the marker's definition."""
    defined = {f"#{node.get('id')}": node.get("style", "").split("; ") for node in root.iter() if "id" in node.attrib}
    for node in root.iter():
        known = next((defined.get(value, []) for key, value in node.attrib.items() if key.endswith("href")), [])
        if known and "style" in node.attrib:
            node.set("style", "; ".join(one for one in node.attrib["style"].split("; ") if one not in known))


def _draw_ticks(root: ElementTree.Element) -> None:
    """Make a path of each tick: a marker that is a line from its place."""
    lines = {
        f"#{node.get('id')}": node
        for node in root.iter(f"{SVG}path")
        if re.fullmatch(r"M 0 0\s+L (0 -?[\d.]+|-?[\d.]+ 0)\s*", node.get("d", "")) and "id" in node.attrib
    }
    for node in root.iter(f"{SVG}use"):
        target = lines.get(node.get(HREF, ""))
        if target is not None:
            x, y = (float(node.get(name, "0")) for name in "xy")
            across, down = (float(one) for one in target.attrib["d"].split()[4:6])
            node.tag, style = f"{SVG}path", f"fill: none; {target.get('style', '')}"
            node.attrib = {"d": f"M {x} {y} L {x + across} {y + down}", "style": style}
    for node in lines.values():
        node.attrib = {}


def _children(node: ElementTree.Element, names: Mapping[str, str], is_definition: bool) -> str:
    """Return what is inside of an element. Neighbours with the id of one mark are one mark."""
    made = []
    for name, same in groupby(node, lambda child: child.get("id", "")):
        inside = "".join(_element(child, names, is_definition) for child in same)
        is_mark = name.startswith(MARK + BETWEEN) and inside
        made.append(_marked(name, inside) if is_mark else inside)
    return "".join(made)


def _marked(name: str, inside: str) -> str:
    _, networks, said = name.split(BETWEEN, 2)
    return f'<g class="mark" data-names={quoteattr(networks)}><title>{escape(said)}</title>{inside}</g>'


def _element(node: ElementTree.Element, names: Mapping[str, str], is_definition: bool) -> str:
    tag = node.tag.rpartition("}")[2]
    if tag in ("style", "metadata"):
        return ""
    inside = _children(node, names, is_definition or tag == "defs") + escape((node.text or "").strip())
    if tag == "g" and node.get("id", "").startswith("matplotlib.axis"):
        inside = _joined(inside)
    attributes = dict(_short(node, names, is_definition))
    if (tag in ("g", "defs") and not inside) or (tag == "path" and not attributes.get("d")):
        return ""
    if tag == "g" and not attributes:
        return inside
    return f"<{tag}{_attributes(attributes)}>{inside}</{tag}>" if inside else f"<{tag}{_attributes(attributes)}/>"


def _joined(inside: str) -> str:
    """Return the parts of an axis with lines that look alike, as those of its grid and its ticks, as one path."""
    found: dict[str, str] = {}
    for line, look in PATH.findall(inside):
        found[look] = found.get(look, "") + line
    return PATH.sub(lambda one: f'<path d="{line}"{one[2]}/>' if (line := found.pop(one[2], "")) else "", inside)


def _attributes(found: Mapping[str, str]) -> str:
    return "".join(f" {name}={quoteattr(value)}" for name, value in found.items())


def _short(node: ElementTree.Element, names: Mapping[str, str], is_definition: bool) -> Iterator[tuple[str, str]]:
    """Give the attributes of an element, those of its style among them, without what changes nothing."""
    for key, value in node.attrib.items():
        name = key.rpartition("}")[2]
        if name == "id":
            if value in names:
                yield name, names[value]
        elif name == "d":
            yield name, path(value, 2 if is_definition and len(value) < SHAPE else 1)
        elif name in ("href", "clip-path"):
            yield name, re.sub("#([\\w-]+)", lambda one: f"#{names[one[1]]}", value) if "#" in value else _solid(value)
        elif name == "style":
            yield from _styles(value)
        elif not re.fullmatch(r"rotate\(-?0 .*\)", value):
            yield name, NUMBER.sub(lambda one: _tenths(float(one[0])), value) if name in PLACES else value


def _solid(data: str) -> str:
    return re.sub(r"\s", "", data)


def _styles(text: str) -> Iterator[tuple[str, str]]:
    found = {name.strip(): value.strip() for name, _, value in (part.partition(":") for part in text.split(";"))}
    has_line = found.get("stroke", "none") != "none"
    for name, value in found.items():
        is_of_line = name.startswith("stroke-")
        if name and name != "font-family" and (has_line or not is_of_line) and INHERITED.get(name) != value:
            yield name, value


def _tenths(value: float, digits: int = 1) -> str:
    text = f"{value:.{digits}f}".rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else re.sub(r"^(-?)0\.", r"\1.", text)


def path(line: str, digits: int = 1) -> str:
    """Return the data of a path with coordinates of so many decimals; its lines are relative to the point before."""
    made = []
    scale = 10**digits
    x = y = 0
    last = ""
    for command, given in re.findall(r"([A-Za-z])([^A-Za-z]*)", line):
        places = [round(float(one) * scale) for one in given.split()]
        name, shown = command, places
        if command == "L":
            name, shown = _step(places[0] - x, places[1] - y)
        if not shown and name == "h":
            if last != "M":
                continue  # the point before
            shown = [0]  # a line of no length is drawn as a point, if its ends are round
        numbers = " ".join(_tenths(one / scale, digits) for one in shown).replace(" -", "-")
        again = "" if numbers.startswith("-") else " "
        made.append(f"{again}{numbers}" if name == last == "l" else name + numbers)
        x, y = places[-2:] if places else (x, y)
        last = name
    return "".join(made)


def _step(across: int, down: int) -> tuple[str, list[int]]:
    """Return the shortest command for a line, with its numbers; none if it leads nowhere."""
    if not down:
        return "h", [across] if across else []
    return ("l", [across, down]) if across else ("v", [down])
