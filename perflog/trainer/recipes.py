"""Recipes: the runs that the trainer can make, and their sizes. One file each in reference_runs/recipes.

Needs no torch.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from msgspec import Meta, Struct, ValidationError, convert
from msgspec.structs import asdict, replace

from perflog.errors import UsageError, did_you_mean
from perflog.files.bundled import bundled

SEEDS = 1 << 20
"""Number of seeds. Step, rank and expert are added to a seed; the sum fits the 63 bits of a generator's seed."""


class ModelSizes(Struct, frozen=True):
    """Sizes of a model and its batch."""

    layers: int
    model_dim: int
    hidden_size: int
    heads: int
    vocabulary: int
    sequence_length: int
    batch: int  # sequences per rank and step; in a pipeline per micro-batch
    learning_rate: float
    kv_heads: int = 0  # heads of keys and values; 0: as many as heads
    experts_per_rank: int = 0
    top_k: int = 1
    capacity_factor: float = 1.0  # strategy padded: rows per expert, relative to balanced load
    shadows: int = 0  # strategy shadow: maximum number of copied experts
    micro_batches: int = 1

    @property
    def head_dim(self) -> int:
        return self.model_dim // self.heads

    @property
    def tokens(self) -> int:
        """Tokens of one rank per step; in a pipeline, of all stages together."""
        return self.batch * self.micro_batches * self.sequence_length

    def scaled(self, factor: float) -> ModelSizes:
        """Return sizes `factor` times as wide, in whole heads; the hidden size is a multiple of eight."""
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


class MoeOptions(Struct, frozen=True):
    """What may be chosen about a mixture-of-experts layer beside its sizes. docs/trainer.md explains each."""

    balance_coefficient: Annotated[float, Meta(ge=0)] = 0.01  # of the balance loss, as in Switch Transformers
    z_coefficient: Annotated[float, Meta(ge=0)] = 0.001  # of the router z-loss, as in ST-MoE
    bias_rate: Annotated[float, Meta(ge=0)] = 0.0  # change of an expert's bias in a step, as in DeepSeek-V3; 0: no bias
    scores: Literal["softmax", "sigmoid"] = "softmax"  # of the router
    activation: Literal["gelu", "swiglu"] = "gelu"  # of the experts; swiglu has a third matrix, for its gate
    shared_experts: Annotated[int, Meta(ge=0)] = 0  # that take all tokens, beside those that the router chooses
    overlap: Annotated[int, Meta(ge=0)] = 0  # parts in which rows travel beside computation; 0: they take turns

    @property
    def expert_matrices(self) -> int:
        """Number of matrices of an expert."""
        return 3 if self.activation == "swiglu" else 2


Values = TypeVar("Values", ModelSizes, MoeOptions)


class RunSpec(Struct, frozen=True):
    """The settings of one run: a model trained with a strategy."""

    recipe: str
    variant: str
    model: str
    strategy: str
    place: int  # number of the run in its log, from 1
    places: int  # number of runs in the log
    sizes: ModelSizes
    steps: int
    warmup_steps: int
    dtype: str
    seed: int
    plain: bool = False  # also time plain matrix products with the shapes of the experts
    moe: MoeOptions = MoeOptions()
    parameters: str = "float32"  # dtype that they are kept in; bfloat16: with float32 copies in the optimizer


