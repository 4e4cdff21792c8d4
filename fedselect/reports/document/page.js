
"use strict";
// Every heading of a table becomes a button that sorts by its column, up and then down. What is missing stays last.
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  const body = table.tBodies[0];

  const number = (cell) => {
    const text = cell.dataset.value ?? cell.textContent.trim();
    return text === "" ? NaN : Number(text);
  };
  const byNumber = (a, b, sign) => {
    const [x, y] = [number(a), number(b)];
    if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y);
    return x === y ? 0 : sign * (x < y ? -1 : 1);
  };
  const byText = (a, b, sign) => {
    const [x, y] = [a.textContent, b.textContent];
    if (x === "-" || y === "-") return (x === "-") - (y === "-");
    return sign * x.localeCompare(y, "en", { numeric: true });
  };

  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const ascending = head.getAttribute("aria-sort") !== "ascending";
      for (const each of heads) each.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", ascending ? "ascending" : "descending");
      const compare = head.classList.contains("number") ? byNumber : byText;
      const rows = [...body.rows];
      rows.sort((a, b) => compare(a.cells[column], b.cells[column], ascending ? 1 : -1));
      body.append(...rows);
    });
  });
}
