/* Each kind of report: which sentences, charts and tables it has. */
const page = document.getElementById('main'), BODY = DATA.body;
const section = (title, ...children) => el('section', {}, el('h2', {}, title), children);
const verdict = (words) => el('div', {class: 'verdict', role: 'note', 'aria-label': 'Result'},
  words.map((w) => (w.warning ? el('p', {class: 'warning'}, w.warning) : el('p', {}, w))));
const charts = (list, many) => el('div', {class: many ? 'charts many' : 'charts'}, list);

function limitsOf(models) {
  const slos = [...new Set(models.map((m) => m.slo_ms).filter(known))].sort((a, b) => a - b);
  const some = slos.length <= 3 ? slos : [slos[0], slos[slos.length - 1]];
  return some.map((x, i) => ({x, text: slos.length > 3 ? (i ? 'largest' : 'least') + ' SLO ' + number(x) + ' ms' : 'SLO ' + number(x) + ' ms'}));
}

/* ---- columns that several tables share ---- */

const of = (...path) => (row) => path.reduce((at, key) => (at === undefined || at === null ? undefined : at[key]), row);
const latencies = (key, text, quantiles) => quantiles.map((q) => ({name: (text + ' ' + q + ' ms').trim(), of: of(key, q), format: fixed(2)}));
const badColumn = {name: 'bad %', of: (row) => (known(row.bad_rate) ? 100 * row.bad_rate : undefined), format: fixed(2), isBad: (row) => row.bad_rate > 0.01};
const sloColumn = {name: 'SLO ms', of: of('slo_ms')};
const misses = (row) => known(row.slo_ms) && row.latency_ms.p99 > row.slo_ms;
const p99Column = {name: 'p99 ms', of: of('latency_ms', 'p99'), format: fixed(2), isBad: misses};

const runColumns = [
  {name: 'model', of: of('name'), word: true}, sloColumn, {name: 'arrived', of: of('arrived'), format: whole},
  {name: 'offered/s', of: of('offered_per_s'), format: fixed(1)}, {name: 'good/s', of: of('good_per_s'), format: fixed(1)},
  ...['late', 'dropped', 'failed', 'cancelled'].map((key) => ({name: key, of: of(key), format: whole})), badColumn,
  ...latencies('latency_ms', '', ['mean', 'p50', 'p90']), p99Column, ...latencies('latency_ms', '', ['p999', 'max']),
  ...latencies('queueing_ms', 'wait', ['p50', 'p99']),
  {name: 'batch mean', of: of('batch', 'mean'), format: fixed(2)}, {name: 'batch median', of: of('batch', 'median'), format: whole},
];

/* ---- runs: one, one experiment in several worlds, a recording beside its simulation ---- */

function modelRows(run) {
  return run.report.models.map((m, i) => ({...m, slo_ms: run.models[i].slo_ms}));
}

/* Small multiples: the worst first, all over the same stretch of time. */
function multiples(models, report, shares, kinds) {
  const order = models.map((m, i) => i).filter((i) => models[i].curves && models[i].curves.latency_ms)
    .sort((a, b) => report[b].bad_rate - report[a].bad_rate);
  const all = order.flatMap((i) => kinds.flatMap(([key]) => models[i].curves[key] || []));
  const domain = timeDomain(all, order.map((i) => models[i].slo_ms || 0)), box = charts([], true), draw = (some) => some.forEach((i) => box.append(distribution(
    models[i].name, shares, kinds.map(([key, name], k) => ({name, values: models[i].curves[key], dash: k ? '4 3' : ''})),
    limitsOf([models[i]]), {compact: true, domain, about: percent(report[i].bad_rate) + ' bad, p99 ' + number(report[i].latency_ms.p99) + ' ms'})));
  draw(order.slice(0, 12));
  const key = el('ul', {class: 'legend'});
  keepDrawn(key, () => key.replaceChildren(...kinds.map(([, name], k) => el('li', {}, swatch({index: k, dash: k ? '4 3' : ''}, true), name)), el('li', {}, 'dot: p99')));
  const more = order.length > 12 ? el('button', {type: 'button', onclick: () => { more.remove(); draw(order.slice(12)); }}, 'Show all ' + order.length) : '';
  return section('Latency by model', el('p', {class: 'note'}, 'The model with the largest share of bad requests comes first.'), key, box, more);
}

