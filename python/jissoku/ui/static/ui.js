// Keyboard, and what scrolls sideways made reachable by it. Pages lack nothing else without this.
(function () {
  "use strict";

  document.querySelectorAll(".scroll").forEach(function (box) {
    if (box.scrollWidth > box.clientWidth) {
      box.tabIndex = 0;
      box.setAttribute("role", "region");
      box.setAttribute("aria-label", "Table that scrolls sideways");
    }
  });
})();
