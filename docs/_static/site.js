// What the theme and the gallery leave out for readers who listen to a page or move by keyboard (checked with axe-core).
document.addEventListener("DOMContentLoaded", () => {
  const each = (selector, change) => document.querySelectorAll(selector).forEach(change);
  each(".caption[role=heading]", (caption) => caption.setAttribute("aria-level", "2"));
  each("aside.sidebar-drawer", (aside) => aside.setAttribute("aria-label", "Site"));
  each("aside.toc-drawer", (aside) => aside.setAttribute("aria-label", "On this page"));
  each(".content-icon-container", (icons) => {
    icons.setAttribute("role", "region");
    icons.setAttribute("aria-label", "Tools");
  });
  each("summary[aria-label]", (summary) => summary.removeAttribute("aria-label"));
  each(".sphx-glr-thumbcontainer a", (link) => link.setAttribute("aria-label", link.textContent.trim()));
  each("th", (header) => {
    if (!header.textContent.trim()) header.innerHTML = '<span class="visually-hidden">row</span>';
  });
  each(".table-wrapper, .cell_output, div.math, article pre, article figure", (block) => {
    if (block.scrollWidth > block.clientWidth) block.tabIndex = 0;
  });
});
