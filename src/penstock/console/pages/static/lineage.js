// Lights up the way data took through the node that somebody points at or has the focus on.
(() => {
  const known = new WeakMap();
  const edgesOf = (svg) => {
    if (!known.has(svg)) {
      const edges = { from: new Map(), to: new Map() };
      for (const each of svg.querySelectorAll("path[data-from]"))
        for (const end of ["from", "to"]) {
          const key = each.getAttribute(`data-${end}`);
          if (!edges[end].has(key)) edges[end].set(key, []);
          edges[end].get(key).push(each);
        }
      known.set(svg, edges);
    }
    return known.get(svg);
  };
  const reach = (svg, key, from, to) => {
    const seen = new Set([key]), ways = new Set(), edges = edgesOf(svg)[from];
    for (let waiting = [key]; waiting.length; ) {
      const at = waiting.pop();
      for (const edge of edges.get(at) ?? []) {
        ways.add(edge);
        const next = edge.getAttribute(`data-${to}`);
        if (!seen.has(next)) { seen.add(next); waiting.push(next); }
      }
    }
    return [seen, ways];
  };
  const light = (event) => {
    const node = event.target.closest?.(".lineage .node") ?? event.target.querySelector?.(".node");
    const svg = node?.closest("svg");
    if (!svg) return;
    const key = node.getAttribute("data-key");
    const [after, down] = reach(svg, key, "from", "to"), [before, up] = reach(svg, key, "to", "from");
    svg.classList.add("lit");
    for (const each of svg.querySelectorAll(".node"))
      each.classList.toggle("on", after.has(each.dataset.key) || before.has(each.dataset.key));
    for (const each of svg.querySelectorAll("path[data-from]"))
      each.classList.toggle("on", down.has(each) || up.has(each));
  };
  const dim = (event) => event.target.closest?.(".lineage svg")?.classList.remove("lit");
  document.addEventListener("mouseover", (event) => event.target.closest?.(".lineage .node") && light(event));
  document.addEventListener("mouseout", dim);
  document.addEventListener("focusin", (event) => event.target.closest?.(".lineage a") && light(event));
  document.addEventListener("focusout", dim);
})();
