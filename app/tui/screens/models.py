"""The model picker: every model of the catalogue, of the user's own, and of other programs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from octavo.app.tui.screens.download import Download

if TYPE_CHECKING:
    from octavo.app.models.listing import ListedModel, Listing
    from octavo.app.tui.backend import Backend


class ModelPicker(ModalScreen[str | None]):
    """Returns the chosen model's name, downloaded if it was not here."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape", "dismiss(None)", "Cancel")]

    @dataclass
    class Listed(Message):
        """All models there are."""

        listing: Listing

    @dataclass
    class Failed(Message):
        """They cannot be listed."""

        error: str

    def __init__(self, backend: Backend) -> None:
        super().__init__()
        self._backend = backend
        self._models: dict[str, ListedModel] = {}

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog -wide"):
            yield Static("Choose a model", classes="dialog-title")
            yield Static("Looking for models…", id="model-note", markup=False)
            yield OptionList(id="models", markup=False)
            yield Static(
                "[@click=screen.dismiss(None)]Enter uses it · Esc leaves all as it is[/]", classes="dialog-foot"
            )

    def on_mount(self) -> None:
        self.query_one("#models").display = False
        self.run_worker(self._look, thread=True)

    def _look(self) -> None:
        from octavo.app.models.listing import list_all

        try:
            self.post_message(self.Listed(list_all(self._backend.paths)))
        except Exception as error:
            self.post_message(self.Failed(str(error)))

    @on(Listed)
    def _listed(self, event: Listed) -> None:
        self.query_one("#model-note").display = False
        models = sorted(event.listing.models, key=lambda model: model.state != "here")
        listing = self.query_one("#models", OptionList)
        for model in models:
            if model.name not in self._models:
                self._models[model.name] = model
                usable = model.state in ("here", "begun", "not here")
                row = _row(model, current=model.name == self._backend.model)
                listing.add_option(Option(row, id=model.name, disabled=not usable))
        listing.display = True
        listing.highlighted = (
            listing.get_option_index(self._backend.model) if self._backend.model in self._models else 0
        )
        listing.focus()

    @on(Failed)
    def _failed(self, event: Failed) -> None:
        note = self.query_one("#model-note", Static)
        note.display = True
        note.update(event.error)

    @on(OptionList.OptionSelected)
    def _selected(self, event: OptionList.OptionSelected) -> None:
        from octavo.app.models.catalogue import load_catalogue

        name = event.option_id or ""
        entry = load_catalogue().get(name)
        if self._models[name].state == "here" or entry is None:
            self.dismiss(name)
            return

        def ended(done: bool | None) -> None:
            if done:
                self.dismiss(name)

        backend = self._backend
        self.app.push_screen(Download(entry, backend.paths, offline=backend.settings.offline), ended)


def _row(model: ListedModel, *, current: bool) -> Content:
    from octavo.app.models.text import human_size, human_tokens

    facts = [human_size(model.size)]
    if model.context:
        facts.append(f"{human_tokens(model.context)} context")
    if model.license:
        facts.append(model.license)
    title = Content.assemble((model.name, "bold"), f"  {', '.join(facts)}")
    if current:
        title += Content.styled("  in use", "bold $text-success")
    state = {"not here": "not here yet; Enter downloads it", "begun": "partly here; Enter goes on"}.get(model.state, "")
    note = "; ".join(text for text in (state, model.note) if text)
    return title + Content.styled(f"\n  {note}", "dim")
