/* The pages of comparisons, searches and loads; and what starts each kind. */

/* ---- contenders along a parameter ---- */

function drawComparison() {
  const {contenders, report} = BODY, parameter = report.parameter, points = report.points;
  const values = [...new Set(points.map((p) => p.point[parameter]))].sort((a, b) => a - b),
        measured = values.map(Number);
  const found = (name, value) => points.find((p) => p.point.contender === name && p.point[parameter] === value);
  const metric = (name, unit, path, more) => ({name, unit, at: path, figures: (c, v) => path(found(c, v)), ...more});
  const slo = parameter === 'slo_ms' || !known(BODY.slo_ms) ?
      [] :
      [{y: BODY.slo_ms, text: 'SLO ' + number(BODY.slo_ms) + ' ms'}];
  const offered = {
    text: 'offered',
    points: measured.map((x, i) => ({x, y: (of('total', 'offered_per_s')(found(contenders[0], values[i])))})),
    y: (x) => (parameter === 'rate' ? x : undefined)
  };
  const promise = {text: 'SLO', points: measured.map((x) => ({x, y: x})), y: (x) => x};
  const ends = {others: parameter === 'slo_ms' ? [promise] : []};
  const metrics = [
    metric(
        'answers in time', 'r/s', of('total', 'good_per_s'),
        {judged: 'good_per_s', others: [offered], about: 'Dotted: the offered rate.'}),
    metric('p99 latency', 'ms', of('total', 'latency_ms', 'p99'), {judged: 'p99_ms', log: 25, across: slo, ...ends}),
    metric(
        'mean latency', 'ms', of('total', 'latency_ms', 'mean'), {judged: 'mean_ms', log: 25, across: slo, ...ends}),
    metric('bad requests', '%', (p) => (p ? 100 * p.total.bad_rate : undefined), {}),
    metric('mean batch', 'rows', of('total', 'batch', 'mean'), {}),
    metric(
        'share of the possible', '%', (p) => (p && p.possible ? 100 * p.possible.share_of_possible : undefined), {}),
    metric('mean latency over the least possible', 'times', of('possible', 'mean_over_least'), {log: 25}),
    metric('peak memory of the process', 'MiB', of('live', 'peak_memory_mib'), {}),
  ].filter((m) => points.some((p) => known(m.at(p))));
  const world = [...new Set(points.map((p) => p.world))].join(', ');
  subtitle(
      world + ', ' + contenders.length + ' contenders at ' +
      count(values.length, parameter === 'rate' ? 'rate' : 'value') +
      (parameter === 'rate' ? '' : ' of ' + parameter));
  page.append(verdict(wordsOfComparison(BODY, metrics, values)));
  const draw = (m) => plot({
    name: m.name.replace(/^[a-oq-z]/, (c) => c.toUpperCase()),
    about: m.about,
    across: m.across,
    others: m.others,
    x: {title: parameter, unit: unitOf(parameter), measured, format: (v) => String(v)},
    y: {title: m.name, unit: m.unit, log: m.log},
    series: contenders.map((name, index) => ({
                             name,
                             index,
                             points: values.map((v) => {
                               const point = found(name, v);
                               return {
                                 x: Number(v),
                                 y: point ? m.at(point) : undefined,
                                 doubt: Boolean(point && point.live && point.live.doubtful)
                               };
                             })
                           })),
  });
  page.append(section(
      'Along ' + parameter,
      points.some((p) => p.live && p.live.doubtful) ?
          el('p', {class: 'note'}, 'A hollow point with "?" is doubtful: the load generator fell behind there.') :
          '',
      charts(metrics.map(draw))));
  const rows = points.map((p) => ({
                            ...p.total,
                            p,
                            contender: p.point.contender,
                            x: Number(p.point[parameter]),
                            slo_ms: parameter === 'slo_ms' ? Number(p.point.slo_ms) : BODY.slo_ms
                          }));
  const columns = runColumns.slice(1).filter((c) => c.name !== 'cancelled');
  page.append(section(
      'Figures',
      table(
          'All points',
          [
            {name: withComma(parameter, unitOf(parameter)), of: of('x'), format: (v) => String(v)},
            {name: 'contender', of: of('contender'), word: true, doubt: (row) => row.p.live && row.p.live.doubtful},
            ...columns,
            {name: 'busy %', of: (row) => 100 * row.p.utilisation, format: fixed(1)},
            ...(points.some((p) => p.live) ?
                    [{name: 'memory MiB', of: of('p', 'live', 'peak_memory_mib'), format: fixed(1)}] :
                    []),
          ],
          rows)));
  return points.length ? points[0].seed : undefined;
}
const withComma = (name, unit) => (['1', 'count'].includes(unit) ? name : name + ', ' + unit);

/* ---- goodput ---- */

