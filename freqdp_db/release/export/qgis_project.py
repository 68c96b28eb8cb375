"""A QGIS project beside a GeoPackage: its layers, styled for what a release holds.

Samples as a heat map, lines thin and translucent, areas translucent, counts by colour and width. Where a
layer has times, the Temporal Controller plays it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as Xml

from freqdp_db.dataset.projection import ReferenceSystem

_INK = "8,48,94"
_SIGNAL = "255,127,14"
"""Of lines that have to be seen on top of a coloured map."""
_RAMP = 'ramp_color(\'Viridis\', scale_linear("estimate", 0, maximum("estimate"), 0, 1))'
_WIDTH = 'scale_linear("estimate", 0, maximum("estimate"), 0, 3)'


@dataclass(frozen=True)
class LayerStyle:
    """How a layer is drawn."""

    geometry: str
    """Point, Line or Polygon."""
    properties: dict[str, str]
    """Of the symbol; none: a heat map."""
    defined: dict[str, str]
    """Properties that an expression gives."""
    times: tuple[str, ...] = ()
    """One column, or begin and end."""
    subset: str = ""
    """Which rows are shown at first."""
    checked: bool = True
    """Whether the layer is shown at first."""


_STYLES = {
    "samples": LayerStyle("Point", {}, {}, ("sampled_at",)),
    "lines": LayerStyle("Line", {"line_color": f"{_INK},60", "line_width": "0.2"}, {}),
    "areas": LayerStyle(
        "Polygon",
        {"color": f"{_INK},25", "outline_color": f"{_INK},120", "outline_width": "0.1"},
        {},
        ("during_begin", "during_end"),
    ),
    "_visits_map": LayerStyle(
        "Polygon",
        {"color": f"{_INK},160", "outline_color": "255,255,255,120", "outline_width": "0.1"},
        {"fillColor": _RAMP},
        subset='"bin" = 0 AND "level" = \'zone\'',
    ),
    "_roads_map": LayerStyle(
        "Line",
        {"line_color": f"{_INK},200", "line_width": "0.3"},
        {"outlineWidth": _WIDTH, "outlineColor": _RAMP},
        subset='"bin" = 0 AND "level" = \'road\' AND "value" > "margin"',
        checked=False,
    ),
    "_flows_line": LayerStyle(
        "Line",
        {"line_color": f"{_SIGNAL},200", "line_width": "0.3"},
        {"outlineWidth": _WIDTH},
        subset='"bin" = 0 AND "level" = \'district\' AND "value" > "margin"',
    ),
}
"""By the name of the layer, or by how it ends."""


def write_project(
    path: Path, geopackage: str, title: str, layers: list[str], system: ReferenceSystem | None
) -> None:
    """Write the project. geopackage: the file beside it. layers: the first on top, polygons below lines."""
    root = Xml.Element("qgis", projectname=title, version="3.22.0")
    Xml.SubElement(root, "title").text = title
    tree, found = Xml.SubElement(root, "layer-tree-group"), Xml.SubElement(root, "projectlayers")
    if system is not None:
        crs = Xml.SubElement(Xml.SubElement(root, "projectCrs"), "spatialrefsys")
        Xml.SubElement(crs, "wkt").text = system.crs.to_wkt()
        Xml.SubElement(crs, "srid").text = str(system.srid)
        Xml.SubElement(crs, "authid").text = f"EPSG:{system.srid}"
    properties = Xml.SubElement(root, "properties")
    Xml.SubElement(Xml.SubElement(properties, "Paths"), "Absolute", type="bool").text = "false"
    enabled = Xml.SubElement(properties, "SpatialRefSys")
    Xml.SubElement(enabled, "ProjectionsEnabled", type="int").text = "1"
    # tables without geometries have no style
    drawn = [(layer, s) for layer in layers for end, s in _STYLES.items() if layer.endswith(end)]
    for layer, style in sorted(drawn, key=lambda one: one[1].geometry == "Polygon"):
        subset = f"|subset={style.subset}" if style.subset else ""
        source = f"./{geopackage}|layername={layer}{subset}"
        Xml.SubElement(
            tree, "layer-tree-layer", id=_id(layer), name=layer, source=source, providerKey="ogr",
            checked="Qt::Checked" if style.checked else "Qt::Unchecked", expanded="1",
        )  # fmt: skip
        _layer(found, layer, source, style)
    Xml.indent(root)
    text = Xml.tostring(root, encoding="unicode")
    path.write_text(
        f"<!DOCTYPE qgis PUBLIC 'http://mrcc.com/qgis.dtd' 'SYSTEM'>\n{text}\n", "utf-8"
    )


def _id(layer: str) -> str:
    """QGIS gives a layer another id if its own does not end as those do that it makes."""
    return f"{layer}_00000000_0000_0000_0000_000000000000"


def _layer(parent: Xml.Element, name: str, source: str, style: LayerStyle) -> None:
    layer = Xml.SubElement(parent, "maplayer", type="vector", geometry=style.geometry)
    for tag, text in (("id", _id(name)), ("datasource", source), ("layername", name)):
        Xml.SubElement(layer, tag).text = text
    Xml.SubElement(layer, "provider", encoding="UTF-8").text = "ogr"
    if style.times:
        first, *last = style.times
        Xml.SubElement(
            layer, "temporal", enabled="1", mode="2" if last else "1", startField=first,
            endField="".join(last), fixedDuration="0", durationUnit="min", accumulate="0",
            limitMode="0", durationField="", startExpression="", endExpression="",
        )  # fmt: skip
    if not style.properties:
        heat = Xml.SubElement(
            layer, "renderer-v2", type="heatmapRenderer", radius="4", radius_unit="0", max_value="0",
            quality="2", weight_expression="",
        )  # fmt: skip
        ramp = Xml.SubElement(heat, "colorramp", type="gradient", name="[source]")
        colours = {"color1": "255,255,255,0", "color2": f"{_INK},255"}
        _options(ramp, {**colours, "discrete": "0", "rampType": "gradient"})
        return
    renderer = Xml.SubElement(layer, "renderer-v2", type="singleSymbol", symbollevels="0")
    kind, drawn = ("line", "SimpleLine") if style.geometry == "Line" else ("fill", "SimpleFill")
    symbols = Xml.SubElement(renderer, "symbols")
    symbol = Xml.SubElement(symbols, "symbol", type=kind, name="0", alpha="1")
    own = Xml.SubElement(symbol, "layer", {"class": drawn, "enabled": "1", "pass": "0"})
    _options(own, style.properties)
    if style.defined:
        outer = _map(Xml.SubElement(own, "data_defined_properties"))
        _option(outer, "name", "")
        properties = _map(outer, "properties")
        for name_of, expression in style.defined.items():
            one = _map(properties, name_of)
            Xml.SubElement(one, "Option", type="bool", name="active", value="true")
            _option(one, "expression", expression)
            Xml.SubElement(one, "Option", type="int", name="type", value="3")
        _option(outer, "type", "collection")


def _options(parent: Xml.Element, values: dict[str, str]) -> None:
    options = _map(parent)
    for name, value in values.items():
        _option(options, name, value)


def _map(parent: Xml.Element, name: str | None = None) -> Xml.Element:
    named = {} if name is None else {"name": name}
    return Xml.SubElement(parent, "Option", {"type": "Map", **named})


def _option(parent: Xml.Element, name: str, value: str) -> None:
    Xml.SubElement(parent, "Option", type="QString", name=name, value=value)
