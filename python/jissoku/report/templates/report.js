// Tooltips at once, and arrow keys along the marks; without this the page lacks nothing else.
(function () {
  "use strict";
  var tip = document.createElement("div");
  tip.className = "tip";
  tip.setAttribute("role", "status");
  document.body.append(tip);

  function hide() { tip.textContent = ""; }

  function show(mark, x, y) {
    tip.textContent = mark.dataset.tip;
    var room = document.documentElement.clientWidth - tip.offsetWidth - 8;
    tip.style.left = Math.max(8, Math.min(x + 12, room)) + window.scrollX + "px";
    tip.style.top = y + 16 + window.scrollY + "px";
  }

  document.querySelectorAll("svg.plot").forEach(function (plot) {
    var marks = [], current = -1;
    plot.querySelectorAll("title").forEach(function (title) {
      var mark = title.parentNode;
      mark.dataset.tip = title.textContent;
      title.remove();
      marks.push(mark);
    });

    plot.addEventListener("pointermove", function (event) {
      var mark = event.target.closest("[data-tip]");
      if (mark) { show(mark, event.clientX, event.clientY); } else { hide(); }
    });
    plot.addEventListener("pointerleave", hide);
    plot.addEventListener("blur", hide);

    plot.tabIndex = 0;
    plot.addEventListener("keydown", function (event) {
      var last = marks.length - 1;
      var next = {
        ArrowRight: Math.min(current + 1, last), ArrowDown: Math.min(current + 1, last),
        ArrowLeft: Math.max(current - 1, 0), ArrowUp: Math.max(current - 1, 0), Home: 0, End: last
      }[event.key];
      if (event.key === "Escape") { hide(); }
      if (next === undefined || last < 0) { return; }
      event.preventDefault();
      current = next;
      var box = marks[current].querySelector("use, rect") || marks[current];
      box = box.getBoundingClientRect();
      show(marks[current], box.right, box.bottom);
    });
  });
})();
