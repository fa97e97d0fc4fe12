/* Tables that can be sorted, scroll inside of their box, and can be had as CSV. */

const csvField = (value) => {
  const text = value === null || value === undefined ? '' : String(value);
  return /[",\n]/.test(text) ? '"' + text.replace(/"/g, '""') + '"' : text;
};

function cellOf(column, row) {
  const value = column.of(row),
        text = column.word ? (value === undefined || value === null ? '' : String(value)) :
                             ((column.cell && column.cell(row)) || column.format || number)(value);
  return el(
      'td', {class: [column.word && 'word', column.isBad && column.isBad(row) && 'bad'].filter(Boolean).join(' ')},
      text + (column.doubt && column.doubt(row) ? ' ?' : ''));
}

/* columns: [{name, of: row -> value, word, format, cell: row -> format, isBad, doubt}]; foot: rows that stay below.
 */
function table(name, columns, rows, foot) {
  const body = el('tbody'), order = {column: -1, down: false};
  const heads = columns.map(
      (column, i) =>
          el('th', {scope: 'col', class: column.word ? 'word' : '', 'aria-sort': 'none'},
             el('button', {type: 'button', title: 'Sort by ' + column.name, onclick: () => sort(i)}, column.name)));
  const put = (list) => body.replaceChildren(...list.map((row) => el('tr', {}, columns.map((c) => cellOf(c, row)))));
  function sort(i) {
    order.down = order.column === i ? !order.down : !columns[i].word;
    order.column = i;
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
  const download = () => save(fileName(name, 'csv'), 'text/csv', [
    columns.map((c) => c.name), ...[...rows, ...(foot || [])].map((row) => columns.map((c) => c.of(row)))
  ].map((line) => line.map(csvField).join(',') + '\n').join(''));
  put(rows);
  return el(
      'section', {},
      el('div', {class: 'bar'}, el('h3', {}, name),
         el('button', {type: 'button', 'aria-label': 'Save as CSV: ' + name, onclick: download}, 'CSV')),
      el('div', {class: 'scroll', tabindex: 0, role: 'region', 'aria-label': name},
         el('table', {}, el('thead', {}, el('tr', {}, heads)), body,
            foot && foot.length ?
                el('tfoot', {}, foot.map((row) => el('tr', {}, columns.map((c) => cellOf(c, row))))) :
                '')));
}
