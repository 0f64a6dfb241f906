// SPDX-License-Identifier: Apache-2.0
// What a report does beyond showing itself: the values of marks on hover and by arrow keys, and
// hiding a series by its legend entry. Without this script marks still have their native titles.
'use strict';
for (const figure of document.querySelectorAll('figure')) {
  const plot = figure.querySelector('.plot');
  const svg = plot.querySelector('svg');
  const make = (name) => document.createElementNS('http://www.w3.org/2000/svg', name);
  const cursor = make('circle');
  const tip = document.createElement('div');
  let marks = null;    // of all series; made when first needed
  let current = null;  // the mark whose value is shown

  cursor.setAttribute('class', 'cursor off');
  cursor.setAttribute('r', '8');
  svg.append(cursor);
  tip.className = 'tip off';
  tip.setAttribute('role', 'status');
  plot.append(tip);

  // Pixels to the value there, as the axis' data attribute has it: "from to least most logarithmic".
  const scale = (text) => {
    const [from, to, least, most, logarithmic] = text.split(' ').map(Number);
    return (pixel) => {
      const share = (pixel - from) / (to - from);
      const value = logarithmic ? least * Math.pow(most / least, share) : least + share * (most - least);
      return String(Number(value.toPrecision(3)));
    };
  };

  // A long series is a path without titles: its values are read off the page.
  const points_of_path = (path, group, name) => {
    const across = scale(svg.dataset.across);
    const down = scale(svg.dataset.down);
    const pairs = path.getAttribute('d').matchAll(/[ML](-?[\d.]+) (-?[\d.]+)/g);
    return Array.from(pairs, ([, x, y]) => (
      { group, x: Number(x), y: Number(y), text: name + '\n' + across(x) + ', about ' + down(y) }));
  };

  const marks_of = (group) => {
    const found = [];
    const entry = figure.querySelector('.legend [data-series="' + group.dataset.series + '"]');
    for (const title of group.querySelectorAll('title')) {
      const element = title.parentNode;
      const box = element.getBBox();
      found.push({ group, element, x: box.x + box.width / 2, y: box.y + box.height / 2, text: title.textContent });
      title.remove();  // or it would be shown as well
    }
    if (found.length === 0) {
      for (const path of group.querySelectorAll('.line, .dots')) {
        found.push(...points_of_path(path, group, entry ? entry.textContent.trim() : ''));
      }
    }
    return found.sort((a, b) => a.x - b.x || a.y - b.y);
  };

  const all = () => {
    marks = marks || Array.from(svg.querySelectorAll('.series'), marks_of).flat();
    return marks.filter((mark) => !mark.group.classList.contains('off'));
  };

  const show = (mark) => {
    current = mark;
    cursor.classList.toggle('off', !mark);
    tip.classList.toggle('off', !mark);
    if (!mark) return;
    cursor.setAttribute('cx', mark.x);
    cursor.setAttribute('cy', mark.y);
    tip.textContent = mark.text;
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
    const under = all().find((mark) => mark.element === event.target);
    const close = under || nearest(all(), at);
    show(close && (under || Math.hypot(close.x - at.x, close.y - at.y) < 24) ? close : null);
  });
  plot.addEventListener('pointerleave', () => show(null));
  plot.addEventListener('blur', () => show(null));

  // Left and right: along a series. Up and down: to the nearest mark of the series before or after.
  plot.addEventListener('keydown', (event) => {
    const there = all();
    const series = current && there.filter((mark) => mark.group === current.group);
    const groups = Array.from(new Set(there.map((mark) => mark.group)));
    const beside = (step) => series[Math.min(Math.max(series.indexOf(current) + step, 0), series.length - 1)];
    const other = (step) => {
      const group = groups[(groups.indexOf(current.group) + step + groups.length) % groups.length];
      return nearest(there.filter((mark) => mark.group === group), current);
    };
    const moves = {
      ArrowLeft: () => beside(-1), ArrowRight: () => beside(1), ArrowUp: () => other(-1), ArrowDown: () => other(1),
      Home: () => series[0], End: () => series[series.length - 1], Escape: () => null,
    };
    if (!(event.key in moves) || there.length === 0 || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    show(current || event.key === 'Escape' ? moves[event.key]() : there[0]);
    if (current) cursor.scrollIntoView({ block: 'nearest', inline: 'nearest' });
  });

  // Legend entries are plain text until there is a script that can do something with them.
  for (const entry of figure.querySelectorAll('.legend [data-series]')) {
    const button = document.createElement('button');
    button.type = 'button';
    button.dataset.series = entry.dataset.series;
    button.setAttribute('aria-pressed', 'true');
    button.append(...entry.childNodes);
    button.addEventListener('click', () => {
      const hidden = button.getAttribute('aria-pressed') === 'true';
      button.setAttribute('aria-pressed', String(!hidden));
      const group = svg.querySelector('.series[data-series="' + button.dataset.series + '"]');
      group.classList.toggle('off', hidden);
      show(null);
    });
    entry.replaceWith(button);
  }
}
