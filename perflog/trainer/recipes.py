"""Recipes: what can be run, in which sizes. Data in reference_runs/recipes, one file each. Needs no torch."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from perflog.bundled import bundled
from perflog.errors import UsageError, did_you_mean

SEEDS = 1 << 20
"""Seeds that there are: step, rank and expert are added to them, and all fit into the 63 bits of a generator's seed."""


@dataclass(frozen=True)
class ModelSizes:
    """Sizes of a model and its batch. `batch`: sequences of a rank in a step, or of a micro-batch in a pipeline."""

    layers: int
    model_dim: int
    hidden_size: int
    heads: int
    vocabulary: int
    sequence_length: int
    batch: int
    learning_rate: float
    kv_heads: int = 0  # heads of keys and values, where there are fewer
    experts_per_rank: int = 0
    top_k: int = 1
    capacity_factor: float = 1.0  # of strategy padded
    shadows: int = 0  # experts that strategy shadow copies at most
    micro_batches: int = 1

    @property
    def head_dim(self) -> int:
        return self.model_dim // self.heads

    @property
    def tokens(self) -> int:
        """Tokens of one rank in a step, or of a pipeline."""
        return self.batch * self.micro_batches * self.sequence_length

    def scaled(self, factor: float) -> ModelSizes:
        """The same, `factor` times as wide: in whole heads, and experts in whole units of eight."""
        groups = self.heads // (self.kv_heads or self.heads)
        heads = max(1, round(self.heads * factor / groups)) * groups
        hidden = max(8, 8 * round(self.hidden_size * factor / 8))
        return replace(
            self,
            heads=heads,
            kv_heads=heads // groups if self.kv_heads else 0,
            model_dim=heads * self.head_dim,
            hidden_size=hidden,
        )


@dataclass(frozen=True)
class RunSpec:
    """One run: a model trained with a strategy. `place` of `places` runs of the log."""

    recipe: str
    variant: str
    model: str
    strategy: str
    place: int
    places: int
    sizes: ModelSizes
    steps: int
    warmup_steps: int
    dtype: str
    seed: int
    plain: bool = False  # plain products of the experts' shapes are timed first


@dataclass(frozen=True)
class Recipe:
    """A recipe file. `program` runs it; `like` is the format of the logs that it is like, which its original dialect
    prints (None: it has none); `dialect` says which of the trainer's printers does that; `plain`: see `RunSpec`.
    """

    name: str
    title: str
    program: str
    like: str
    dialect: str | None
    strategies: tuple[str, ...]
    presets: Mapping[str, Mapping[str, Any]]
    plain: bool = False

    def ranks(self, preset: str = "default") -> int:
        """How many ranks the preset is meant for; it runs with any number."""
        return int(self._preset(preset)["ranks"])

    def specs(
        self, preset: str = "default", *, steps: int | None, seed: int, dtype: str | None, scale: float
    ) -> Iterator[RunSpec]:
        """The runs of a preset, with the user's options. At most half of the steps are warm-up."""
        if seed >= SEEDS:
            raise UsageError(f"seed {seed} is too large", help=f"take one below {SEEDS}")
        asked = self._preset(preset)
        models = {name: ModelSizes(**sizes).scaled(scale) for name, sizes in asked["model"].items()}
        pairs = [(name, strategy) for name in models for strategy in self.strategies]
        count = asked["steps"] if steps is None else steps
        for place, (name, strategy) in enumerate(pairs, 1):
            yield RunSpec(
                recipe=self.name,
                variant=strategy if len(models) == 1 else f"{name}/{strategy}",
                model=name,
                strategy=strategy,
                place=place,
                places=len(pairs),
                sizes=models[name],
                steps=count,
                warmup_steps=min(asked["warmup_steps"], count // 2),
                dtype=dtype or asked["dtype"],
                seed=seed,
                plain=self.plain,
            )

    def _preset(self, name: str) -> Mapping[str, Any]:
        if name not in self.presets:
            raise UsageError(f"recipe {self.name} has no preset `{name}`", help=did_you_mean(name, self.presets))
        return self.presets[name]


def recipes_folder() -> Path:
    """Folder of the recipes: in the package when installed, beside it in a checkout."""
    return bundled("reference_runs") / "recipes"


def recipe_names() -> list[str]:
    """Names of all recipes."""
    return sorted(path.stem for path in recipes_folder().glob("*.toml"))


def load_recipe(name: str) -> Recipe:
    """A recipe by name. Raises UsageError with the nearest."""
    if name not in recipe_names():
        raise UsageError(f"there is no recipe `{name}`", help=did_you_mean(name, recipe_names()))
    data = tomllib.loads((recipes_folder() / f"{name}.toml").read_text("utf-8"))
    return Recipe(
        name=name,
        title=data.pop("title"),
        program=data.pop("program"),
        like=data.pop("like"),
        dialect=data.pop("dialect", None),
        strategies=tuple(data.pop("strategies", ["dense"])),
        presets=data.pop("preset"),
        plain=data.pop("plain", False),
    )


def check_sizes(spec: RunSpec, world: int, program: str) -> None:
    """Raises UsageError if the sizes of a run do not fit together on so many ranks."""
    sizes, where = spec.sizes, f"{spec.recipe} {spec.variant}"
    kv_heads, experts, parts = sizes.kv_heads or sizes.heads, world * sizes.experts_per_rank, sizes.layers + 2
    pipeline, mixture = program == "pipeline", spec.strategy != "dense"
    wrong = (
        (sizes.model_dim % sizes.heads, f"{sizes.heads} heads do not divide width {sizes.model_dim}"),
        (sizes.heads % kv_heads, f"{kv_heads} heads of keys and values do not divide {sizes.heads} heads"),
        (mixture and not experts, f"strategy {spec.strategy} without experts"),
        (mixture and sizes.top_k > experts, f"the {sizes.top_k} best of {experts} experts: take more ranks"),
        (pipeline and world > parts, f"{world} stages, but {parts} layers with embedding and head: take fewer ranks"),
        (
            pipeline and world > sizes.micro_batches,
            f"{world} stages, but {sizes.micro_batches} micro-batches, and 1F1B needs as many: take fewer ranks",
        ),
    )
    for broken, reason in wrong:
        if broken:
            raise UsageError(reason, where)