class Recipe(Struct, frozen=True):
    """A recipe file."""

    name: str
    title: str
    program: str  # module of the trainer that runs it: language, kernels or pipeline
    like: str  # format of the original logs, which `--dialect original` prints
    dialect: str | None  # key of the printer for that; None: the recipe has no original dialect
    strategies: tuple[str, ...]
    presets: Mapping[str, Mapping[str, Any]]
    plain: bool = False  # see `RunSpec`

    def ranks(self, preset: str = "default") -> int:
        """Return the number of ranks that the preset is meant for. It runs with any number."""
        return int(self._preset(preset)["ranks"])

    def specs(
        self,
        preset: str = "default",
        *,
        steps: int | None,
        seed: int,
        dtype: str | None,
        scale: float,
        changes: Mapping[str, str] | None = None,
        parameters: str | None = None,
    ) -> Iterator[RunSpec]:
        """Yield the runs of a preset with the options of the user. At most half of the steps are warm-up.

        `parameters`: the dtype that they are kept in; the computation is in bfloat16 too if they are.
        `changes`: new values of fields of `ModelSizes` and `MoeOptions`, by name, as the user wrote them.
        """
        if seed >= SEEDS:
            raise UsageError(f"seed {seed} is too large", help=f"take one below {SEEDS}")
        kept = parameters or "float32"
        if kept != "float32" and dtype not in (None, kept):
            raise UsageError(f"parameters in {kept}, but computation in {dtype}", help=f"take --dtype {kept}")
        preset_data = self._preset(preset)
        sizes_of = {name: ModelSizes(**sizes).scaled(scale) for name, sizes in preset_data["model"].items()}
        models = {name: _changed(sizes, changes or {}) for name, sizes in sizes_of.items()}
        moe = _changed(MoeOptions(**preset_data.get("moe", {})), changes or {})
        pairs = [(name, strategy) for name in models for strategy in self.strategies]
        count = preset_data["steps"] if steps is None else steps
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
                warmup_steps=min(preset_data["warmup_steps"], count // 2),
                dtype=dtype or (preset_data["dtype"] if kept == "float32" else kept),
                seed=seed,
                plain=self.plain,
                moe=moe,
                parameters=kept,
            )

    def _preset(self, name: str) -> Mapping[str, Any]:
        if name not in self.presets:
            raise UsageError(f"recipe {self.name} has no preset `{name}`", help=did_you_mean(name, self.presets))
        return self.presets[name]


def parse_changes(texts: Iterable[str]) -> dict[str, str]:
    """Return name and value of each `NAME=VALUE`. Raises UsageError if there is no such value to set."""
    names = [*MoeOptions.__struct_fields__, *ModelSizes.__struct_fields__]
    changes = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or name not in names:
            raise UsageError(f"cannot set `{text}`", help=did_you_mean(name, names) or "write NAME=VALUE")
        changes[name] = value
    return changes


def _changed(values: Values, changes: Mapping[str, str]) -> Values:
    """Return the values with those changes that are about them."""
    mine = {name: text for name, text in changes.items() if name in values.__struct_fields__}
    try:
        return convert(asdict(values) | mine, type(values), strict=False)
    except ValidationError as error:
        raise UsageError(f"cannot set {', '.join(f'{name}={text}' for name, text in mine.items())}: {error}") from error


def recipes_folder() -> Path:
    """Return the folder of the recipes: in the installed package, or next to it in a checkout."""
    return bundled("reference_runs") / "recipes"


def recipe_names() -> list[str]:
    """Return the names of all recipes."""
    return sorted(path.stem for path in recipes_folder().glob("*.toml"))


def load_recipe(name: str) -> Recipe:
    """Load a recipe by name. Raises UsageError, with the nearest name, if there is none."""
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
    """Raise UsageError if the sizes of a run do not fit together on that number of ranks."""
    sizes, where = spec.sizes, f"{spec.recipe} {spec.variant}"
    kv_heads, experts, parts = sizes.kv_heads or sizes.heads, world * sizes.experts_per_rank, sizes.layers + 2
    pipeline, mixture = program == "pipeline", spec.strategy != "dense"
    checks = (
        (sizes.model_dim % sizes.heads, f"{sizes.heads} heads do not divide width {sizes.model_dim}"),
        (sizes.heads % kv_heads, f"{kv_heads} heads of keys and values do not divide {sizes.heads} heads"),
        (mixture and not experts, f"strategy {spec.strategy} without experts"),
        (mixture and sizes.top_k > experts, f"the {sizes.top_k} best of {experts} experts: take more ranks"),
        (
            pipeline and spec.parameters != "float32",
            "parameters of a pipeline are kept in float32",
        ),
        (pipeline and world > parts, f"{world} stages, but {parts} layers with embedding and head: take fewer ranks"),
        (
            pipeline and world > sizes.micro_batches,
            f"{world} stages, but {sizes.micro_batches} micro-batches, and 1F1B needs as many: take fewer ranks",
        ),
    )
    for failed, reason in checks:
        if failed:
            raise UsageError(reason, where)
