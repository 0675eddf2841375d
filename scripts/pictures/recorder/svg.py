"""Writes frames as SVG: text that can be selected, readable on dark and light pages.

The picture has its own background and follows the colour scheme of the reader. Each run of
characters has a fixed width, so columns are aligned in every monospace font.
"""

from html import escape

from .terminal import COLUMNS, Run

#: Size of a character cell and of the border, in pixels.
WIDTH, HEIGHT, BORDER = 8.4, 17, 16
FONT_SIZE = 14
BASELINE = 13

STYLE = """
.page{fill:#fbfbfa;stroke:#d5d9de}
text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono","Liberation Mono",monospace;\
white-space:pre;fill:#1f2328}
.bold{font-weight:700}.underline{text-decoration:underline}
.red{fill:#b3261e}.green{fill:#1a7f37}.yellow{fill:#8a5a00}.blue{fill:#0a5cc2}.magenta{fill:#8a3fb0}
.cyan{fill:#0b6e7f}.faint{fill:#5c6570}
@media(prefers-color-scheme:dark){.page{fill:#12161c;stroke:#30363d}text{fill:#d9e0e8}
.red{fill:#ff7b72}.green{fill:#56d364}.yellow{fill:#e3b341}.blue{fill:#79b8ff}.magenta{fill:#d2a8ff}
.cyan{fill:#56d4dd}.faint{fill:#98a2ad}}
"""


def still(title, rows):
    """Returns a picture of rows."""
    body = "\n".join(_row(runs, number) for number, runs in enumerate(rows) if runs)
    return _document(title, len(rows), STYLE, body)


def animation(title, frames, visible):
    """Returns a picture in which the rows of each frame appear in turn and scroll.

    Without animation, or for readers who prefer reduced motion, it shows the final screen.
    """
    steps = _steps(frames)
    total = steps[-1][0] + 6.0
    final = frames[-1].rows
    appears = {}
    for at, count in steps:
        for number in range(len(appears), count):
            appears[number] = at
    names = {at: f"a{index}" for index, at in enumerate(sorted(set(appears.values())))}
    rules, body, scroll = [], [], []
    for at, name in names.items():
        share = 100 * at / total
        hidden = f"0%,{share:.2f}%{{visibility:hidden}}{share + 0.01:.2f}%,100%{{visibility:visible}}"
        if share > 0:
            rules.append(f"@keyframes {name}{{{hidden}}}.{name}{{animation:{name} {total:.1f}s infinite}}")
        rows = [number for number in appears if appears[number] == at]
        lines = [_row(final[number], number) for number in rows if final[number]]
        if lines:
            body.append(f'<g class="{name}">\n' + "\n".join(lines) + "\n</g>")
    place = 0
    for at, count in steps:
        new = max(0, count - visible)
        if new != place or not scroll:
            share = 100 * at / total
            if scroll and share > 0:
                scroll.append(f"{share:.2f}%{{transform:translateY({-place * HEIGHT}px)}}")
            start = f"{share + 0.01:.2f}%" if share > 0 else "0%"
            scroll.append(f"{start}{{transform:translateY({-new * HEIGHT}px)}}")
            place = new
    end = f"transform:translateY({-place * HEIGHT}px)"
    scroll.append(f"100%{{{end}}}")
    rules.append(f"@keyframes scroll{{{''.join(scroll)}}}")
    rules.append(f".scroll{{{end};animation:scroll {total:.1f}s infinite}}")
    rules.append("@media(prefers-reduced-motion:reduce){g{animation:none!important}}")
    style = STYLE + "\n".join(rules) + "\n"
    width, height = COLUMNS * WIDTH, visible * HEIGHT
    clipped = (
        f'<svg x="{BORDER}" y="{BORDER}" width="{width:.0f}" height="{height}">'
        f'<g transform="translate({-BORDER} {-BORDER})"><g class="scroll">\n'
        + "\n".join(body)
        + "\n</g></g></svg>"
    )
    return _document(title, visible, style, clipped)


def _steps(frames):
    """Returns when how many rows are visible, in seconds. It does not depend on the recorded times."""
    steps, at, shown = [], 0.0, 0
    for frame in frames:
        first = shown
        while shown < len(frame.rows):
            shown = min(shown + 2, len(frame.rows))
            steps.append((at, shown))
            at += 0.05
        at += max(1.2, 0.16 * (shown - first))
    return steps


def _document(title, rows, style, body):
    width, height = COLUMNS * WIDTH + 2 * BORDER, rows * HEIGHT + 2 * BORDER
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" xml:space="preserve" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}" '
        f'height="{height}" role="img" aria-label="{escape(title)}">\n<title>{escape(title)}</title>\n'
        f"<style>{style}</style>\n"
        f'<rect class="page" x=".5" y=".5" width="{width - 1:.0f}" height="{height - 1}" rx="8"/>\n'
        f"{body}\n</svg>\n"
    )


def _row(runs, number):
    y = BORDER + number * HEIGHT + BASELINE
    return f'<text y="{y}">' + "".join(_pieces(runs)) + "</text>"


def _pieces(runs):
    for run in runs:
        for piece in _split(run):
            text = piece.text
            if not text.strip():
                # A space keeps the words apart when the text is copied.
                yield " "
                continue
            start = BORDER + piece.column * WIDTH
            if text.isascii():
                place = f'x="{start:.1f}" textLength="{len(text) * WIDTH:.1f}"'
            else:
                columns = (start + index * WIDTH for index in range(len(text)))
                place = 'x="' + " ".join(f"{column:.1f}" for column in columns) + '"'
            style = f' class="{piece.style}"' if piece.style else ""
            yield f"<tspan {place}{style}>{escape(text, quote=False)}</tspan>"


def _split(run):
    """Splits a run into ASCII and other characters, which may come from another font."""
    start = 0
    for end in range(1, len(run.text) + 1):
        if end == len(run.text) or run.text[end].isascii() != run.text[start].isascii():
            yield Run(run.column + start, run.text[start:end], run.style)
            start = end
