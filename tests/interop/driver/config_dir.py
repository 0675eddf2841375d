"""The directory that `xds serve` follows: templates with ports filled in, and the ways to edit it."""

from __future__ import annotations

from pathlib import Path
from string import Template


def render(template: Path, values: dict[str, object]) -> str:
    """The text of a template; a name without a value is an error."""
    return Template(template.read_text(encoding="utf-8")).substitute(values)


class ConfigDir:
    """Files of resources, made from the templates of one directory under `config/`."""

    def __init__(self, path: Path, templates: Path, values: dict[str, object]) -> None:
        self.path = path
        self._templates = templates
        self._values = values
        path.mkdir()

    def render(self, template: str) -> str:
        """The text of a template, named relative to the templates' directory."""
        return render(self._templates / template, self._values)

    def set(self, name: str, value: object) -> None:
        """What the templates are filled with from now on."""
        self._values[name] = value

    def fill(self, instead: dict[str, str | None] | None = None) -> None:
        """Writes every file of `resources/`; some from another template, or (`None`) not at all."""
        for file in sorted((self._templates / "resources").iterdir()):
            template = (instead or {}).get(file.name, f"resources/{file.name}")
            if template is not None:
                self.replace(file.name, template)

    def replace(self, name: str, template: str) -> None:
        """Renames a new file over the old one: readers see one or the other."""
        self.put(name, self.render(template))

    def put(self, name: str, text: str) -> None:
        """Does so with a text that comes from no template."""
        # Hidden, and so no file of resources while it is being written.
        new = self.path / f".{name}.new"
        new.write_text(text, encoding="utf-8")
        new.replace(self.path / name)

    def save(self, name: str, template: str) -> None:
        """Writes into the file as a plain editor does: it is empty first, and then full."""
        (self.path / name).write_text(self.render(template), encoding="utf-8")

    def remove(self, name: str) -> None:
        """Deletes a file."""
        (self.path / name).unlink()


class MountedConfigDir(ConfigDir):
    """The layout of a mounted Kubernetes ConfigMap.

    Each file is a link through the link `..data` to a directory of one revision; an update swaps
    `..data` and touches nothing else.
    """

    def __init__(self, path: Path, templates: Path, values: dict[str, object]) -> None:
        super().__init__(path, templates, values)
        self._revision = 0

    def mount(self, files: dict[str, str]) -> None:
        """Shows a new revision: file names and the templates that they are made from."""
        old = self.path / f"..revision-{self._revision}"
        self._revision += 1
        new = self.path / f"..revision-{self._revision}"
        new.mkdir()
        for name, template in files.items():
            (new / name).write_text(self.render(template), encoding="utf-8")
        link = self.path / "..data_tmp"
        link.symlink_to(new.name)
        link.replace(self.path / "..data")
        for name in files:
            if not (self.path / name).is_symlink():
                (self.path / name).symlink_to(Path("..data") / name)
        if old.exists():
            for file in old.iterdir():
                file.unlink()
            old.rmdir()
