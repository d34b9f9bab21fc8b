"""A memory plan as a table for people, and as a document for programs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from octavo.app.models.text import human_size
from octavo.storage.pagestore.records import Shape

if TYPE_CHECKING:
    from octavo.app.budgets import Budgets
    from octavo.app.models.planned import PlannedModel
    from octavo.engine.planner import MemoryPlan

_SETTINGS_TEXT = " " * 400  # about as long as what the header of a stored page says of its settings


@dataclass(frozen=True)
class Limit:
    """Bytes to stay below, where that number comes from, and whether somebody gave it."""

    size: int
    origin: str
    is_given: bool

    def __str__(self) -> str:
        return f"the {human_size(self.size)} {self.origin}"


@dataclass(frozen=True)
class PlanReport:
    """Everything that `octavo plan` found out.

    `plans` has one for each codec, `used` is the one of the codec in use, `plain` a bf16 cache that is all on the
    device. `budgets` is what running the model here would get, or why it would not run; None for another machine.
    """

    model: PlannedModel
    context: int
    hot: int
    page_size: int
    limit: Limit
    plans: list[MemoryPlan]
    used: MemoryPlan
    plain: MemoryPlan
    measured: MemoryPlan | None
    budgets: Budgets | str | None

    @property
    def _has_rest(self) -> bool:
        return self.hot < self.context

    def print(self) -> None:
        name, near = self.model.name, f", {self.hot:,} of them on the device" if self._has_rest else ""
        click.echo(f"{name} at {self.context:,} tokens{near}, within {self.limit}{self._source()}\n")
        rest = f"{'all in RAM':>13}{'on disk':>10}" if self._has_rest else ""
        heads = f"{'weights':>10}{'KV':>10}{'tails':>10}{'workspace':>11}{'total':>10}{'left':>16}"
        click.echo(f"{'KV codec':<10}{heads}{rest}")
        for plan in self.plans:
            left = self.limit.size - plan.total
            shown = human_size(left) if left >= 0 else f"{human_size(-left)} short"
            below = f"{human_size(plan.host):>13}{human_size(self._disk(plan)):>10}" if self._has_rest else ""
            click.echo(f"{_row(plan.codec, plan)}{shown:>16}{below}")
        if self.measured is not None:
            error = f"{self.used.codec} predicted {_error(self.used, self.measured):+.1f} %"
            click.echo(f"{_row('measured', self.measured)}   {error}")
        click.echo(f"\n{self.used.codec} is the codec in use; the others show what the same context takes in theirs.")
        if self._has_rest:
            click.echo(
                f"All {self.context:,} tokens on the device, in bf16, take {human_size(self.plain.total)}; pages that "
                "are not there lie in RAM or on disk."
            )
        self._print_budgets()

    def as_json(self) -> dict[str, Any]:
        document: dict[str, Any] = {
            "model": self.model.name,
            "context": self.context,
            "hot_tokens": self.hot,
            "trained_context": self.model.context,
            "codec": self.used.codec,
            "budget_bytes": self.limit.size,
            "from_file": self.model.path is not None,
            "plain_bytes": self.plain.total,
            "rows": [
                {
                    **_bytes(plan),
                    "left_bytes": self.limit.size - plan.total,
                    "fits": plan.total <= self.limit.size,
                    "host_bytes": plan.host,
                    "disk_bytes": self._disk(plan),
                }
                for plan in self.plans
            ],
        }
        if self.measured is not None:
            error = _error(self.used, self.measured)
            workspace = round(100 * (self.used.workspace / self.measured.workspace - 1), 2)
            document["measured"] = {
                **_bytes(self.measured),
                "error_percent": error,
                "workspace_error_percent": workspace,
            }
        if self.budgets is not None:
            document["budgets"] = {"error": self.budgets} if isinstance(self.budgets, str) else self.budgets.as_json()
        return document

    def _disk(self, plan: MemoryPlan) -> int:
        """All pages as the page store keeps them: a header each, and every layer's record in whole blocks."""
        if not self._has_rest:
            return 0
        num_pages, num_layers = -(-self.context // self.page_size), self.model.sizes.num_layers
        shape = Shape(num_layers, plan.host // num_pages // num_layers, self.page_size, _SETTINGS_TEXT)
        return num_pages * shape.page_bytes

    def _source(self) -> str:
        if self.model.path is not None:
            return ""
        if self.budgets is None:
            return " (its shape alone)"
        return f" (not here yet: file size for weights; `octavo models pull {self.model.name}`)"

    def _print_budgets(self) -> None:
        if self.budgets is None:
            return
        click.echo("\nIf it runs here with these settings:")
        for note in [self.budgets] if isinstance(self.budgets, str) else self.budgets.notes:
            click.echo(f"  {note}")


def beyond(model: PlannedModel, tokens: int) -> str:
    """A warning about more tokens than a model was trained on."""
    return (
        f"Warning: {model.name} was trained on {model.context:,} tokens; {tokens:,} are planned, "
        f"but a prompt and its answer are held to {model.context:,}."
    )


def _row(label: str, plan: MemoryPlan) -> str:
    sizes = plan.weights, plan.kv, plan.tails, plan.workspace, plan.total
    weights, kv, tails, workspace, total = map(human_size, sizes)
    return f"{label:<10}{weights:>10}{kv:>10}{tails:>10}{workspace:>11}{total:>10}"


def _error(plan: MemoryPlan, measured: MemoryPlan) -> float:
    """How far the prediction is above what was measured, in percent of the latter."""
    return round(100 * (plan.total / measured.total - 1), 2)


def _bytes(plan: MemoryPlan) -> dict[str, Any]:
    return {
        "codec": plan.codec,
        "weights_bytes": plan.weights,
        "kv_bytes": plan.kv,
        "tail_bytes": plan.tails,
        "workspace_bytes": plan.workspace,
        "total_bytes": plan.total,
    }