function timelines(runs) {
  const shown = runs.filter((run) => run.timeline && run.timeline.bars.length);
  if (!shown.length) return '';
  const view = makeView(shown.map((run) => run.timeline.bars));
  const cut = shown.find((run) => run.timeline.seen > run.timeline.bars.length + 64);
  return section('Which batch ran when',
    el('p', {class: 'note'}, 'The number in a bar is its rows. Drag to move; Ctrl and the wheel, or the buttons, zoom. ' +
      (cut ? 'Kept are the first ' + whole(cut.timeline.bars.length) + ' of ' + whole(cut.timeline.seen) + ' executions; --draw FROM,UNTIL (ms) chooses others.' : '')),
    charts(shown.map((run) => timeline(runs.length > 1 ? run.report.world : 'Executors', run.timeline, run.models, view))));
}

const worldRows = [
  ['requests', of('total', 'arrived'), whole], ['good, r/s', of('total', 'good_per_s'), fixed(1)], ['late', of('total', 'late'), whole],
  ['dropped', of('total', 'dropped'), whole], ['failed', of('total', 'failed'), whole], ['cancelled', of('total', 'cancelled'), whole],
  ['bad, %', (r) => 100 * r.total.bad_rate, fixed(3)],
  ...['mean', 'p50', 'p99'].map((q) => ['latency ' + q + ', ms', of('total', 'latency_ms', q), fixed(3)]),
  ...['p50', 'p99'].map((q) => ['waiting ' + q + ', ms', of('total', 'queueing_ms', q), fixed(3)]),
  ['executions', of('total', 'batch', 'executions'), whole], ['mean batch, rows', of('total', 'batch', 'mean'), fixed(2)],
  ['devices busy, %', (r) => 100 * r.utilisation, fixed(1)], ['generator late p99, ms', of('live', 'generator_lag_ms', 'p99'), fixed(3)],
  ['decisions late p99, ms', of('live', 'decision_late_ms', 'p99'), fixed(3)], ['tasks late p99, ms', of('live', 'start_late_ms', 'p99'), fixed(3)],
  ['run time / profile p50', of('live', 'run_over_profile', 'p50'), fixed(2)], ['run time / profile p99', of('live', 'run_over_profile', 'p99'), fixed(2)],
  ['peak memory, MiB', of('live', 'peak_memory_mib'), fixed(1)],
].map(([name, value, format]) => ({name, value, format}));

function sideBySide(runs) {
  const columns = [{name: 'figure', of: of('name'), word: true}, ...runs.map((run) => ({name: run.report.world, of: (row) => row.value(run.report), cell: (row) => row.format}))];
  const rows = worldRows.filter((row) => runs.some((run) => known(row.value(run.report))));
  const slo = limitsOf(runs[0].models);
  return table('Side by side', columns, [...(slo.length ? [{name: 'SLO, ms', value: () => slo[slo.length - 1].x, format: number}] : []), ...rows]);
}

function drawRuns() {
  const runs = BODY.runs, first = runs[0], many = runs.length > 1, limits = limitsOf(first.models);
  const options = Object.entries(first.options).map(([k, v]) => k + ' ' + v).join(', ');
  subtitle(listed(runs.map((r) => r.report.world)) + ', policy ' + [...new Set(runs.map((r) => r.report.policy))].join(' and ') + (options && runs.every((r) => r.report.policy === first.report.policy) ? ' (' + options + ')' : '') + ', ' +
    count(first.report.devices, 'device') + ', ' + number(first.report.window_s) + ' s measured');
  page.append(verdict(wordsOfRuns(runs)));
  const curve = (key) => runs.map((run) => ({name: run.report.world, values: run.curves[key]}));
  const about = 'The dot is p99.';
  page.append(section('Latency', charts(many
    ? [distribution('Latency', first.shares, curve('latency_ms'), limits, {about}), distribution('Waiting before the first execution', first.shares, curve('queueing_ms'), [], {about})]
    : [distribution('Latency and waiting of all requests', first.shares, [{name: 'latency', values: first.curves.latency_ms}, {name: 'waiting before the first execution', values: first.curves.queueing_ms, dash: '4 3'}], limits, {about})])));
  page.append(timelines(runs));
  if (!many && first.models.length > 1) page.append(multiples(first.models, first.report.models, first.shares, [['latency_ms', 'latency'], ['queueing_ms', 'waiting']]));
  const tables = section('Figures', many ? sideBySide(runs) : '');
  for (const run of runs) tables.append(table(many ? 'By model, ' + run.report.world : 'By model', runColumns, modelRows(run), [{...run.report.total, name: 'all', slo_ms: run.models.length === 1 ? run.models[0].slo_ms : undefined}]));
  if (!many) tables.append(table('Executors', [{name: 'executor', of: of('executor'), format: whole}, {name: 'device', of: of('device'), format: whole}, {name: 'busy %', of: (e) => 100 * e.busy_share, format: fixed(1)}], first.report.executors));
  page.append(tables);
  return first.report.seed;
}

