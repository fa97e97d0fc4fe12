/* What kinds of reports share, and the page of one or several runs. */
const page = document.getElementById('main'), BODY = DATA.body;
function subtitle(text) { document.getElementById('subtitle').textContent = text; }
const section = (title, ...children) => el('section', {}, el('h2', {}, title), children);
const verdict = (words) =>
    el('div', {class: 'verdict', role: 'note', 'aria-label': 'Result'},
       words.map((w) => (w.warning ? el('p', {class: 'warning'}, w.warning) : el('p', {}, w))));
const charts = (list, many) => el('div', {class: many ? 'charts many' : 'charts'}, list);

function limitsOf(models) {
  const slos = [...new Set(models.map((m) => m.slo_ms).filter(known))].sort((a, b) => a - b);
  const some = slos.length <= 3 ? slos : [slos[0], slos[slos.length - 1]];
  return some.map(
      (x, i) => ({
        x,
        text: slos.length > 3 ? (i ? 'largest' : 'least') + ' SLO ' + number(x) + ' ms' : 'SLO ' + number(x) + ' ms'
      }));
}

/* ---- columns that several tables share ---- */

const of = (...path) => (row) =>
    path.reduce((at, key) => (at === undefined || at === null ? undefined : at[key]), row);
const latencies = (key, text, quantiles) =>
    quantiles.map((q) => ({name: (text + ' ' + q + ' ms').trim(), of: of(key, q), format: fixed(2)}));
const badColumn = {
  name: 'bad %',
  of: (row) => (known(row.bad_rate) ? 100 * row.bad_rate : undefined),
  format: fixed(2),
  isBad: (row) => row.bad_rate > 0.01
};
const sloColumn = {
  name: 'SLO ms',
  of: of('slo_ms')
};
const misses = (row) => known(row.slo_ms) && row.latency_ms.p99 > row.slo_ms;
const p99Column = {
  name: 'p99 ms',
  of: of('latency_ms', 'p99'),
  format: fixed(2),
  isBad: misses
};

const runColumns = [
  {name: 'model', of: of('name'), word: true},
  sloColumn,
  {name: 'arrived', of: of('arrived'), format: whole},
  {name: 'offered/s', of: of('offered_per_s'), format: fixed(1)},
  {name: 'good/s', of: of('good_per_s'), format: fixed(1)},
  ...['late', 'dropped', 'failed', 'cancelled'].map((key) => ({name: key, of: of(key), format: whole})),
  badColumn,
  ...latencies('latency_ms', '', ['mean', 'p50', 'p90']),
  p99Column,
  ...latencies('latency_ms', '', ['p999', 'max']),
  ...latencies('queueing_ms', 'wait', ['p50', 'p99']),
  {name: 'batch mean', of: of('batch', 'mean'), format: fixed(2)},
  {name: 'batch median', of: of('batch', 'median'), format: whole},
];

/* ---- runs: one, one experiment in several worlds, a recording beside its simulation ---- */

function modelRows(run) { return run.report.models.map((m, i) => ({...m, slo_ms: run.models[i].slo_ms})); }

/* Small multiples: the worst first, all over the same stretch of time. */
function multiples(models, report, shares, kinds) {
  const order = models.map((m, i) => i)
                    .filter((i) => models[i].curves && models[i].curves.latency_ms)
                    .sort((a, b) => report[b].bad_rate - report[a].bad_rate);
  const all = order.flatMap((i) => kinds.flatMap(([key]) => models[i].curves[key] || []));
  const domain = timeDomain(all, order.map((i) => models[i].slo_ms || 0)), box = charts([], true);
  function add(i) {
    const lines = kinds.map(([key, name], k) => ({name, values: models[i].curves[key], dash: k ? '4 3' : ''}));
    const about = percent(report[i].bad_rate) + ' bad, p99 ' + number(report[i].latency_ms.p99) + ' ms';
    box.append(distribution(models[i].name, shares, lines, limitsOf([models[i]]), {compact: true, domain, about}));
  }
  order.slice(0, 12).forEach(add);
  const key = el('ul', {class: 'legend'});
  keepDrawn(
      key,
      () => key.replaceChildren(
          ...kinds.map(([, name], k) => el('li', {}, swatch({index: k, dash: k ? '4 3' : ''}, true), name)),
          el('li', {}, 'dot: p99')));
  const more = el('button', {type: 'button'}, 'Show all ' + order.length);
  more.addEventListener('click', () => {
    more.remove();
    order.slice(12).forEach(add);
  });
  return section(
      'Latency by model', el('p', {class: 'note'}, 'The model with the largest share of bad requests comes first.'),
      key, box, order.length > 12 ? more : '');
}

