/* Tables that can be sorted, scroll inside of their box, and can be had as CSV. */

function cellOf(column, row) {
  const value = column.of(row),
        text = column.word ? (value === undefined || value === null ? '' : String(value)) :
                             ((column.cell && column.cell(row)) || column.format || number)(value);
  const node = column.node && column.node(row, text);
  return el(
      'td', {class: [column.word && 'word', column.isBad && column.isBad(row) && 'bad'].filter(Boolean).join(' ')},
      node || text + (column.doubt && column.doubt(row) ? ' ?' : ''));
}

/* columns: [{name, of: row -> value, word, format, cell: row -> format, isBad, doubt, node: (row, text) -> what the
 * cell holds instead of the text}]; foot: rows that stay below; order: {column, down} at first. The section's
 * `update` shows other rows in the same order. */
function table(name, columns, rows, foot, first) {
  const body = el('tbody'), order = first || {column: -1, down: false};
  const heads = columns.map(
      (column, i) =>
          el('th', {scope: 'col', class: column.word ? 'word' : '', 'aria-sort': 'none'},
             el('button', {type: 'button', title: 'Sort by ' + column.name, onclick: () => sort(i)}, column.name)));
  const put = (list) => body.replaceChildren(...list.map((row) => el('tr', {}, columns.map((c) => cellOf(c, row)))));
  function sort(i) {
    order.down = order.column === i ? !order.down : !columns[i].word;
    order.column = i;
    show();
  }
  function show() {
    const i = order.column;
    if (i < 0) return put(rows);
    heads.forEach(
        (head, k) => head.setAttribute(
            'aria-sort',
            k !== i        ? 'none' :
                order.down ? 'descending' :
                             'ascending'));
    const of = columns[i].of, sign = order.down ? -1 : 1;
    put(rows.slice().sort((a, b) => {
      const x = of(a), y = of(b);
      if (columns[i].word) return sign * String(x).localeCompare(String(y), undefined, {numeric: true});
      return sign * ((known(x) ? x : -Infinity) - (known(y) ? y : -Infinity)) || 0;
    }));
  }
  const lines =
      () => [columns.map((c) => c.name), ...[...rows, ...(foot || [])].map((row) => columns.map((c) => c.of(row)))];
  show();
  const section =
      el('section', {}, el('div', {class: 'bar'}, el('h3', {}, name), csvButton(name, lines)),
         el('div', {class: 'scroll', tabindex: 0, role: 'region', 'aria-label': name},
            el('table', {}, el('thead', {}, el('tr', {}, heads)), body,
               foot && foot.length ?
                   el('tfoot', {}, foot.map((row) => el('tr', {}, columns.map((c) => cellOf(c, row))))) :
                   '')));
  let isHeld = false; /* a row that went while a button in it is pressed would lose the click */
  body.addEventListener('pointerdown', () => {
    isHeld = true;
  });
  for (const end of ['pointerup', 'pointercancel'])
    addEventListener(end, () => {
      isHeld = false;
    });
  section.update = (list) => {
    const focused = body.contains(document.activeElement) ? document.activeElement.textContent : null;
    rows = list;
    if (isHeld) return;
    show();
    const again = focused !== null && [...body.querySelectorAll('button')].find((b) => b.textContent === focused);
    if (again) again.focus({preventScroll: true});
  };
  return section;
}
