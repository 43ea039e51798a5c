"""httpx's functions with a minute's patience instead of 5 s: the machine may be busy."""

from __future__ import annotations

from functools import partial

import httpx

PATIENCE_S = 60.0

get = partial(httpx.get, timeout=PATIENCE_S)
post = partial(httpx.post, timeout=PATIENCE_S)
request = partial(httpx.request, timeout=PATIENCE_S)
Client = partial(httpx.Client, timeout=PATIENCE_S)
