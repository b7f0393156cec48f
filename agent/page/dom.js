// Elements. Whatever comes from the network is text, never markup.

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

/** Changes a text only if it is another: nothing flickers, nothing is read out twice. */
function say(node, text) {
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
 * Makes the children of `parent` those of `items`, each known by its key. While `hold`
 * those that are there keep their places.
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

/** Whether the pointer or the keyboard is on it, so that it should stay as it is. */
function isHeld(node) {
  return node.matches(':hover') && matchMedia('(hover: hover)').matches;
}

/** The same number for the same text, everywhere. */
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
