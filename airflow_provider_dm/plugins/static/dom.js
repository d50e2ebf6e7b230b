// Creates elements, and updates the page without losing focus, selection or unfolded details.

const SVG = "http://www.w3.org/2000/svg";
const SVG_TAGS = new Set(["svg", "path", "line", "circle", "g", "rect", "polyline", "ellipse"]);

/** An element. `props` are attributes; false, null and undefined leave one out, true is an empty one. */
export function h(tag, props = {}, ...children) {
  const node = SVG_TAGS.has(tag) ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === false || value === null || value === undefined) continue;
    node.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child === false || child === null || child === undefined) continue;
    node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return node;
}

/** Replace the children of `root` by `children`; equal nodes are kept. */
export function render(root, ...children) {
  patchChildren(root, h("div", {}, ...children));
}

function patch(old, fresh) {
  const same =
    old.nodeType === fresh.nodeType &&
    old.nodeName === fresh.nodeName &&
    old.dataset?.key === fresh.dataset?.key;
  if (!same) {
    old.replaceWith(fresh);
    return;
  }
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return;
  }
  for (const { name } of [...old.attributes]) {
    const keptByUser = name === "open" && old.nodeName === "DETAILS";
    if (!fresh.hasAttribute(name) && !keptByUser) old.removeAttribute(name);
  }
  for (const { name, value } of [...fresh.attributes]) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  patchChildren(old, fresh);
}

function patchChildren(old, fresh) {
  const wanted = [...fresh.childNodes];
  wanted.forEach((child, index) => {
    const here = old.childNodes[index];
    if (here === undefined) old.append(child);
    else patch(here, child);
  });
  while (old.childNodes.length > wanted.length) old.lastChild.remove();
}
