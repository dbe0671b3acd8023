"""The reference page of the commands, from their own help: `python -m gofstream.cli.reference`."""

from __future__ import annotations

import click

from gofstream.cli import cli

#: Characters in a line of help, whatever the terminal.
WIDTH = 96
HEAD = """\
# Commands

Made from `--help` by `python -m gofstream.cli.reference`. Exit codes: 0; 1 for an anomaly at the
level that was set; 2 for bad input, with one message; 130 after Ctrl-C, with how to go on.

Completion of words in the shell: `eval "$(_GOFSTREAM_COMPLETE=bash_source gofstream)"` in your
`~/.bashrc`; `zsh_source` and `fish_source` for those shells.
"""


def page() -> str:
    """Write docs/reference/commands.md."""
    lines = HEAD.splitlines()
    for words, command in _commands(["gofstream"], cli):
        context = click.Context(
            command,
            parent=click.Context(cli, **cli.context_settings),
            info_name=" ".join(words),
            terminal_width=WIDTH,
            max_content_width=WIDTH,
        )
        lines += ["", f"## {' '.join(words)}", "", "```", command.get_help(context), "```"]
    return "\n".join(lines) + "\n"


def _commands(words: list[str], command: click.Command) -> list[tuple[list[str], click.Command]]:
    if not isinstance(command, click.Group):
        return [(words, command)]
    found, context = [], click.Context(command)
    for name in command.list_commands(context):
        known = command.get_command(context, name)
        assert known is not None
        found += _commands([*words, name], known)
    return found


if __name__ == "__main__":
    click.echo(page(), nl=False)
