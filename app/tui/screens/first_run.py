"""The first start: models that fit this machine's memory, and the download of the chosen one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Button, OptionList, Static
from textual.widgets.option_list import Option

from octavo.app.tui.screens.download import Download

if TYPE_CHECKING:
    from octavo.app.models.recommend import Memory, Recommendation
    from octavo.storage.paths import Paths


@dataclass(frozen=True, slots=True)
class Offer:
    """One model on offer; `obstacle` says why it cannot be had, else is empty."""

    model: Recommendation
    obstacle: str


@dataclass(frozen=True, slots=True)
class Offers:
    """All models, best first, what was measured, and the one that is suggested."""

    headline: str
    offers: tuple[Offer, ...]
    suggested: str | None


def find_offers(paths: Paths, *, offline: bool, memory: Memory | None = None) -> Offers:
    """Measure the memory, ask whether the hub answers, and judge every model of the catalogue. Takes seconds."""
    from octavo.app.models.catalogue import load_catalogue
    from octavo.app.models.recommend import DEFAULT_CONTEXT, headline, measure_memory, recommend

    catalogue = load_catalogue()
    memory = memory or measure_memory()
    here = [entry.id for entry in catalogue if (paths.models_dir / entry.file).exists()]
    hub = not offline and _hub_answers()
    offers = []
    for item in recommend(catalogue, memory, here):
        entry = catalogue.get(item.id)
        assert entry is not None, "recommendations are made of the catalogue"
        obstacle = "" if item.runs_on else item.reason
        if not obstacle and not hub and not item.present and all(_is_hub(source) for source in entry.sources):
            obstacle = "offline" if offline else "the model hub does not answer"
        offers.append(Offer(item, obstacle))
    offers.sort(key=lambda offer: bool(offer.obstacle))
    return Offers(headline(memory, DEFAULT_CONTEXT), tuple(offers), _suggested(offers, catalogue.default, hub=hub))


def _suggested(offers: list[Offer], default: str, *, hub: bool) -> str | None:
    """The best that can be had; without the hub the embedded default; where that does not fit the smallest."""
    possible = [offer.model for offer in offers if not offer.obstacle]
    if not possible:
        return None
    if hub:
        return possible[0].id
    names = [model.id for model in possible]
    return default if default in names else min(possible, key=lambda model: model.size).id


def _is_hub(source: object) -> bool:
    from octavo.app.models.catalogue import HubSource

    return isinstance(source, HubSource)


def _hub_answers() -> bool:
    """True if the hub tells about the default model's file."""
    from octavo.app.errors import AppError
    from octavo.app.models import hub
    from octavo.app.models.catalogue import HubSource, load_catalogue

    if hub.hub_offline():
        return False
    sources = [source for source in load_catalogue().default_entry.sources if isinstance(source, HubSource)]
    try:
        return bool(sources) and hub.remote_file(sources[0]).size > 0
    except (AppError, OSError):
        return False


class FirstRun(ModalScreen[str | None]):
    """Returns the name of the model that is here now, or None if the user went on without."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape", "dismiss(None)", "Later")]

    @dataclass
    class Found(Message):
        """What can be offered."""

        offers: Offers

    @dataclass
    class NotFound(Message):
        """Nothing can be offered, and why."""

        error: str

    def __init__(self, paths: Paths, *, offline: bool) -> None:
        super().__init__()
        self._paths, self._offline = paths, offline
        self._here: set[str] = set()

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog -wide"):
            yield Static("Welcome to Octavo", classes="dialog-title")
            yield Static("Octavo needs a model. Choose one; it is downloaded once.", markup=False)
            yield Static("Measuring the memory and asking the model hub…", id="machine", markup=False)
            yield OptionList(id="offers", markup=False)
            with Horizontal(classes="dialog-buttons"):
                yield Button("Download (Enter)", id="download", variant="primary", compact=True)
                yield Button("Later (Esc)", id="later", compact=True)

    def on_mount(self) -> None:
        self.query_one("#offers").display = False
        self.query_one("#download", Button).disabled = True
        self.run_worker(self._look, thread=True)

    def _look(self) -> None:
        try:
            self.post_message(self.Found(find_offers(self._paths, offline=self._offline)))
        except Exception as error:
            self.post_message(self.NotFound(str(error)))

    @on(Found)
    def _found(self, event: Found) -> None:
        self.query_one("#machine", Static).update(event.offers.headline)
        self._here = {offer.model.id for offer in event.offers.offers if offer.model.present}
        listing = self.query_one("#offers", OptionList)
        for offer in event.offers.offers:
            suggested = offer.model.id == event.offers.suggested
            listing.add_option(
                Option(_row(offer, suggested=suggested), id=offer.model.id, disabled=bool(offer.obstacle))
            )
        listing.display = True
        if event.offers.suggested is not None:
            listing.highlighted = listing.get_option_index(event.offers.suggested)
            self.query_one("#download", Button).disabled = False
        listing.focus()

    @on(NotFound)
    def _not_found(self, event: NotFound) -> None:
        self.query_one("#machine", Static).update(event.error)

    @on(OptionList.OptionHighlighted)
    def _highlighted(self, event: OptionList.OptionHighlighted) -> None:
        verb = "Use" if event.option_id in self._here else "Download"
        self.query_one("#download", Button).label = f"{verb} (Enter)"

    @on(OptionList.OptionSelected)
    def _selected(self, event: OptionList.OptionSelected) -> None:
        if event.option_id is not None:
            self._download(event.option_id)

    @on(Button.Pressed, "#download")
    def _pressed(self) -> None:
        listing = self.query_one("#offers", OptionList)
        option = listing.highlighted_option
        if option is not None and option.id is not None:
            self._download(option.id)

    @on(Button.Pressed, "#later")
    def _later(self) -> None:
        self.dismiss(None)

    def _download(self, model: str) -> None:
        from octavo.app.models.catalogue import load_catalogue

        entry = load_catalogue().get(model)
        assert entry is not None, "offers are made of the catalogue"

        def ended(done: bool | None) -> None:
            if done:
                self.dismiss(model)

        self.app.push_screen(Download(entry, self._paths, offline=self._offline), ended)


def _row(offer: Offer, *, suggested: bool) -> Content:
    from octavo.app.models.text import human_size

    model = offer.model
    title = Content.assemble((model.name, "bold"), f"  {human_size(model.size)}, {model.license}")
    if suggested:
        title += Content.styled("  suggested", "bold $text-success")
    return title + Content.styled(f"\n  {offer.obstacle or model.reason}", "dim")
