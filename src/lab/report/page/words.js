/* What a report comes to, in sentences: they stand before its charts. */
const AS_GOOD = 0.03; /* smaller differences are none */

const listed = (names) =>
    (names.length < 2 ? names.join('') : names.slice(0, -1).join(', ') + ' and ' + names[names.length - 1]);
const few = (names, most) =>
    (names.length <= most ? listed(names) :
                            names.slice(0, most).join(', ') + ' and ' + (names.length - most) + ' more');
const warn = (text) => ({warning: text});

function unitOf(parameter) {
  if (parameter === 'rate') return 'r/s';
  const ending = parameter.match(/_(ms|us|s|us_per_row)$/);
  if (ending) return {ms: 'ms', us: '\u00b5s', s: 's', us_per_row: '\u00b5s per row'}[ending[1]];
  if (parameter === 'max_batch') return 'rows';
  return /^(devices|executors|copies|requests|pool_slots|seed)$/.test(parameter) ? 'count' : '1';
}
const withUnit = (value, parameter) =>
    value + (['count', '1'].includes(unitOf(parameter)) ? '' : ' ' + unitOf(parameter));

/* ---- one run, or one load ---- */

const sloNames = (models) => {
  const slos = [...new Set(models.map((m) => m.slo_ms).filter(known))].sort((a, b) => a - b);
  return slos.length === 0 ? '' :
      slos.length === 1    ? number(slos[0]) + ' ms' :
                             number(slos[0]) + ' to ' + number(slos[slos.length - 1]) + ' ms';
};

function wordsOfFigures(report, models) {
  const total = report.total, slo = sloNames(models), out = [];
  if (total.arrived === 0) return ['Nothing arrived in the measured time.'];
  out.push(
      slo ? percent(1 - total.bad_rate) + ' of ' + count(total.arrived, 'request') + ' were answered in time: ' +
              number(total.good_per_s) + ' of ' + number(total.offered_per_s) + ' a second.' :
            count(total.ok, 'request') + ' answered, ' + percent(total.bad_rate) + ' bad; ' +
              number(total.good_per_s) + ' a second.');
  out.push(
      'Latency: p99 ' + number(total.latency_ms.p99) + ' ms, mean ' + number(total.latency_ms.mean) + ' ms' +
      (slo ? '; the SLO is ' + slo + '.' : '.'));
  if (report.models.length > 1 && total.bad_rate > 0) {
    const worst = report.models.reduce((a, b) => (b.bad_rate > a.bad_rate ? b : a));
    const good = report.models.filter((m) => m.bad_rate <= 0.01).length;
    out.push(
        'The worst model is ' + worst.name + ' with ' + percent(worst.bad_rate) + ' bad; ' + good + ' of ' +
        report.models.length + ' models stay within 1 %.');
  }
  if (report.interrupted) out.push(warn('It was interrupted: the figures are incomplete.'));
  return out;
}

function wordsOfLive(report) {
  const live = report.live, out = [];
  if (!live) return out;
  if (live.doubtful)
    out.push(warn(
        '? Doubtful (' + report.world + '): the load generator fell behind, and latencies are in part its own. ' +
        'Offer fewer requests, or use a machine with less to do.'));
  if (live.left_out)
    out.push('Only simulated, and not done in the ' + report.world + ' world: ' + live.left_out + '.');
  if (live.first_failure) out.push(warn('The first failure (' + report.world + '): ' + live.first_failure));
  return out;
}

function wordsOfRun(run) {
  const report = run.report, out = wordsOfFigures(report, run.models);
  for (const model of report.models.filter((m) => m.slo_is_hopeless))
    out.push(warn('The SLO of ' + model.name + ' is below what one request takes alone: none can meet it.'));
  const used = report.devices_used + ' of ' + count(report.devices, 'device') + ' used, ' +
      percent(report.utilisation) + ' busy';
  out.push(
      used +
      (report.advice.add_devices > 0 ? '; ' + number(report.advice.add_devices) + ' more would be needed.' : '.'));
  return out.concat(wordsOfLive(report));
}

function wordsOfRuns(runs) {
  if (runs.length === 1) return wordsOfRun(runs[0]);
  const base = runs[0].report;
  const beside = (text, of, show) => text + ': ' +
      runs.map(({report}, i) => {
            const value = of(report), first = of(base),
                  change = first > 0 ? Math.round((100 * (value - first)) / first) : 0;
            return report.world + ' ' + show(value) +
                (i && first > 0 ? ' (' + (change >= 0 ? '+' : '\u2212') + Math.abs(change) + ' %)' : '');
          })
          .join(', ') +
      '.';
  return [
    beside('p99 latency', (r) => r.total.latency_ms.p99, (v) => number(v) + ' ms'),
    beside('Mean latency', (r) => r.total.latency_ms.mean, (v) => number(v) + ' ms'),
    'Bad requests: ' + runs.map(({report}) => report.world + ' ' + percent(report.total.bad_rate)).join(', ') + '.',
    ...runs.flatMap(({report}) => wordsOfLive(report))
  ];
}

function wordsOfLoad(body) {
  const report = body.report, total = report.total, out = wordsOfFigures(report, body.models);
  if (report.loop === 'closed')
    out.push('Closed loop: latencies are those of ' + report.concurrency + ' patient clients only.');
  else if (total.lag_ms.p99 > total.latency_ms.p99 / 2)
    out.push(warn(
        '? The generator lags: requests waited for a connection or for its processor, ' +
        'and that is in the latencies (--connections, fewer requests a second).'));
  const reasons = Object.entries(report.reasons).sort((a, b) => b[1] - a[1]);
  if (reasons.length) out.push('Most often went wrong: ' + reasons[0][0] + ' (' + whole(reasons[0][1]) + ').');
  return out;
}

