// Live progress, keys, and tables that scroll sideways reached by keyboard. Without this every page
// can be read and every form sent.
(function () {
  "use strict";

  function reachable(root) {
    root.querySelectorAll(".scroll").forEach(function (box, index) {
      if (box.scrollWidth <= box.clientWidth) { return; }
      var before = box.parentNode.querySelector("h1, h2, h3, summary");
      box.tabIndex = 0;
      box.setAttribute("role", "region");
      box.setAttribute("aria-label", "Table " + (index + 1) + (before ? ": " + before.textContent.trim() : ""));
    });
  }
  reachable(document);

  // One stream, closed while the page is not shown: a browser has six connections for each server.
  var live = document.querySelector("[data-stream]"), stream = null, seen = "";

  function follow() {
    var address = new URL(live.dataset.stream, location.href);
    if (seen) { address.searchParams.set("after", seen); }
    stream = new EventSource(address);
    stream.addEventListener("progress", function (event) {
      seen = event.lastEventId;
      live.innerHTML = event.data;
      reachable(live);
    });
    stream.addEventListener("reload", function () { stream.close(); location.reload(); });
    stream.addEventListener("done", function (event) {
      stream.close();
      live.innerHTML = event.data;
      live = null;
      // Where no run is shown, and nothing is typed, a reload disturbs nobody.
      if (document.querySelector("[data-empty]") && document.activeElement === document.body) {
        location.reload();
      }
    });
  }
  if (live) {
    follow();
    document.addEventListener("visibilitychange", function () {
      stream.close();
      if (live && !document.hidden) { follow(); }
    });
  }

  var rows = Array.from(document.querySelectorAll("table.runs tbody tr"));
  function move(step) {
    var links = rows.map(function (row) { return row.querySelector("th a"); });
    var at = rows.findIndex(function (row) { return row.contains(document.activeElement); });
    var next = links[at < 0 ? 0 : Math.max(0, Math.min(at + step, links.length - 1))];
    if (next) { next.focus(); }
  }
  function select() {
    var row = rows.find(function (one) { return one.contains(document.activeElement); });
    if (row) { row.querySelector("input").click(); }
  }
  function compare() {
    if (rows.length && document.querySelectorAll("table.runs :checked").length === 2) {
      rows[0].closest("form").requestSubmit();
    }
  }
  var places = { r: "/", t: "/targets", b: "/board", c: "/changes", m: "/machines", s: "/start", q: "/jobs", e: "/experiments", a: "/analyses", v: "/servers" };
  var keys = {
    "/": function () { var box = document.getElementById("search"); if (box) { box.focus(); } },
    j: function () { move(1); }, k: function () { move(-1); }, x: select, c: compare,
    "?": function () { var help = document.getElementById("keys"); help.open = !help.open; help.scrollIntoView(); }
  };
  var before = "";
  document.addEventListener("keydown", function (event) {
    if (event.ctrlKey || event.metaKey || event.altKey) { return; }
    if (event.target.matches("input:not([type=checkbox]), select, textarea")) { return; }
    var place = before === "g" && places[event.key];
    var link = place && document.querySelector("nav.site a[href='" + place + "']");
    before = event.key;
    if (link) { location.assign(place); return; }
    if (keys[event.key]) { event.preventDefault(); keys[event.key](); }
  });
})();