/* Goodput over the parameter `along`, a line for each setting of the others. */
function goodputLines(points, along, groups, groupOf) {
  const xs = [...new Set(points.map((p) => Number(p.point[along])))].sort((a, b) => a - b);
  const at = (group, x) => points.find((p) => groupOf(p) === group && Number(p.point[along]) === x);
  const lineOf = (group) => {
    const line = xs.map((x) => ({x, y: of('goodput_per_s')(at(group, x))}));
    return {name: group || 'goodput', points: line};
  };
  const x = {title: along, unit: unitOf(along), measured: xs, format: (v) => String(v)};
  const y = {title: 'goodput', unit: 'r/s', log: 100};
  const name = 'Goodput along ' + along;
  return section('Along ' + along, charts([plot({name, x, y, series: groups.map(lineOf)})]));
}

function goodputBars(points, nameOf, name) {
  const bounds = points.some((p) => known(p.staggered_per_s));
  const rows = points.map((p) => {
    const about = number(p.goodput_per_s) + ' r/s; worst model ' + percent(p.worst_bad_rate) + ' bad';
    return {
      name: nameOf(p) || 'goodput',
      value: p.goodput_per_s,
      low: p.goodput_per_s_min,
      high: p.goodput_per_s_max,
      marks: bounds ? [p.staggered_per_s, p.uncoordinated_per_s] : [],
      about: nameOf(p) + ': ' + about + '; median batch ' + p.median_batch,
    };
  });
  const marks = bounds ? ['bound: even arrivals, staggered batches', 'without coordination'] : [];
  return section('By setting', charts([bars({name, title: 'goodput', unit: 'r/s', rows, marks})]));
}

function goodputTable(points, keys, isNumeric) {
  const setting = (key) => ({
    name: withComma(key, unitOf(key)),
    of: (p) => (isNumeric(key) ? Number(p.point[key]) : p.point[key]),
    word: !isNumeric(key),
    format: (v) => String(v),
  });
  const seeds = [
    {name: 'least', of: of('goodput_per_s_min'), format: fixed(1)},
    {name: 'most', of: of('goodput_per_s_max'), format: fixed(1)},
    {name: 'seeds', of: of('seeds'), format: whole},
  ];
  const bounds = [
    {name: 'bound r/s', of: of('staggered_per_s'), format: fixed(1)},
    {name: '% of bound', of: (p) => (100 * p.goodput_per_s) / p.staggered_per_s, format: fixed(1)},
  ];
  const possible = [
    {name: 'impossible r/s', of: of('impossible_per_s'), format: fixed(1)},
    {name: '% of the possible', of: (p) => 100 * p.share_of_possible, format: fixed(1)},
  ];
  return table(
      'All settings',
      [
        ...keys.map(setting),
        {name: 'goodput r/s', of: of('goodput_per_s'), format: fixed(1)},
        {name: 'bad at r/s', of: of('bad_at_per_s'), format: fixed(1)},
        ...(points.some((p) => known(p.goodput_per_s_min)) ? seeds : []),
        {name: 'worst bad %', of: (p) => 100 * p.worst_bad_rate, format: fixed(3)},
        {name: 'median batch', of: of('median_batch'), format: whole},
        ...(points.some((p) => known(p.staggered_per_s)) ? bounds : []),
        ...(points.some((p) => known(p.impossible_per_s)) ? possible : []),
        {name: 'requests per run', of: of('requests_per_run'), format: whole},
        {name: 'runs', of: of('runs'), format: whole},
      ],
      points);
}

function drawGoodput() {
  const points = BODY.points, keys = [...new Set(points.flatMap((p) => Object.keys(p.point || {})))];
  const valuesOf = (key) => [...new Set(points.map((p) => p.point[key]))];
  const varied = keys.filter((key) => valuesOf(key).length > 1), named = varied.length ? varied : keys;
  const isNumeric = (key) => valuesOf(key).every((v) => v !== undefined && v !== '' && isFinite(v));
  const without = (key) => (p) => named.filter((k) => k !== key).map((k) => k + ' ' + p.point[k]).join(', ');
  const nameOf = without(null), numeric = varied.filter((k) => isNumeric(k) && valuesOf(k).length > 2);
  const along = numeric.sort((a, b) => valuesOf(b).length - valuesOf(a).length)[0], groupOf = without(along);
  const groups = along ? [...new Set(points.map(groupOf))] : [];
  const settings = points.length > 1 ? ', at ' + points.length + ' settings' : '';
  subtitle('Highest rate that every model bears, by search' + settings);
  page.append(verdict(wordsOfGoodput(points, nameOf, along, groups, groupOf)));
  if (along && groups.length <= 36) page.append(goodputLines(points, along, groups, groupOf));
  const order = along ? points : points.slice().sort((a, b) => b.goodput_per_s - a.goodput_per_s);
  const title = 'Goodput' + (along ? '' : ', the highest first');
  if (points.length) page.append(goodputBars(order, nameOf, title));
  page.append(section('Figures', goodputTable(points, keys, isNumeric)));
  return BODY.seed;
}

/* ---- a load ---- */