/* ---- contenders along a parameter ---- */

function drawComparison() {
  const {contenders, report} = BODY, parameter = report.parameter, points = report.points;
  const values = [...new Set(points.map((p) => p.point[parameter]))].sort((a, b) => a - b), measured = values.map(Number);
  const found = (name, value) => points.find((p) => p.point.contender === name && p.point[parameter] === value);
  const metric = (name, unit, path, more) => ({name, unit, at: path, figures: (c, v) => path(found(c, v)), ...more});
  const slo = parameter === 'slo_ms' || !known(BODY.slo_ms) ? [] : [{y: BODY.slo_ms, text: 'SLO ' + number(BODY.slo_ms) + ' ms'}];
  const offered = {text: 'offered', points: measured.map((x, i) => ({x, y: (of('total', 'offered_per_s')(found(contenders[0], values[i])))})), y: (x) => (parameter === 'rate' ? x : undefined)};
  const promise = {text: 'SLO', points: measured.map((x) => ({x, y: x})), y: (x) => x};
  const ends = {others: parameter === 'slo_ms' ? [promise] : []};
  const metrics = [
    metric('answers in time', 'r/s', of('total', 'good_per_s'), {judged: 'good_per_s', others: [offered], about: 'Dotted: the offered rate.'}),
    metric('p99 latency', 'ms', of('total', 'latency_ms', 'p99'), {judged: 'p99_ms', log: 25, across: slo, ...ends}),
    metric('mean latency', 'ms', of('total', 'latency_ms', 'mean'), {judged: 'mean_ms', log: 25, across: slo, ...ends}),
    metric('bad requests', '%', (p) => (p ? 100 * p.total.bad_rate : undefined), {}),
    metric('mean batch', 'rows', of('total', 'batch', 'mean'), {}),
    metric('peak memory of the process', 'MiB', of('live', 'peak_memory_mib'), {}),
  ].filter((m) => points.some((p) => known(m.at(p))));
  const world = [...new Set(points.map((p) => p.world))].join(', ');
  subtitle(world + ', ' + contenders.length + ' contenders at ' + count(values.length, parameter === 'rate' ? 'rate' : 'value') + (parameter === 'rate' ? '' : ' of ' + parameter));
  page.append(verdict(wordsOfComparison(BODY, metrics, values)));
  const draw = (m) => plot({
    name: m.name.replace(/^[a-oq-z]/, (c) => c.toUpperCase()), about: m.about, across: m.across, others: m.others,
    x: {title: parameter, unit: unitOf(parameter), measured, format: (v) => String(v)}, y: {title: m.name, unit: m.unit, log: m.log},
    series: contenders.map((name, index) => ({name, index, points: values.map((v) => {
      const point = found(name, v);
      return {x: Number(v), y: point ? m.at(point) : undefined, doubt: Boolean(point && point.live && point.live.doubtful)};
    })})),
  });
  page.append(section('Along ' + parameter, points.some((p) => p.live && p.live.doubtful) ? el('p', {class: 'note'}, 'A hollow point with "?" is doubtful: the load generator fell behind there.') : '', charts(metrics.map(draw))));
  const rows = points.map((p) => ({...p.total, p, contender: p.point.contender, x: Number(p.point[parameter]), slo_ms: parameter === 'slo_ms' ? Number(p.point.slo_ms) : BODY.slo_ms}));
  const columns = runColumns.slice(1).filter((c) => c.name !== 'cancelled');
  page.append(section('Figures', table('All points', [
    {name: withComma(parameter, unitOf(parameter)), of: of('x'), format: (v) => String(v)}, {name: 'contender', of: of('contender'), word: true, doubt: (row) => row.p.live && row.p.live.doubtful},
    ...columns, {name: 'busy %', of: (row) => 100 * row.p.utilisation, format: fixed(1)},
    ...(points.some((p) => p.live) ? [{name: 'memory MiB', of: of('p', 'live', 'peak_memory_mib'), format: fixed(1)}] : []),
  ], rows)));
  return points.length ? points[0].seed : undefined;
}
const withComma = (name, unit) => (['1', 'count'].includes(unit) ? name : name + ', ' + unit);

