"""Text of a hostile device, client or kernel on terminals and in logs, and lists of keys that two change at a time."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading

import pytest
import zmq

from rpc_server.errors import RemoteError
from rpc_server.wire.codec import MessageKind, decode_error, encode_error
from rpc_server.wire.keys import KeyRing, KeyRole, from_curve
from rpc_server.wire.messages import BoxStatus, Measured, Returned, SessionEnded, Timings, decode_answer, public_codec
from rpc_server.wire.plain_text import PlainFormatter, plain, plainly
from rpc_server.wire.tracker_messages import DevicePage, Queued
from rpc_server.wire.trial_messages import FailureKind, MeasureResult
from tests.kit.farm.tracker_script import Script, hello

EVIL = "ok\x1b]0;owned\x07\x1b[2J\r\x9b31m\u202egnp.exe"


def is_harmless(text: str) -> bool:
    return all(ch.isprintable() or ch in "\n\t" for ch in text)


def test_control_characters_are_shown():
    assert is_harmless(plain(EVIL))
    assert plain("two\nlines\tand ümläuts 漢字") == "two\nlines\tand ümläuts 漢字"
    assert plain("\x1b[31m") == "\\x1b[31m"


def test_what_a_tracker_says_of_devices():
    script = Script()
    script(hello())
    page = script.state.device_page("", 10, script.now)
    device = plainly(
        DevicePage(
            (
                page.devices[0].__class__(
                    **{
                        **{name: getattr(page.devices[0], name) for name in page.devices[0].__dataclass_fields__},
                        "reason": EVIL,
                        "attributes": {"host": EVIL, "list": (EVIL,)},
                        "user": EVIL,
                    }
                ),
            ),
            False,
        )
    ).devices[0]
    assert is_harmless(device.reason + str(device.user) + "".join(map(str, device.attributes.values())))
    assert is_harmless(plainly(Queued("r", 1, 1, 1, None, EVIL)).note)


def test_errors_from_afar():
    error = decode_error(encode_error(RemoteError(EVIL, hint=EVIL, detail={"stderr": EVIL})))
    assert is_harmless(str(error) + error.detail["stderr"])


@pytest.mark.parametrize(
    "told",
    [
        Measured(MeasureResult(failure=FailureKind.LAUNCH, text=EVIL)),
        SessionEnded("session_closed", EVIL),
        BoxStatus(EVIL, EVIL, EVIL, {"cpu": EVIL}, (EVIL,), 0, 0.0, 0, user=EVIL, is_open=(EVIL,)),
        Timings((1.0,), (EVIL,)),
    ],
    ids=lambda told: type(told).__name__,
)
def test_what_a_box_says(told):
    body = decode_answer([memoryview(bytes(frame)) for frame in public_codec.encode(told, MessageKind.REPLY)]).body
    assert type(body) is type(told)
    assert is_harmless(repr(body).replace("\\\\", ""))
    assert EVIL[-5:] in repr(body)


def test_values_and_files_come_as_they_are():
    sent = public_codec.encode(Returned(EVIL), MessageKind.REPLY)
    assert decode_answer([memoryview(bytes(frame)) for frame in sent]).body == Returned(EVIL)


def test_a_name_forges_no_line_of_a_log():
    record = logging.LogRecord("n", 30, "f", 1, "session of %s", ("ann\nrpc_server ERROR: all is lost" + EVIL,), None)
    lines = PlainFormatter("%(name)s %(levelname)s: %(message)s").format(record).split("\n")
    assert lines[0].startswith("n WARNING")
    assert all(line.startswith("    ") for line in lines[1:])
    assert all(is_harmless(line) for line in lines)


def public() -> str:
    return from_curve(zmq.curve_keypair()[0])


def test_revoked_keys_do_not_come_back(tmp_path):
    """One process authorizes many keys while another revokes one: it stays revoked, and none is lost."""
    ring = KeyRing(tmp_path)
    eve = public()
    ring.authorize(eve, KeyRole.CLIENT, "eve")
    code = (
        "import sys, zmq\nfrom rpc_server.wire.keys import KeyRing, KeyRole, from_curve\nring = KeyRing(sys.argv[1])\n"
        "for n in range(40): ring.authorize(from_curve(zmq.curve_keypair()[0]), KeyRole.CLIENT, f'{sys.argv[2]}{n}')"
    )
    busy = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path), name]) for name in "ab"]
    revoker = threading.Thread(target=lambda: KeyRing(tmp_path).revoke("eve"))
    revoker.start()
    assert [process.wait(60) for process in busy] == [0, 0]
    revoker.join()
    names = {principal.name for principal in KeyRing(tmp_path).authorized().values()}
    assert names == {f"{name}{n}" for name in "ab" for n in range(40)}