/* What was answered, and how late, while the load went on. */
function overTime(series, limits, warmUp) {
  const line = (name, key, index) => ({
    name,
    index,
    points: series[key].map((y, i) => ({x: (i + 0.5) * series.slice_s, y: y === null ? undefined : y}))
  });
  const x = {title: 'intended sending, from the start', unit: 's'},
        across = limits.map((l) => ({y: l.x, text: l.text}));
  if (series.good_per_s.length < 2) return '';
  return section(
      'Over time',
      el('p', {class: 'note'},
         'Each point is a slice of ' + number(series.slice_s) + ' s' +
             (warmUp > 0 ? '; the first ' + number(warmUp) + ' s are warm-up' : '') + '.'),
      charts([
        plot({
          name: 'Rate',
          plain: true,
          x,
          y: {title: 'requests', unit: 'r/s'},
          series: [line('in time', 'good_per_s', 0), line('bad', 'bad_per_s', 1)]
        }),
        plot({
          name: 'Latency of each slice',
          plain: true,
          x,
          y: {title: 'latency', unit: 'ms', log: 30},
          across,
          series: [line('p50', 'p50_ms', 0), line('p99', 'p99_ms', 1)]
        }),
      ]));
}

function drawLoad() {
  const report = BODY.report, limits = limitsOf(BODY.models), shares = BODY.shares;
  subtitle(
      report.url + ', ' + (report.loop === 'open' ? 'open loop' : 'closed loop of ' + report.concurrency) + ', ' +
      number(report.window_s) + ' s measured');
  page.append(verdict(wordsOfLoad(BODY)));
  page.append(section('Latency', charts([distribution(
                                     'Latency of answered requests', shares,
                                     [
                                       {name: 'from the intended sending', values: BODY.curves.latency_ms},
                                       {name: 'from the real sending', values: BODY.curves.service_ms, dash: '4 3'}
                                     ],
                                     limits, {about: 'The dot is p99.'})])));
  page.append(overTime(BODY.series, limits, report.warm_up_s));
  if (report.models.length > 1)
    page.append(multiples(
        BODY.models, report.models, shares,
        [['latency_ms', 'from the intended sending'], ['service_ms', 'from the real sending']]));
  const columns = [
    {name: 'model', of: of('name'), word: true},
    sloColumn,
    {name: 'arrived', of: of('arrived'), format: whole},
    {name: 'offered/s', of: of('offered_per_s'), format: fixed(1)},
    {name: 'good/s', of: of('good_per_s'), format: fixed(1)},
    ...['ok', 'late', 'rejected', 'failed', 'timed_out', 'broken', 'cancelled'].map(
        (key) => ({name: key.replace('_', ' '), of: of(key), format: whole})),
    badColumn,
    ...latencies('latency_ms', '', ['mean', 'p50', 'p90']),
    p99Column,
    ...latencies('latency_ms', '', ['p999', 'max']),
    ...latencies('service_ms', 'service', ['p99']),
    ...latencies('lag_ms', 'lag', ['p99']),
  ];
  const rows = report.models.map((m, i) => ({...m, slo_ms: BODY.models[i].slo_ms}));
  page.append(section(
      'Figures',
      table(
          'By model', columns, rows,
          [{...report.total, name: 'all', slo_ms: rows.length === 1 ? rows[0].slo_ms : undefined}]),
      Object.keys(report.reasons).length ?
          table(
              'What went wrong',
              [
                {name: 'times', of: of('1'), format: whole}, {name: 'reason', of: of('0'), word: true},
                {name: 'such as', of: of('2'), word: true}
              ],
              Object.entries(report.reasons)
                  .map(([reason, times]) => [reason, times, (report.reason_examples || {})[reason] || ''])) :
          '',
      el('p', {class: 'note'},
         'Sent ' + number(report.total.lag_ms.p50) + ' ms after the intended instant at p50, ' +
             number(report.total.lag_ms.p99) + ' ms at p99; ' + count(report.connections_opened, 'connection') +
             ' opened; the generator used ' + number(report.generator_cpu_s) + ' s of processor time.')));
  return report.seed;
}

/* ---- around it ---- */

function drawFooter(seed) {
  const {command, machine, cores, date, version} = DATA.origin;
  const facts = [
    ['machine', machine + ', ' + count(cores, 'core')], ['date', date], ['command', el('code', {}, command)],
    ['seed', known(seed) ? String(seed) : ''], ['program', 'tutti ' + version]
  ];
  const button =
      el('button', {
        type: 'button',
        onclick: () => save(fileName('data', 'json'), 'application/json', JSON.stringify(BODY, null, 1))
      },
         'All data as JSON');
  document.getElementById('footer').append(
      el('dl', {}, facts.filter(([, v]) => v).map(([k, v]) => [el('dt', {}, k), el('dd', {}, v)])), button);
}

const KINDS = {
  runs: {title: 'Experiment', draw: drawRuns},
  compare: {title: 'Comparison', draw: drawComparison},
  goodput: {title: 'Goodput', draw: drawGoodput},
  load: {title: 'Load', draw: drawLoad},
  plan: {title: 'Plan', draw: drawPlan},
  place: {title: 'Placement', draw: drawPlace},
  fleet: {title: 'Fleet plan', draw: drawFleet},
  autoscale: {title: 'Autoscaling', draw: drawAutoscale},
};
document.title = document.getElementById('title').textContent = DATA.title = DATA.title || KINDS[DATA.kind].title;
startTheme();
applyTheme();
drawFooter(KINDS[DATA.kind].draw());
