/* Puts the page together and keeps it up to date. It asks nothing while it is paused or not to be seen. */
const section = (title, ...parts) => el('section', {}, title ? el('h2', {}, title) : '', ...parts);
let paused = false, asking = false;

function showAll() {
  const title = document.getElementById('title');
  title.dataset.state = paused ? 'paused' : live.problem ? 'lost' : live.state ? 'live' : '';
  showVerdict();
  if (!live.state) return;
  showModels();
  showExecutors();
  showDetail();
  showTry();
  document.getElementById('subtitle').textContent = 'tutti ' + live.setup.server_version + ', ' +
      count(live.models.filter((m) => m.state === 'READY').length, 'model') + ' serving, ' +
      count(live.lanes.size, 'executor') + (paused ? ', paused' : '');
}

async function step() {
  if (paused || document.hidden || asking) return;
  asking = true;
  try {
    take(await ask());
    live.problem = '';
  } catch (problem) {
    live.problem = 'The server does not answer (' + problem.message + '). What is shown is old.';
  }
  asking = false;
  showAll();
}

function startPause() {
  const button = document.getElementById('pause');
  button.addEventListener('click', () => {
    paused = !paused;
    button.textContent = paused ? 'Go on' : 'Pause';
    button.setAttribute('aria-pressed', String(paused));
    showAll();
    step();
  });
}

document.title = 'Tutti ' + location.host;
document.getElementById('title').textContent = 'Tutti at ' + location.host;
document.getElementById('main').append(
    verdictBox, section('Models', modelTable, el('div', {class: 'charts'}, allFigure), allNote), makeDetail(),
    section('Executors', makeExecutors()), makeTry());
document.getElementById('footer').append(
    el('p', {}, 'Asks the server once a second while it is open and to be seen, and never loads anything else. ',
       'The same figures: /metrics for Prometheus, /v2/debug/trace for Perfetto.'));
startTheme();
applyTheme();
startPause();
step();
setInterval(step, PERIOD_MS);
document.addEventListener('visibilitychange', step);