function timelines(runs) {
  const shown = runs.filter((run) => run.timeline && run.timeline.bars.length);
  if (!shown.length) return '';
  const view = makeView(shown.map((run) => run.timeline.bars));
  const cut = shown.find((run) => run.timeline.seen > run.timeline.bars.length + 64);
  return section(
      'Which batch ran when',
      el('p', {class: 'note'},
         'The number in a bar is its rows. Drag to move; Ctrl and the wheel, or the buttons, zoom. ' +
             (cut ? 'Kept are the first ' + whole(cut.timeline.bars.length) + ' of ' + whole(cut.timeline.seen) +
                      ' executions; --draw FROM,UNTIL (ms) chooses others.' :
                    '')),
      charts(shown.map(
          (run) => timeline(runs.length > 1 ? run.report.world : 'Executors', run.timeline, run.models, view))));
}

const worldRows = [
  ['requests', of('total', 'arrived'), whole],
  ['good, r/s', of('total', 'good_per_s'), fixed(1)],
  ['late', of('total', 'late'), whole],
  ['dropped', of('total', 'dropped'), whole],
  ['failed', of('total', 'failed'), whole],
  ['cancelled', of('total', 'cancelled'), whole],
  ['bad, %', (r) => 100 * r.total.bad_rate, fixed(3)],
  ...['mean', 'p50', 'p99'].map((q) => ['latency ' + q + ', ms', of('total', 'latency_ms', q), fixed(3)]),
  ...['p50', 'p99'].map((q) => ['waiting ' + q + ', ms', of('total', 'queueing_ms', q), fixed(3)]),
  ['executions', of('total', 'batch', 'executions'), whole],
  ['mean batch, rows', of('total', 'batch', 'mean'), fixed(2)],
  ['devices busy, %', (r) => 100 * r.utilisation, fixed(1)],
  ['generator late p99, ms', of('live', 'generator_lag_ms', 'p99'), fixed(3)],
  ['decisions late p99, ms', of('live', 'decision_late_ms', 'p99'), fixed(3)],
  ['tasks late p99, ms', of('live', 'start_late_ms', 'p99'), fixed(3)],
  ['run time / profile p50', of('live', 'run_over_profile', 'p50'), fixed(2)],
  ['run time / profile p99', of('live', 'run_over_profile', 'p99'), fixed(2)],
  ['peak memory, MiB', of('live', 'peak_memory_mib'), fixed(1)],
].map(([name, value, format]) => ({name, value, format}));

function sideBySide(runs) {
  const columns = [
    {name: 'figure', of: of('name'), word: true},
    ...runs.map((run) => ({name: run.report.world, of: (row) => row.value(run.report), cell: (row) => row.format}))
  ];
  const rows = worldRows.filter((row) => runs.some((run) => known(row.value(run.report))));
  const slo = limitsOf(runs[0].models);
  return table(
      'Side by side', columns,
      [...(slo.length ? [{name: 'SLO, ms', value: () => slo[slo.length - 1].x, format: number}] : []), ...rows]);
}

function drawRuns() {
  const runs = BODY.runs, first = runs[0], many = runs.length > 1, limits = limitsOf(first.models);
  const options = Object.entries(first.options).map(([k, v]) => k + ' ' + v).join(', ');
  subtitle(
      listed(runs.map((r) => r.report.world)) + ', policy ' +
      [...new Set(runs.map((r) => r.report.policy))].join(' and ') +
      (options && runs.every((r) => r.report.policy === first.report.policy) ? ' (' + options + ')' : '') + ', ' +
      count(first.report.devices, 'device') + ', ' + number(first.report.window_s) + ' s measured');
  page.append(verdict(wordsOfRuns(runs)));
  const curve = (key) => runs.map((run) => ({name: run.report.world, values: run.curves[key]}));
  const about = 'The dot is p99.';
  page.append(section(
      'Latency',
      charts(
          many ?
              [
                distribution('Latency', first.shares, curve('latency_ms'), limits, {about}),
                distribution('Waiting before the first execution', first.shares, curve('queueing_ms'), [], {about})
              ] :
              [distribution(
                  'Latency and waiting of all requests', first.shares,
                  [
                    {name: 'latency', values: first.curves.latency_ms},
                    {name: 'waiting before the first execution', values: first.curves.queueing_ms, dash: '4 3'}
                  ],
                  limits, {about})])));
  page.append(timelines(runs));
  if (!many && first.models.length > 1)
    page.append(multiples(
        first.models, first.report.models, first.shares, [['latency_ms', 'latency'], ['queueing_ms', 'waiting']]));
  const tables = section('Figures', many ? sideBySide(runs) : '');
  for (const run of runs)
    tables.append(table(
        many ? 'By model, ' + run.report.world : 'By model', runColumns, modelRows(run),
        [{...run.report.total, name: 'all', slo_ms: run.models.length === 1 ? run.models[0].slo_ms : undefined}]));
  if (!many)
    tables.append(table(
        'Executors',
        [
          {name: 'executor', of: of('executor'), format: whole}, {name: 'device', of: of('device'), format: whole},
          {name: 'busy %', of: (e) => 100 * e.busy_share, format: fixed(1)}
        ],
        first.report.executors));
  page.append(tables);
  return first.report.seed;
}
