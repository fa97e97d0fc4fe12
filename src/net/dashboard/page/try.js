/* Trying the chosen model by hand, from its metadata; loading and unloading it where the server lets the page. */
const MAX_VALUES = 1 << 20, SHOWN_VALUES = 16;
const trial = {
  key: null,
  generation: null,
  inputs: []
};
const tryBox = el('div'), adminBox = el('div', {class: 'tools'}),
      adminSaid = el('p', {class: 'note', role: 'status'});

const pathOf = (model, verb) =>
    'v2/models/' + encodeURIComponent(model.name) + '/versions/' + encodeURIComponent(model.version) + verb;
async function answerOf(path, body) {
  const answer = await fetch(path, body === undefined ? {} : {method: 'POST', body: JSON.stringify(body)});
  const text = await answer.text(), json = text ? JSON.parse(text) : {};
  if (!answer.ok) throw new Error(json.error || 'HTTP status ' + answer.status);
  return json;
}

/* ---- inputs ---- */

const isText = (type) => type === 'BYTES', isWhole = (type) => /^U?INT/.test(type);
function valueOf(type, fill) {
  if (type === 'BOOL') return fill === 'random' ? Math.random() < 0.5 : fill === 'ones';
  if (fill !== 'random') return fill === 'ones' ? 1 : 0;
  return isWhole(type) ? Math.floor(Math.random() * 10) : +Math.random().toFixed(4);
}

/* The fields of one input; returns what they say as an input of the protocol. */
function inputField(spec) {
  const free = spec.shape.map(
      (n, i) => (
          n < 0 ? el('input', {type: 'number', min: 1, value: 1, 'aria-label': spec.name + ', dimension ' + i}) : n));
  const fill = el('select', {'aria-label': 'Values of ' + spec.name}, (isText(spec.datatype) ? ['written'] : [
                                                                        'random', 'zeros', 'ones', 'written'
                                                                      ]).map((f) => el('option', {value: f}, f)));
  const text = el('textarea', {
    'aria-label': 'Values of ' + spec.name + ' as JSON',
    spellcheck: 'false',
    hidden: isText(spec.datatype) ? null : ''
  });
  text.value = isText(spec.datatype) ? '["some text"]' : '[]';
  fill.addEventListener('change', () => {
    text.hidden = fill.value !== 'written';
    if (!text.hidden && text.value === '[]') text.value = JSON.stringify(made('zeros'));
  });
  const shape = () => free.map((n) => (typeof n === 'number' ? n : Number(n.value)));
  function made(how) {
    const values = shape().reduce((a, b) => a * b, 1);
    if (!(values <= MAX_VALUES))
      throw new Error(spec.name + ': this page makes at most ' + whole(MAX_VALUES) + ' values');
    return Array.from({length: values}, () => valueOf(spec.datatype, how));
  }
  const node =
      el('fieldset', {}, el('legend', {}, spec.name + ', ' + spec.datatype + ' [' + spec.shape.join(', ') + ']'),
         free.map((n, i) => (typeof n === 'number' ? '' : el('label', {}, i === 0 ? 'rows' : 'dimension ' + i, n))),
         el('label', {}, 'values', fill), text);
  const read = () => ({
    name: spec.name,
    datatype: spec.datatype,
    shape: shape(),
    data: fill.value === 'written' ? JSON.parse(text.value) : made(fill.value)
  });
  return {node, read};
}

function wordsOfOutput(output) {
  const shown = output.data.slice(0, SHOWN_VALUES)
                    .map((v) => (typeof v === 'number' ? String(+v.toPrecision(6)) : JSON.stringify(v)));
  return output.name + ' ' + output.datatype + ' [' + output.shape.join(', ') + ']: ' + shown.join(', ') +
      (output.data.length > SHOWN_VALUES ? ', ...' : '');
}

/* ---- the form ---- */

async function send(model, deadline, said) {
  said.className = '';
  said.textContent = 'Waiting for the answer.';
  try {
    const body = {inputs: trial.inputs.map((input) => input.read())};
    if (deadline.value) body.parameters = {timeout: Math.round(1000 * deadline.value)};
    const start = performance.now(), answer = await answerOf(pathOf(model, '/infer'), body);
    said.textContent = 'Answered after ' + number(performance.now() - start) + ' ms, as this browser sees it.\n' +
        answer.outputs.map(wordsOfOutput).join('\n');
  } catch (problem) {
    said.className = 'error';
    said.textContent = problem.message;
  }
}

async function makeForm(model) {
  const said = el('pre', {role: 'status'}),
        deadline = el('input', {type: 'number', min: 0, step: 'any', placeholder: 'SLO'});
  let metadata;
  try {
    metadata = await answerOf(pathOf(model, ''));
  } catch (problem) {
    tryBox.replaceChildren(el('p', {class: 'error'}, problem.message));
    return;
  }
  if (trial.key !== model.key) return; /* another one was chosen meanwhile */
  trial.inputs = metadata.inputs.map(inputField);
  const form = el(
      'form', {
        onsubmit: (event) => {
          event.preventDefault();
          send(model, deadline, said);
        }
      },
      trial.inputs.map((input) => input.node),
      el('div', {class: 'bar'}, el('label', {}, 'deadline, ms', deadline), el('button', {type: 'submit'}, 'Send')));
  tryBox.replaceChildren(form, said);
}

/* ---- loading and unloading ---- */

let armed = null; /* what a second click would unload */
async function command(model, verb) {
  if (verb === 'unload' && armed !== model.key) {
    armed = model.key;
    showAdmin(model);
    return;
  }
  armed = null;
  adminSaid.textContent = verb + 'ing ' + model.name + ' ...';
  try {
    await answerOf('v2/repository/models/' + encodeURIComponent(model.name) + '/' + verb, {});
    adminSaid.textContent = model.name + ': ' + verb + 'ed.';
  } catch (problem) {
    adminSaid.textContent = problem.message;
  }
}

function showAdmin(model) {
  const sign = [live.setup.admin, model.key, model.state, armed].join(' ');
  if (adminBox.dataset.sign === sign) return; /* buttons stay as they are while they are clicked */
  adminBox.dataset.sign = sign;
  if (!live.setup.admin) {
    adminBox.replaceChildren(
        el('p', {class: 'note'}, 'This page only shows. With --dashboard-admin it can load and unload models.'));
    return;
  }
  const button = (verb, text) => el('button', {type: 'button', onclick: () => command(model, verb)}, text);
  adminBox.replaceChildren(
      button('load', model.state === 'READY' ? 'Load again' : 'Load'),
      model.state === 'READY' ?
          button('unload', armed === model.key ? 'Unload ' + model.name + ': click again' : 'Unload') :
          '');
}

function showTry() {
  const model = live.models.find((m) => m.key === chosen);
  if (!model) return;
  if (armed !== model.key) armed = null;
  showAdmin(model);
  if (trial.key === model.key && trial.generation === live.state.generation) return;
  trial.key = model.key;
  trial.generation = live.state.generation;
  if (model.set)
    makeForm(model);
  else
    tryBox.replaceChildren(el('p', {class: 'note'}, 'This model does not serve.'));
}

const makeTry = () =>
    el('section', {}, el('h2', {}, 'Try it'), tryBox, el('h2', {}, 'Load and unload'), adminBox, adminSaid);