/* ---- contenders along a parameter ---- */

/* Where all contenders with figures are within AS_GOOD of each other. */
function without(figures, values, names) {
  return values.filter((value) => {
    const all = names.map((name) => figures(name, value)).filter(known);
    return all.length === names.length && Math.max(...all) - Math.min(...all) <= AS_GOOD * Math.max(...all);
  });
}

/* "below 400 r/s", "at 30 and 60 r/s": of values in order, those in `some`. */
function where(some, values, parameter) {
  const at = some.map((v) => values.indexOf(v)), isRun = at.every((k, i) => !i || k === at[i - 1] + 1);
  if (some.length === values.length) return 'at any ' + parameter;
  if (isRun && some.length > 1 && at[0] === 0) return 'up to ' + withUnit(some[some.length - 1], parameter);
  if (isRun && some.length > 1 && at[at.length - 1] === values.length - 1)
    return 'from ' + withUnit(some[0], parameter) + ' on';
  return 'at ' + withUnit(listed(some), parameter);
}

function wordsOfMetric(metric, best, values, names, parameter) {
  const plural = parameter === 'rate' ? 'rates' : 'values of ' + parameter;
  const out =
      names.map((name) => values.filter((v) => best[v] && best[v].includes(name) && best[v].length < names.length));
  const most = Math.max(...out.map((v) => v.length));
  const same = without(metric.figures, values, names);
  const equal = same.length ? 'no difference beyond 3 % ' + where(same, values, parameter) : '';
  if (most === 0) return 'By ' + metric.name + ' ' + (equal || 'none is better than all others') + '.';
  const top = names.filter((_, i) => out[i].length === most),
        others = names.filter((_, i) => out[i].length > 0 && out[i].length < most)
                     .sort((a, b) => out[names.indexOf(b)].length - out[names.indexOf(a)].length);
  const at = most === values.length ? 'every one of ' + most : most + ' of ' + values.length;
  return few(top, 2) + (top.length > 1 ? ' are' : ' is') + ' best at ' + at + ' ' + plural + ' by ' + metric.name +
      (others.length ? ' (next: ' + others[0] + ' at ' + out[names.indexOf(others[0])].length + ')' : '') +
      (equal ? '; ' + equal : '') + '.';
}

function wordsOfComparison(body, metrics, values) {
  const out =
      metrics.filter((m) => m.judged)
          .map((m) => wordsOfMetric(m, body.report.best[m.judged], values, body.contenders, body.report.parameter));
  const doubtful = values.filter(
      (v) => body.report.points.some((p) => p.live && p.live.doubtful && p.point[body.report.parameter] === v));
  if (doubtful.length)
    out.push(warn(
        '? Doubtful ' + where(doubtful, values, body.report.parameter) +
        ': the load generator fell behind, latencies are in part its own, and none is called best there.'));
  if (body.report.points.some((p) => p.interrupted))
    out.push(warn('It was interrupted: some figures are incomplete.'));
  out.push('Best is whatever is within 1 % of the best.');
  return out;
}

/* ---- goodput ---- */

/* At how many of the values of `along` which group has the highest goodput. */
function wordsAlong(points, along, groups, groupOf) {
  const values = [...new Set(points.map((p) => p.point[along]))];
  const wins = groups.map(
      (group) => values
                     .filter((value) => {
                       const there = points.filter((p) => p.point[along] === value),
                             high = Math.max(...there.map((p) => p.goodput_per_s));
                       return there.some((p) => groupOf(p) === group && p.goodput_per_s >= 0.99 * high);
                     })
                     .length);
  const most = Math.max(...wins), top = groups.filter((_, i) => wins[i] === most);
  return few(top, 3) + (top.length > 1 ? ' are' : ' is') + ' best at ' +
      (most === values.length ? 'all ' : most + ' of ') + values.length + ' values of ' + along + '.';
}

function wordsOfGoodput(points, nameOf, along, groups, groupOf) {
  if (!points.length) return ['No point was searched.'];
  const best = points.reduce((a, b) => (b.goodput_per_s > a.goodput_per_s ? b : a));
  const near = points.filter((p) => p.goodput_per_s >= 0.99 * best.goodput_per_s), name = nameOf(best);
  const out =
      ['The highest goodput is ' + number(best.goodput_per_s) + ' r/s' +
       (points.length > 1 && name ? ' (' + name + ').' : '.')];
  if (along && groups.length > 1) out.push(wordsAlong(points, along, groups, groupOf));
  if (points.length > 1)
    out.push(
        near.length === points.length ?
            'All ' + points.length + ' settings are within 1 % of it.' :
            (near.length === 1 ? 'No other setting is' : near.length + ' of ' + points.length + ' settings are') +
                ' within 1 % of it; the least is ' + number(Math.min(...points.map((p) => p.goodput_per_s))) +
                ' r/s.');
  if (known(best.staggered_per_s))
    out.push(
        'That is ' + percent(best.goodput_per_s / best.staggered_per_s) +
        ' of what staggered batches of evenly arriving requests allow.');
  if (known(best.impossible_per_s))
    out.push(
        'At ' + number(best.impossible_per_s) +
        ' r/s no scheduler keeps the limit, even if it knows all requests in advance: this is ' +
        percent(best.share_of_possible) + ' of the possible.');
  out.push('Goodput is the highest rate at which at most 1 % of the requests of every model are late or dropped.');
  if (points.some((p) => p.interrupted)) out.push(warn('It was interrupted: some searches are incomplete.'));
  return out;
}