/* ---- goodput ---- */

function drawGoodput() {
  const points = BODY.points, keys = [...new Set(points.flatMap((p) => Object.keys(p.point || {})))];
  const valuesOf = (key) => [...new Set(points.map((p) => p.point[key]))];
  const varied = keys.filter((key) => valuesOf(key).length > 1);
  const isNumeric = (key) => valuesOf(key).every((v) => v !== undefined && v !== '' && isFinite(v));
  const nameOf = (point, without) => (varied.length ? varied : keys).filter((k) => k !== without).map((k) => k + ' ' + point.point[k]).join(', ');
  const along = varied.filter((k) => isNumeric(k) && valuesOf(k).length > 2).sort((a, b) => valuesOf(b).length - valuesOf(a).length)[0];
  const groups = along ? [...new Set(points.map((p) => nameOf(p, along)))] : [];
  subtitle('Highest rate that every model bears, by search' + (points.length > 1 ? ', at ' + points.length + ' settings' : ''));
  page.append(verdict(wordsOfGoodput(points, (p) => nameOf(p), along, groups, (p) => nameOf(p, along))));
  if (along && groups.length <= 36) {
    const xs = valuesOf(along).map(Number).sort((a, b) => a - b);
    page.append(section('Along ' + along, charts([plot({
      name: 'Goodput along ' + along, x: {title: along, unit: unitOf(along), measured: xs, format: (v) => String(v)}, y: {title: 'goodput', unit: 'r/s', log: 100},
      series: groups.map((name) => ({name: name || 'goodput', points: xs.map((x) => {
        const point = points.find((p) => nameOf(p, along) === name && Number(p.point[along]) === x);
        return {x, y: point && point.goodput_per_s};
      })})),
    })])));
  }
  const order = along ? points : points.slice().sort((a, b) => b.goodput_per_s - a.goodput_per_s);
  const bounds = points.some((p) => known(p.staggered_per_s));
  if (points.length) page.append(section('By setting', charts([bars({
    name: 'Goodput' + (along ? '' : ', the highest first'), title: 'goodput', unit: 'r/s',
    rows: order.map((p) => ({name: nameOf(p) || 'goodput', value: p.goodput_per_s, low: p.goodput_per_s_min, high: p.goodput_per_s_max, marks: bounds ? [p.staggered_per_s, p.uncoordinated_per_s] : [],
      about: nameOf(p) + ': ' + number(p.goodput_per_s) + ' r/s; worst model ' + percent(p.worst_bad_rate) + ' bad; median batch ' + p.median_batch})),
    marks: bounds ? ['bound: even arrivals, staggered batches', 'without coordination'] : [],
  })])));
  page.append(section('Figures', table('All settings', [
    ...keys.map((key) => ({name: withComma(key, unitOf(key)), of: isNumeric(key) ? (p) => Number(p.point[key]) : (p) => p.point[key], word: !isNumeric(key), format: (v) => String(v)})),
    {name: 'goodput r/s', of: of('goodput_per_s'), format: fixed(1)}, {name: 'bad at r/s', of: of('bad_at_per_s'), format: fixed(1)},
    ...(points.some((p) => known(p.goodput_per_s_min)) ? [{name: 'least', of: of('goodput_per_s_min'), format: fixed(1)}, {name: 'most', of: of('goodput_per_s_max'), format: fixed(1)}, {name: 'seeds', of: of('seeds'), format: whole}] : []),
    {name: 'worst bad %', of: (p) => 100 * p.worst_bad_rate, format: fixed(3)}, {name: 'median batch', of: of('median_batch'), format: whole},
    ...(bounds ? [{name: 'bound r/s', of: of('staggered_per_s'), format: fixed(1)}, {name: '% of bound', of: (p) => (100 * p.goodput_per_s) / p.staggered_per_s, format: fixed(1)}] : []),
    {name: 'requests per run', of: of('requests_per_run'), format: whole}, {name: 'runs', of: of('runs'), format: whole},
  ], points)));
  return BODY.seed;
}

/* ---- a load ---- */

