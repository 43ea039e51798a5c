"""systemd units of a farm's services, with no more rights than they need."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Service:
    """A process of the farm: `command` runs tunefarm, `words` follow it.
    `keys` is its folder of keys, `environment` a file of variables. `folder` is the farm's, which it may write to.
    `sessions`: it runs kernels of clients."""

    unit: str
    description: str
    words: tuple[str, ...]
    keys: Path
    folder: Path
    user: str
    command: str
    environment: Path | None = None
    sessions: bool = False


def unit_text(service: Service) -> str:
    """The unit as systemd reads it."""
    environment = f"EnvironmentFile={service.environment}\n" if service.environment else ""
    return f"""\
[Unit]
Description={service.description}
After=network-online.target
Wants=network-online.target
StartLimitIntervalSec=0

[Service]
ExecStart={service.command} {" ".join(service.words)}
Environment=TUNEFARM_KEYS={service.keys}
{environment}User={service.user}
WorkingDirectory={service.folder}
Restart=always
RestartSec=2
{_SESSIONS if service.sessions else _CLOSED.format(folder=service.folder)}
[Install]
WantedBy=multi-user.target
"""


_CLOSED = """\
KillMode=process
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=read-only
ReadWritePaths={folder}
PrivateTmp=yes
LimitNOFILE=65536
MemoryMax=2G
TasksMax=512
"""
_SESSIONS = """\
KillMode=control-group
PrivateTmp=yes
LimitNOFILE=65536
LimitCORE=0
MemoryMax=90%
TasksMax=8192
"""
