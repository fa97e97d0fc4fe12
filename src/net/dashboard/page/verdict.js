/* The state of the server in words: what one would ask first. */
const GOOD_SHARE = 0.99;

function reasonsOf(sum) {
  const all = Object.entries(sum.reasons).filter(([, n]) => n > 0).sort((a, b) => b[1] - a[1]);
  return all.map(([reason, n]) => reason + ' ' + whole(n)).join(', ');
}

function wordsOfModels(sums) {
  const busy = sums.filter((s) => s.sum.ended > 0), total = busy.reduce((n, s) => n + s.sum.ended, 0);
  const good = busy.reduce((n, s) => n + s.sum.on_time, 0), seconds = Math.max(0, ...busy.map((s) => s.sum.dt));
  if (!total) return ['No request ended in the last minute.'];
  const worse =
      busy.filter((s) => s.sum.bad_share > 1 - GOOD_SHARE).sort((a, b) => b.sum.bad_share - a.sum.bad_share);
  const ready = live.models.filter((m) => m.state === 'READY').length;
  const out =
      [percent(good / total) + ' of ' + count(total, 'request') +
       ' were answered in time: ' + number(good / seconds) + ' of ' + number(total / seconds) + ' a second.'];
  if (!worse.length) out.push('Every one of the ' + count(busy.length, 'busy model') + ' stays within 1 % bad.');
  for (const {model, sum} of worse.slice(0, 3))
    out.push(warn(titleOf(model) + ': ' + percent(sum.bad_share) + ' bad (' + reasonsOf(sum) + ').'));
  if (worse.length > 3) out.push(warn(worse.length - 3 + ' more models have over 1 % bad.'));
  if (busy.length < ready) out.push(count(ready - busy.length, 'ready model') + ' had no request.');
  return out;
}

/* Domains whose load needs another number of executors than they have; 0: not known yet. */
function wordsOfDomains(domains) {
  const off = domains.filter((d) => d.wanted > 0 && d.wanted !== d.executors);
  return off.slice(0, 3).map((d) => {
    const text = 'Domain ' + d.domain + ' (' + d.policy + ') needs ' + count(d.wanted, 'executor') + ' and has ' +
        d.executors + '.';
    return d.wanted > d.executors ? warn(text) : text;
  });
}

function wordsNow() {
  if (!live.state) return ['Waiting for the first figures.'];
  const out = wordsOfModels(live.models.map((model) => ({model, sum: summary(model.samples, 60)})));
  out.push(...wordsOfDomains(live.state.domains));
  const broken = live.models.filter((m) => m.state === 'UNAVAILABLE' && m.reason && m.reason !== 'unloaded');
  for (const model of broken.slice(0, 3)) out.push(warn(titleOf(model) + ' does not serve: ' + model.reason));
  if (broken.length > 3) out.push(warn(broken.length - 3 + ' more models do not serve.'));
  if (live.problem) out.unshift(warn(live.problem));
  return out;
}
const warn = (text) => ({warn: text});

const verdictBox = el('div', {class: 'verdict', role: 'status'});
function showVerdict() {
  verdictBox.replaceChildren(
      ...wordsNow().map((line) => el('p', {class: line.warn ? 'warning' : ''}, line.warn || line)));
}
