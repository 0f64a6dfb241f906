// SPDX-License-Identifier: Apache-2.0
// What a report does beyond showing itself: the values of marks on hover and by arrow keys, hiding a
// series by its legend entry, and files of a figure and its numbers.
'use strict';
for (const figure of document.querySelectorAll('figure')) {
  const plot = figure.querySelector('.plot');
  const svg = plot.querySelector('svg');
  const data = JSON.parse(figure.querySelector('.data').textContent);
  const cursor = document.createElementNS('http://www.w3.org/2000/svg', 'circle');
  const tip = document.createElement('div');
  const hidden = new Set();
  let marks = null;    // of all series, each with its place in pixels; made when first needed
  let current = null;  // the mark whose value is shown

  cursor.setAttribute('class', 'cursor off');
  cursor.setAttribute('r', '8');
  svg.append(cursor);
  tip.className = 'tip off';
  tip.setAttribute('role', 'status');
  plot.append(tip);

  const readable = (value) => Math.abs(value) >= 1e15 || (value !== 0 && Math.abs(value) < 1e-4) ?
      value.toExponential(4) : Number(value.toPrecision(5)).toLocaleString('en', {maximumFractionDigits: 9});
  const place = (x) => (data.categories.length > 0 ? data.categories[x] : x);

  const text_of = (series, [, , x, y, low, high, label]) => {
    const lines = series.name ? [series.name] : [];
    if (data.spans) return [...lines, place(x), label, `${readable(low)} to ${readable(high)}`].join('\n');
    const named = (name, value) => (name ? `${name}: ${value}` : value);
    const range = low !== undefined && low !== null ? ` (${readable(low)} to ${readable(high)})` : '';
    lines.push(data.categories.length > 0 ? place(x) : named(data.x, readable(x)), named(data.y, readable(y)) + range);
    return (label ? [...lines, label] : lines).join('\n');
  };

  const all = () => {
    marks = marks || data.series.flatMap((series, index) => series.points.map(
        (point) => ({index, x: point[0], y: point[1], point})).sort((a, b) => a.x - b.x || a.y - b.y));
    return marks.filter((mark) => !hidden.has(mark.index));
  };

  const show = (mark) => {
    current = mark;
    cursor.classList.toggle('off', !mark);
    tip.classList.toggle('off', !mark);
    if (!mark) return;
    cursor.setAttribute('cx', mark.x);
    cursor.setAttribute('cy', mark.y);
    tip.textContent = text_of(data.series[mark.index], mark.point);
    const ratio = svg.clientWidth / svg.viewBox.baseVal.width;
    const right = mark.x * ratio > svg.clientWidth / 2;
    tip.style.left = (mark.x * ratio + (right ? -14 - tip.offsetWidth : 14)) + 'px';
    tip.style.top = Math.max(0, mark.y * ratio - tip.offsetHeight - 8) + 'px';
  };

  const nearest = (marks_there, at) => {
    const distance = (mark) => Math.hypot(mark.x - at.x, mark.y - at.y);
    return marks_there.reduce((best, mark) => (!best || distance(mark) < distance(best) ? mark : best), null);
  };

  plot.addEventListener('pointermove', (event) => {
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    const close = nearest(all(), at);
    show(close && Math.hypot(close.x - at.x, close.y - at.y) < 24 ? close : null);
  });
  plot.addEventListener('pointerleave', () => show(null));
  plot.addEventListener('blur', () => show(null));

  // Left and right: along a series. Up and down: to the nearest mark of the series before or after.
  plot.addEventListener('keydown', (event) => {
    const there = all();
    const series = current && there.filter((mark) => mark.index === current.index);
    const indices = Array.from(new Set(there.map((mark) => mark.index)));
    const beside = (step) => series[Math.min(Math.max(series.indexOf(current) + step, 0), series.length - 1)];
    const other = (step) => {
      const index = indices[(indices.indexOf(current.index) + step + indices.length) % indices.length];
      return nearest(there.filter((mark) => mark.index === index), current);
    };
    const moves = {
      ArrowLeft: () => beside(-1), ArrowRight: () => beside(1), ArrowUp: () => other(-1), ArrowDown: () => other(1),
      Home: () => series[0], End: () => series[series.length - 1], Escape: () => null,
    };
    if (!(event.key in moves) || there.length === 0 || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    show(current || event.key === 'Escape' ? moves[event.key]() : there[0]);
    if (current) cursor.scrollIntoView({block: 'nearest', inline: 'nearest'});
  });

  // Legend entries are plain text until there is a script that can do something with them.
  for (const entry of figure.querySelectorAll('.legend [data-series]')) {
    const button = document.createElement('button');
    const index = Number(entry.dataset.series);
    button.type = 'button';
    button.setAttribute('aria-pressed', 'true');
    button.append(...entry.childNodes);
    button.addEventListener('click', () => {
      const hides = !hidden.delete(index);
      if (hides) hidden.add(index);
      button.setAttribute('aria-pressed', String(!hides));
      for (const part of svg.querySelectorAll('.series[data-series="' + index + '"]')) part.classList.toggle('off', hides);
      show(null);
    });
    entry.replaceWith(button);
  }

  // The figure as it is seen, on paper's white, and its numbers.
  const files = document.createElement('p');
  const offer = (name, type, make) => {
    const button = document.createElement('button');
    button.type = 'button';
    button.textContent = 'Save ' + name.toUpperCase();
    button.setAttribute('aria-label', button.textContent + ' of ' + figure.querySelector('h3').textContent);
    button.addEventListener('click', () => {
      const link = document.createElement('a');
      link.href = URL.createObjectURL(new Blob([make()], {type}));
      link.download = data.id + '.' + name;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    });
    files.append(button);
  };
  offer('svg', 'image/svg+xml', () => {
    const copy = svg.cloneNode(true);
    for (const part of copy.querySelectorAll('.cursor, .off')) part.remove();
    copy.style.background = '#ffffff';
    return new XMLSerializer().serializeToString(copy);
  });
  offer('csv', 'text/csv', () => {
    const cell = (value) => (/[",\r\n]/.test(value) ? '"' + value.replaceAll('"', '""') + '"' : value);
    const head = data.spans ? ['series', 'row', 'length', 'begin', 'end', 'label'] :
        ['series', data.x || 'category', data.y || 'y', 'low', 'high', 'label'];
    const rows = data.series.flatMap((series) => series.points.map(
        ([, , x, y, low, high, label]) => [series.name, place(x), y, low, high, label]));
    return [head, ...rows].map((row) => row.map((value) => cell(String(value ?? ''))).join(',') + '\r\n').join('');
  });
  files.className = 'files';
  figure.querySelector('details').before(files);
}
