"""Commands that start the processes of a job, as scripts and launchers print them.

    + torchrun --nproc_per_node 8 --nnodes 2 train.py --tp 2 --micro-batch 4
    NCCL_DEBUG=INFO srun -N 2 --ntasks-per-node=8 python train.py --seq-len 4096

The options of the launcher say how many processes there are; of several launchers, the last one starts the processes of
the program. Numbers of the program's long options are settings. A short option means something else in each program.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from perflog.formats.expressions import Expression
from perflog.formats.families.base import FamilyShape, UniqueNames, spec_of, template_of
from perflog.formats.families.header_facts import label_of_another
from perflog.formats.model import Line
from perflog.formats.surroundings import PREFIX, prefix_ends
from perflog.formats.template import DECLARED_DROPPED, fits_64, literal
from perflog.formats.vocabulary import field_name
from perflog.lazy_patterns import lazy_pattern

DROPPED = "an argument that is no number of a long option"

_NODES, _PER_NODE, _ALL = "nnodes", "nproc_per_node", "num_processes"
_OPTIONS: Mapping[str, Mapping[str, str]] = {
    "torchrun": {"nnodes": _NODES, "nproc_per_node": _PER_NODE},
    "srun": {"N": _NODES, "nodes": _NODES, "n": _ALL, "ntasks": _ALL, "ntasks_per_node": _PER_NODE},
    "mpirun": {"n": _ALL, "np": _ALL, "c": _ALL},
    "deepspeed": {"num_nodes": _NODES, "num_gpus": _PER_NODE},
    "accelerate": {"num_processes": _ALL, "num_machines": _NODES},
}
"""By launcher, the options that say how many processes there are, and the settings that they are."""

_LAUNCHERS = {
    "torchrun": "torchrun", "srun": "srun", "mpirun": "mpirun", "mpiexec": "mpirun", "orterun": "mpirun",
    "deepspeed": "deepspeed", "accelerate": "accelerate",
    "torch.distributed.launch": "torchrun", "torch.distributed.run": "torchrun",
    "accelerate.commands.launch": "accelerate",
}  # fmt: skip
_NAMING = frozenset(("--launcher", "--job-name", "-J", "--name"))  # options with a value that may be such a word
_ONE_NODE = frozenset(("torchrun",))  # starts processes on one node where no option says how many nodes there are
_PYTHON = r"(?:\S*/)?python[0-9.]*[ \t]+(?:-[uOB][ \t]+)*-m[ \t]+"
_MODULES = r"(?:torch\.distributed\.(?:launch|run)|accelerate\.commands\.launch)"
_PROGRAMS = r"(?:torchrun|srun|mpirun|mpiexec|orterun|deepspeed|accelerate[ \t]+launch)"
_LAUNCHER = rf"(?:(?:\S*/)?{_PROGRAMS}|{_PYTHON}{_MODULES})"
_SAYS = r"(?:[+$#>]{1,4}[ \t]+|(?i:cmd|command|running|executing|launching|launch command)[ \t]*[:=]?[ \t]+)?"
_COMMAND = rf"{_SAYS}(?:export[ \t]+)?(?:[A-Za-z_]\w*=\S*[ \t]+)*{_LAUNCHER}[ \t]+(?:.*[ \t])?--?[A-Za-z]"
PATTERN = rf"(?:{PREFIX})?[ \t]*{_COMMAND}"
"""What each such line begins with. A launcher without an option may be a word of a sentence."""

_BEGINS = lazy_pattern(rf"[ \t]*{_COMMAND}".encode())
_TOKEN = lazy_pattern(r"\S+")
_OPTION = lazy_pattern(r"--?(?P<name>[A-Za-z][\w.-]*)(?P<is>=(?P<value>.*))?")
_LONG = lazy_pattern(r"--[A-Za-z][\w.-]+(?:=.*)?")
_FRACTION = lazy_pattern(r"[+-]?[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?")
_WHOLE = lazy_pattern(r"[0-9]+")
_DIGIT = lazy_pattern(r"[0-9]")
_PROGRAM = lazy_pattern(r"\S+\.(?:py|sh)|(?:\S*/)?(?:bash|sh)")
_SCRIPT = lazy_pattern(r"\S+\.sh|(?:\S*/)?(?:bash|sh)")  # it may start more processes
_ENDS = lazy_pattern(r"[|;&<>]|[0-9]?>|2>&1")
_VARIES = frozenset("node_rank machine_rank rank local_rank master_port main_process_port port procid".split())
_LONGEST = 4096


def command_line(shape: FamilyShape, text: str) -> Line | None:
    """Return the Line of a command that starts the processes of a job; None for another string."""
    raw = text.encode("utf-8", "surrogateescape").rstrip(b" \t")
    for end in (0, *prefix_ends(raw)) if len(raw) <= _LONGEST else ():
        if not _BEGINS.match(raw, end):
            continue
        if label_of_another(raw[:end].decode("utf-8", "surrogateescape")):
            return None
        command = _Command("{_:p}" * bool(end))
        command.read(raw[end:].decode("utf-8", "surrogateescape"))
        is_of_job = command.in_program or command.launcher != "srun"  # `srun -n 1 hostname`
        template = template_of(command.text) if command.has_settings and is_of_job else None
        if template is not None and template.match(raw) is not None:
            line = shape.line_of(template, ())
            dropped = {**line.dropped, DECLARED_DROPPED: DROPPED}
            return replace(line, compute=command.computed(), dropped=dropped, is_assumed=True)
    return None


class _Command(Struct):
    """A command as it is read.

    Attributes:
        text: The template so far.
        launcher: The last launcher; "" before it.
        in_program: Whether the words are arguments of the program.
        runs_script: Whether the program is a script of the shell.
        has_settings: Whether it prints a setting.
        counts: Fields of whole numbers that say how many processes the launcher starts, by setting.
        options: The options that say so, whatever their values.
    """

    text: str = ""
    launcher: str = ""
    in_program: bool = False
    runs_script: bool = False
    has_settings: bool = False
    counts: dict[str, str] = field(default_factory=dict)
    options: set[str] = field(default_factory=set)
    unique: UniqueNames = field(default_factory=UniqueNames)

    def read(self, text: str) -> None:
        """Read a command."""
        words = list(_TOKEN.finditer(text))
        starts = [k for k in range(len(words)) if _launcher(words, k)]
        position, option = 0, ""
        for k, word in enumerate(words):
            self.text += literal(text[position : word.start()])
            position = word.end()
            if k > starts[-1] and _ENDS.match(word[0]):
                self.text += f"{{{DECLARED_DROPPED}:s}}"
                return
            if k == starts[-1]:
                self.launcher = _launcher(words, k)
            option = self._add(word[0], option)

    def _add(self, word: str, option: str) -> str:
        """Add a word. Return the option that the next word may be the value of. `option`: the one for this word."""
        found = _OPTION.fullmatch(word) if self.launcher else None
        if found is None:
            begins = bool(self.launcher) and (option == "-m" or _PROGRAM.fullmatch(word) is not None)
            self.runs_script |= begins and not self.in_program and _SCRIPT.fullmatch(word) is not None
            self._add_value("" if begins else option, word)
            self.in_program |= begins
            return ""
        if found["is"] is None:
            self._add_value("", word)
            return word
        self.text += literal(word[: found.start("value")])
        self._add_value(word[: found.start("is")], found["value"])
        return ""

    def _add_value(self, option: str, value: str) -> None:
        """Add a word that may be the value of an option."""
        name = field_name(option.lstrip("-"))
        setting = "" if self.in_program else _OPTIONS.get(self.launcher, {}).get(name, "")
        self.options |= {setting} if setting else set()
        is_whole = _WHOLE.fullmatch(value) is not None and fits_64(value)
        is_number = is_whole or _FRACTION.fullmatch(value) is not None
        is_of_program = self.in_program and _LONG.match(option) is not None and name.lower() not in _VARIES
        if (setting and is_whole) or (is_of_program and is_number):
            unique = self.unique.take(setting or name)
            self.has_settings = True
            self.counts |= {setting: unique} if setting else {}
            self.text += f"{{{unique}:{'d' if is_whole else spec_of(value)}}}"
        else:
            self.text += literal(value) if not _DIGIT.search(value) else f"{{{DECLARED_DROPPED}:S}}"

    def computed(self) -> dict[str, Expression]:
        """Return the number of processes, from the options of the launcher; {} if they leave it open."""
        starts_others = self.runs_script and self.launcher in ("srun", "mpirun")
        if starts_others:
            return {}
        nodes, each = self.counts.get(_NODES), self.counts.get(_PER_NODE)
        if _ALL in self.options:
            return {"world_size": Expression(self.counts[_ALL])} if _ALL in self.counts else {}
        if each is None or (nodes is None and (_NODES in self.options or self.launcher not in _ONE_NODE)):
            return {}
        return {"world_size": Expression(each if nodes is None else f"{each} * {nodes}")}


def _launcher(words: Sequence[re.Match[str]], k: int) -> str:
    """Return which launcher a word is; "" for another word, such as the value of an option."""
    is_value = k > 0 and words[k - 1][0] in _NAMING  # another option before it is a flag, or has its value after "="
    return "" if is_value else _LAUNCHERS.get(words[k][0].strip("\x22'()").rpartition("/")[2], "")
