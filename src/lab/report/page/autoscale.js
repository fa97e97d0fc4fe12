/* The page of a fleet that follows its load: Symphony's figure 15, four charts over the hours, and the servers beside
 * it. */

function drawAutoscale() {
  const run = BODY, hours = run.points.hour, at = run.points;
  subtitle(
      count(run.models.length, 'model') + ', at most ' + count(run.capacity, 'device') + ', ' + number(run.hours) +
      ' hours of ' + (run.processes ? 'load on ' + count(run.processes.backends, 'backend') : 'virtual time'));
  page.append(verdict(run.verdict.trim().split('\n')));
  const line = (name, index, values, scale) =>
      ({name, index, points: (values || []).map((y, i) => ({x: hours[i], y: (scale || 1) * y}))});
  const draw = (name, title, unit, series, about) =>
      plot({name, about, x: {title: 'time', unit: 'h'}, y: {title, unit}, series});
  const servers = run.servers, more = (...lines) => (servers ? lines : []);
  const fewest = {name: 'fewest', index: 3, points: run.fewest.map((f) => ({x: f.hour, y: f.fewest}))};
  page.append(
      section('Over time', charts([
                draw(
                    'Requests', 'requests', 'r/s',
                    [
                      line('offered', 0, at.offered_per_s),
                      line('in time', 1, at.good_per_s),
                      ...more(line('servers, in time', 2, at.server_good_per_s)),
                    ]),
                draw(
                    'Devices', 'fleet', 'devices',
                    [
                      line('up', 0, at.devices),
                      line('used', 1, at.devices_used),
                      line('wanted', 4, at.devices_wanted),
                      ...more(line('servers', 2, at.servers)),
                      ...(run.fewest.length ? [fewest] : []),
                    ]),
                draw(
                    'Advice', 'to add', 'devices',
                    [line('advice', 0, at.advice), line('published advice', 1, at.published_advice)],
                    'Below zero: devices that could go. Published: N r / (1 - r), and N f.'),
                draw('Batches', 'mean', 'rows', [line('rows per batch', 0, at.rows_per_batch)]),
                draw('Use', 'busy', '%', [line('busy devices, of those up', 0, at.busy_share, 100)]),
                draw(
                    'Bad requests', 'bad', '%',
                    [line('fleet', 0, at.bad_rate, 100), ...more(line('servers', 2, at.server_bad_rate, 100))]),
              ])));
  const series = run.models.map((m, index) => line(m.name, index, m.good_per_s));
  page.append(section('Models', charts([draw('Requests in time, by model', 'requests', 'r/s', series)])));
  const rows = [{
    name: 'fleet by the advice',
    bad: run.bad_rate,
    settled: run.bad_rate_settled,
    devices: run.mean_devices,
    over: run.over_fewest
  }];
  if (servers)
    rows.push({
      name: 'servers behind a proxy',
      bad: servers.bad_rate,
      devices: servers.mean_servers,
      over: servers.over_fewest > 0 ? servers.over_fewest : undefined
    });
  const share = (key) => (row) => (known(row[key]) ? 100 * row[key] : undefined);
  page.append(section(
      'Figures',
      table(
          'The whole time',
          [
            {name: 'system', of: of('name'), word: true},
            {name: 'bad %', of: share('bad'), format: fixed(3)},
            {name: 'bad % outside of start-ups after jumps', of: share('settled'), format: fixed(3)},
            {name: 'devices', of: of('devices'), format: fixed(1)},
            {name: 'over the fewest', of: of('over'), format: fixed(3)},
          ],
          rows)));
}