/* What was answered, and how late, while the load went on. */
function overTime(series, limits, warmUp) {
  const line = (name, key, index) => ({name, index, points: series[key].map((y, i) => ({x: (i + 0.5) * series.slice_s, y: y === null ? undefined : y}))});
  const x = {title: 'intended sending, from the start', unit: 's'}, across = limits.map((l) => ({y: l.x, text: l.text}));
  if (series.good_per_s.length < 2) return '';
  return section('Over time', el('p', {class: 'note'}, 'Each point is a slice of ' + number(series.slice_s) + ' s' + (warmUp > 0 ? '; the first ' + number(warmUp) + ' s are warm-up' : '') + '.'), charts([
    plot({name: 'Rate', plain: true, x, y: {title: 'requests', unit: 'r/s'}, series: [line('in time', 'good_per_s', 0), line('bad', 'bad_per_s', 1)]}),
    plot({name: 'Latency of each slice', plain: true, x, y: {title: 'latency', unit: 'ms', log: 30}, across, series: [line('p50', 'p50_ms', 0), line('p99', 'p99_ms', 1)]}),
  ]));
}

function drawLoad() {
  const report = BODY.report, limits = limitsOf(BODY.models), shares = BODY.shares;
  subtitle(report.url + ', ' + (report.loop === 'open' ? 'open loop' : 'closed loop of ' + report.concurrency) + ', ' + number(report.window_s) + ' s measured');
  page.append(verdict(wordsOfLoad(BODY)));
  page.append(section('Latency', charts([distribution('Latency of answered requests', shares,
    [{name: 'from the intended sending', values: BODY.curves.latency_ms}, {name: 'from the real sending', values: BODY.curves.service_ms, dash: '4 3'}], limits, {about: 'The dot is p99.'})])));
  page.append(overTime(BODY.series, limits, report.warm_up_s));
  if (report.models.length > 1) page.append(multiples(BODY.models, report.models, shares, [['latency_ms', 'from the intended sending'], ['service_ms', 'from the real sending']]));
  const columns = [
    {name: 'model', of: of('name'), word: true}, sloColumn, {name: 'arrived', of: of('arrived'), format: whole}, {name: 'offered/s', of: of('offered_per_s'), format: fixed(1)},
    {name: 'good/s', of: of('good_per_s'), format: fixed(1)}, ...['ok', 'late', 'rejected', 'failed', 'timed_out', 'broken', 'cancelled'].map((key) => ({name: key.replace('_', ' '), of: of(key), format: whole})),
    badColumn, ...latencies('latency_ms', '', ['mean', 'p50', 'p90']), p99Column, ...latencies('latency_ms', '', ['p999', 'max']), ...latencies('service_ms', 'service', ['p99']), ...latencies('lag_ms', 'lag', ['p99']),
  ];
  const rows = report.models.map((m, i) => ({...m, slo_ms: BODY.models[i].slo_ms}));
  page.append(section('Figures', table('By model', columns, rows, [{...report.total, name: 'all', slo_ms: rows.length === 1 ? rows[0].slo_ms : undefined}]),
    Object.keys(report.reasons).length ? table('What went wrong', [{name: 'times', of: of('1'), format: whole}, {name: 'reason', of: of('0'), word: true}], Object.entries(report.reasons)) : '',
    el('p', {class: 'note'}, 'Sent ' + number(report.total.lag_ms.p50) + ' ms after the intended instant at p50, ' + number(report.total.lag_ms.p99) + ' ms at p99; ' +
      count(report.connections_opened, 'connection') + ' opened; the generator used ' + number(report.generator_cpu_s) + ' s of processor time.')));
  return report.seed;
}

/* ---- around it ---- */

function subtitle(text) { document.getElementById('subtitle').textContent = text; }

function drawFooter(seed) {
  const {command, machine, cores, date, version} = DATA.origin;
  const facts = [['machine', machine + ', ' + count(cores, 'core')], ['date', date], ['command', el('code', {}, command)], ['seed', known(seed) ? String(seed) : ''], ['program', 'tutti ' + version]];
  const button = el('button', {type: 'button', onclick: () => save(fileName('data', 'json'), 'application/json', JSON.stringify(BODY, null, 1))}, 'All data as JSON');
  document.getElementById('footer').append(el('dl', {}, facts.filter(([, v]) => v).map(([k, v]) => [el('dt', {}, k), el('dd', {}, v)])), button);
}

const KINDS = {
  runs: {title: 'Experiment', draw: drawRuns}, compare: {title: 'Comparison', draw: drawComparison},
  goodput: {title: 'Goodput', draw: drawGoodput}, load: {title: 'Load', draw: drawLoad},
};
document.title = document.getElementById('title').textContent = DATA.title = DATA.title || KINDS[DATA.kind].title;
startTheme();
applyTheme();
drawFooter(KINDS[DATA.kind].draw());
