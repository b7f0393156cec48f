// Helpers for elements. Data of the agent is inserted as text, never as markup.

const SVG = 'http://www.w3.org/2000/svg';

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else if (name === 'class') node.setAttribute('class', value);
    else node.setAttribute(name, value === true ? '' : String(value));
  }
  for (const child of children.flat()) {
    if (child !== null && child !== undefined && child !== '') node.append(child);
  }
  return node;
}

function el(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

function svg(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function byId(id) {
  return document.getElementById(id);
}

/** Sets a text only if it differs, so that screen readers do not read it again. */
function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function set(node, name, value) {
  const text = String(value);
  if (node.getAttribute(name) !== text) node.setAttribute(name, text);
}

function show(node, visible) {
  if (node.hidden === visible) node.hidden = !visible;
}

/**
 * Updates the children of `parent` to one for each of `items`, identified by `key`. With `hold`,
 * existing children keep their positions.
 */
function keyed(parent, items, key, create, update, hold) {
  const known = new Map();
  for (const child of [...parent.children]) known.set(child.dataset.key, child);
  const fresh = known.size > 0;
  const wanted = [];
  for (const item of items) {
    const name = key(item);
    let child = known.get(name);
    if (child) known.delete(name);
    else {
      child = create(item);
      child.dataset.key = name;
      if (fresh) child.classList.add('new');
    }
    update(child, item);
    wanted.push(child);
  }
  if (hold) {
    for (const child of wanted) if (!child.parentNode) parent.append(child);
    for (const child of known.values()) child.classList.add('gone');
    return;
  }
  for (const child of known.values()) child.remove();
  wanted.forEach((child, at) => {
    child.classList.remove('gone');
    if (parent.children[at] !== child) parent.insertBefore(child, parent.children[at] || null);
  });
}

/** Whether the element has the pointer or the focus, so that its rows should not move. */
function isHeld(node) {
  return node.matches(':hover') && matchMedia('(hover: hover)').matches;
}

/** A hash of a text, which is the same on every machine. */
function hash(text) {
  let h = 2166136261;
  for (let at = 0; at < text.length; at += 1) {
    h ^= text.charCodeAt(at);
    h = Math.imul(h, 16777619);
  }
  h ^= h >>> 15;
  h = Math.imul(h, 2246822507);
  h ^= h >>> 13;
  return h >>> 0;
}
