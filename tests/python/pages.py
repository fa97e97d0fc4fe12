"""The data inside of a report page."""
import json
import re


def data_of(path):
    """What the page at `path` draws; fails where the page has no data, or more than one piece of it."""
    (found,) = re.findall('<script type="application/json" id="data">(.*?)</script>', path.read_text(), re.S)
    return json.loads(found)

# Texts of a picture that are cut off or overlap.
LOOK_AT_TEXTS = r"""
  const lookAtTexts = (texts, box, say) => texts.forEach(({node, r}, i) => {
    if (r.left < box.left - 1 || r.right > box.right + 1 || r.top < box.top - 2 || r.bottom > box.bottom + 2) say('text is cut off', node);
    for (const other of texts.slice(i + 1)) {
      const x = Math.min(r.right, other.r.right) - Math.max(r.left, other.r.left);
      const y = Math.min(r.bottom, other.r.bottom) - Math.max(r.top, other.r.top);
      if (x > 1 && y > 3) say('texts overlap: ' + node.textContent + ' /', other.node);
    }
  });
"""

# What is wrong with the page that is open: one line each.
PROBLEMS = "(() => {" + LOOK_AT_TEXTS + r"""
  const out = [], wide = document.documentElement.clientWidth;
  const say = (what, node) => out.push(what + ': ' + (node.textContent || node.tagName).trim().slice(0, 60));
  const rect = (node) => node.getBoundingClientRect();
  if (document.documentElement.scrollWidth > wide) out.push('the page scrolls sideways');
  for (const node of document.querySelectorAll('body *')) {
    if ((node.closest('.scroll') && !node.matches('.scroll')) || node.closest('.tip') || node.closest('defs')) continue;
    const r = rect(node);
    if (r.width > 0 && (r.right > wide + 1 || r.left < -1)) say('wider than the screen', node);
  }
  for (const picture of document.querySelectorAll('.plot svg')) {
    const texts = [...picture.querySelectorAll('text')].map((node) => ({node, r: rect(node)})), box = rect(picture);
    lookAtTexts(texts, box, say);
    const seen = new Map();
    for (const curve of picture.querySelectorAll('.series .curve')) {
      const style = getComputedStyle(curve);
      for (const key of [style.stroke, style.stroke + style.strokeDasharray]) {
        if (seen.has(key) && seen.get(key) !== curve) say('two series look the same', curve.parentNode);
        seen.set(key, curve);
      }
    }
    const red = getComputedStyle(document.documentElement).getPropertyValue('--late').trim();
    for (const key of document.querySelectorAll('.model-key')) {
      if (key.getAttribute('fill') === red) say('a model has the colour of a missed deadline', key);
    }
    for (const title of picture.querySelectorAll('.axis')) {
      if (!/, \S/.test(title.textContent)) say('an axis without a unit', title);
    }
    if (!picture.getAttribute('aria-label')) say('no text alternative', picture);
  }
  const leaves = [...document.querySelectorAll('body *')].filter((node) => !node.closest('svg, .scroll, .tip, select, noscript') &&
      !node.children.length && node.textContent.trim() && rect(node).width > 0).map((node) => ({node, r: rect(node)}));
  leaves.forEach(({node, r}, i) => {
    for (const other of leaves.slice(i + 1)) {
      const x = Math.min(r.right, other.r.right) - Math.max(r.left, other.r.left);
      const y = Math.min(r.bottom, other.r.bottom) - Math.max(r.top, other.r.top);
      if (x > 2 && y > 3) say('texts overlap: ' + node.textContent.slice(0, 40) + ' /', other.node);
    }
  });
  if (document.querySelectorAll('h1').length !== 1) out.push('not one title');
  for (const node of document.querySelectorAll('button')) if (!node.textContent.trim()) say('a button without a name', node);
  if (!document.querySelector('meta[name=viewport]')) out.push('no viewport');
  if ([...document.querySelectorAll('[src], link[href]')].length) out.push('it loads something');
  return out;
})()"""

# The same of a picture that is open by itself.
PICTURE_PROBLEMS = "(() => {" + LOOK_AT_TEXTS + r"""
  const out = [], picture = document.documentElement, box = picture.getBoundingClientRect();
  const say = (what, node) => out.push(what + ': ' + node.textContent.trim().slice(0, 60));
  if (!picture.getAttribute('viewBox')) out.push('no viewBox: it cannot be scaled');
  if (box.right > innerWidth + 1) out.push('wider than the screen');
  const texts = [...picture.querySelectorAll('text')].filter((node) => node.textContent.trim()).map((node) => ({node, r: node.getBoundingClientRect()}));
  if (!texts.length) out.push('no text');
  lookAtTexts(texts, box, say);
  return out;
})()"""
