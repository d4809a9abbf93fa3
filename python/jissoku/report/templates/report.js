(function () {
  "use strict";
  var page = JSON.parse(document.getElementById("data").textContent);
  var NARROW = 620, ROW = 38, ROW_NARROW = 54;

  function theme() {
    var style = getComputedStyle(document.documentElement);
    var found = { "--paper": 0, "--ink": 0, "--muted": 0, "--soft": 0, "--line": 0 };
    Object.keys(found).forEach(function (name) { found[name] = style.getPropertyValue(name).trim(); });
    return found;
  }

  // Python writes stand-ins for the colours that follow the theme.
  function painted(value, colours) {
    if (typeof value === "string") {
      return page.theme[value] ? colours[page.theme[value]] : value;
    }
    if (Array.isArray(value)) {
      return value.map(function (inner) { return painted(inner, colours); });
    }
    if (value && typeof value === "object") {
      var copy = {};
      Object.keys(value).forEach(function (key) { copy[key] = painted(value[key], colours); });
      return copy;
    }
    return value;
  }

  // Names left and figures right of the rows; on a narrow page both above the row.
  function placeRows(layout, width, colours) {
    var rows = layout.meta.rows, narrow = width < NARROW, top = layout.showlegend ? 40 : 10;
    var longest = function (key) {
      return Math.max.apply(null, rows.map(function (row) { return row[key].length; }));
    };
    layout.height = rows.length * (narrow ? ROW_NARROW : ROW) + top + 36;
    layout.margin = narrow
      ? { l: 10, r: 14, t: top, b: 36 }
      : { l: 20 + 8 * longest("name"), r: 24 + 7 * longest("label"), t: top, b: 36 };
    if (narrow && layout.bargap) { layout.bargap = 0.7; }
    layout.annotations = [];
    rows.forEach(function (row, y) {
      var note = function (text, x, anchor, shift, lift) {
        layout.annotations.push({
          text: text, x: x, xref: "paper", xanchor: anchor, xshift: shift, y: y, yref: "y",
          yanchor: "middle", yshift: lift, showarrow: false, align: anchor,
          font: { color: colours["--ink"], size: 13 }
        });
      };
      if (narrow) {
        note("<b>" + row.name + "</b>", 0, "left", -4, 20);
        note(row.label, 1, "right", 4, 20);
      } else {
        note(row.name, 0, "right", -12, 0);
        note(row.label, 1, "left", 12, 0);
      }
    });
  }

  function dressed(figure, width, colours) {
    var plot = painted(figure.plot, colours), layout = plot.layout;
    layout.font = { family: getComputedStyle(document.body).fontFamily, size: 13, color: colours["--muted"] };
    layout.paper_bgcolor = layout.plot_bgcolor = "rgba(0,0,0,0)";
    layout.hoverlabel = { bgcolor: colours["--paper"], bordercolor: colours["--soft"], font: { color: colours["--ink"] } };
    layout.dragmode = false;
    layout.hovermode = "closest";
    ["xaxis", "yaxis"].forEach(function (name) {
      layout[name] = Object.assign({
        gridcolor: colours["--line"], zeroline: false, fixedrange: true, ticks: "", showline: false
      }, layout[name]);
    });
    if (layout.meta) { placeRows(layout, width, colours); }
    return plot;
  }

  function draw() {
    var colours = theme();
    page.figures.forEach(function (figure) {
      var place = document.getElementById("plot-" + figure.name);
      var plot = dressed(figure, place.clientWidth, colours);
      plot.layout.width = place.clientWidth;
      Plotly.react(place, plot.data, plot.layout, { displayModeBar: false, staticPlot: false });
    });
  }

  var width = 0;
  function drawIfResized() {
    if (document.documentElement.clientWidth !== width) {
      width = document.documentElement.clientWidth;
      draw();
    }
  }

  drawIfResized();
  window.addEventListener("resize", drawIfResized);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  window.matchMedia("print").addEventListener("change", draw);
})();
