"""A part of a relay's session that dies, hangs or misbehaves costs its own session and nothing else."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from compiler.runtime.core import ndarray as nd
from rpc_server.client.connect import open_session
from rpc_server.errors import ConnectError, RPCError, ServerStartError, SessionClosed
from rpc_server.relay.handshake import PassRefused, show_pass
from rpc_server.relay.loop import HOLD_S
from rpc_server.relay.passes import ANSWER_SIZE, CLIENT, VERDICT_SIZE, PassAnswer, PassVerdict, new_pass, read_verdict
from rpc_server.relay.server import Relay
from tests.kit.farm.relay import PretendedBox, greeted, is_closed, relay_farm, start_relay, state, until
from tests.kit.places import ROOT
from tests.kit.process_tree import child_of, resident

BIG = 16 << 20


def use(remote):
    data = np.arange(1000, dtype=np.float32)
    np.testing.assert_array_equal(nd.array(data, remote.cpu()).numpy(), data)


# --- a farm's parts die --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def farm():
    with relay_farm() as running:
        yield running


@pytest.fixture
def session(farm):
    farm.mend()
    with farm.connect() as found:
        yield found
    farm.mend()


def copying(remote, death):
    """Copy arrays until `death`, which strikes in the middle, has ended that."""
    data = np.ones(BIG, np.float32)
    strike = threading.Timer(0.2, death)
    strike.start()
    try:
        for _ in range(1000):
            nd.array(data, remote.cpu()).numpy()
    except RPCError as error:
        return error
    finally:
        strike.join()
    raise AssertionError("the session went on")


def kill(pid):
    os.kill(pid, signal.SIGKILL)


def test_a_killed_relay(farm, session):
    remote = session.request("cpu", wait_s=60)
    error = copying(remote, lambda: kill(farm.relay.pid))
    assert isinstance(error, SessionClosed)
    assert f"the connection to relay 127.0.0.1:{farm.relay.port} is gone" in error.message
    assert "the box or its relay ended" in error.hint
    remote.close()
    until(lambda: state(session) == "closed", "the box is not lent while nobody can reach it")
    (device,) = session.devices()
    assert f"the relay at 127.0.0.1:{farm.relay.port} does not serve it" in device.reason
    farm.restart_relay()
    with session.request("cpu", wait_s=60) as again:
        use(again)


def test_a_killed_box(farm, session):
    lease = session.lease("cpu", wait_s=60)
    error = copying(lease.open_session(), lambda: kill(farm.box.pid))
    assert isinstance(error, SessionClosed)
    until(lambda: lease.lost is not None, "the tracker says that the lease is lost")
    assert "box nat is gone" in lease.lost
    farm.box.terminate()
    farm.start_box()
    with session.request("cpu", wait_s=60) as again:
        use(again)


def test_a_killed_agent(farm, session):
    remote = session.request("cpu", wait_s=60)
    assert isinstance(copying(remote, lambda: kill(child_of(farm.box.pid, "rpc_server.relay.agent"))), SessionClosed)
    remote.close()
    until(lambda: child_of(farm.box.pid, "rpc_server.relay.agent"), "there is another one")
    farm.ready()
    with session.request("cpu", wait_s=60) as again:
        use(again)


CLIENT_CODE = """
import sys, numpy as np
from compiler.runtime.core import ndarray as nd
from tracker.client import connect_tracker
remote = connect_tracker("127.0.0.1", int(sys.argv[1]), user="doomed", timeout_s=60).request("cpu", wait_s=60)
data = np.ones(16 << 20, np.float32)
while True:
    nd.array(data, remote.cpu()).numpy()
    print("copied", flush=True)
"""


def test_a_killed_client(farm, session):
    command = [sys.executable, "-c", CLIENT_CODE, str(farm.tracker.port)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}
    ) as client:
        assert client.stdout.readline() == "copied\n"
        client.kill()
    until(lambda: state(session) == "ready", "its device is back")
    with session.request("cpu", wait_s=60) as again:
        use(again)


def test_a_short_stop_of_the_relay_costs_nothing(farm, session):
    with session.request("cpu", wait_s=60) as remote:
        os.kill(farm.relay.pid, signal.SIGSTOP)
        time.sleep(1.0)
        os.kill(farm.relay.pid, signal.SIGCONT)
        use(remote)


def test_a_relay_that_is_not_there(farm, session):
    lease = session.lease("cpu", wait_s=60)
    kill(farm.relay.pid)
    farm.relay.terminate()
    with pytest.raises(ConnectError, match="the relay does not answer"):
        open_session(lease.host, lease.port, token=lease.token)
    lease.release()
    farm.restart_relay()


# --- clients ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def relay():
    with start_relay() as running:
        yield running


def met(relay, box, given):
    """Both ends of a way through the relay: (client's, box's)."""
    found = {}

    def client():
        line, door = show_pass("127.0.0.1", relay.port, given.text, time.monotonic() + 60)
        with line:
            found["client"] = socket.create_connection(("127.0.0.1", door), timeout=60)

    thread = threading.Thread(target=client)
    thread.start()
    back = box.call_back(box.called())
    thread.join()
    return found["client"], back


def refusal(relay, given):
    with pytest.raises(PassRefused) as error:
        show_pass("127.0.0.1", relay.port, given.text, time.monotonic() + 60)
    return str(error.value)


def test_bytes_go_both_ways(relay):
    given = new_pass()
    with PretendedBox(relay.port, given) as box:
        client, back = met(relay, box, given)
        with client, back:
            client.sendall(b"there")
            assert back.recv(100) == b"there"
            back.sendall(b"and back")
            back.close()
            assert client.recv(100) == b"and back"
            assert is_closed(client)


def test_a_pass_that_comes_before_its_box_has_told_of_it_is_waited_for(relay):
    """At one of some attempts: the relay waits for seconds, which a busy machine may take for other things."""
    for _ in range(10):
        given = new_pass()
        with PretendedBox(relay.port) as box, ThreadPoolExecutor(1) as pool:
            showing = pool.submit(show_pass, "127.0.0.1", relay.port, given.text, time.monotonic() + 60)
            time.sleep(HOLD_S / 3)
            box.say(given)
            with contextlib.suppress(PassRefused):
                back = box.call_back(box.called()) if box.is_called(showing.done) else None
                line, door = showing.result()
                with line, socket.create_connection(("127.0.0.1", door), timeout=60) as client:
                    assert back is not None
                    with back:
                        client.sendall(b"there")
                        assert back.recv(100) == b"there"
                return
    pytest.fail("it was never waited for")


def test_a_withdrawn_pass_is_refused(relay):
    given = new_pass()
    with PretendedBox(relay.port, given) as box:
        client, back = met(relay, box, given)
        client.close()
        back.close()
        box.say()
        until(lambda: "no such lease" in refusal(relay, given), "the relay knows")


def test_a_pass_with_another_secret_is_refused(relay):
    given = new_pass()
    with PretendedBox(relay.port, given) as box:
        client, back = met(relay, box, given)
        client.close()
        back.close()
        forged = type(given)(given.id, new_pass().secret)
        assert "no such lease" in refusal(relay, forged)


def test_what_a_client_said_is_no_use_to_say_again(relay):
    given = new_pass()
    with PretendedBox(relay.port, given) as box:
        first, greeting = greeted(relay.port)
        said = PassAnswer.to(greeting, CLIENT, given)
        first.sendall(said)
        box.call_back(box.called()).close()
        assert read_verdict(first.recv(VERDICT_SIZE))[0] is PassVerdict.WELCOME
        first.close()
        again, _ = greeted(relay.port)
        again.sendall(said)
        assert read_verdict(again.recv(VERDICT_SIZE))[0] is PassVerdict.NO_LEASE
        again.close()


def test_a_box_calls_back_once(relay):
    """The relay's number for one client opens no second line, nor one as a client; nor does an invented number."""
    given = new_pass()
    with PretendedBox(relay.port, given) as box:
        line, greeting = greeted(relay.port)
        line.sendall(PassAnswer.to(greeting, CLIENT, given))
        called = box.called()
        box.call_back(called)
        assert read_verdict(line.recv(VERDICT_SIZE))[0] is PassVerdict.WELCOME
        assert is_closed(box.call_back(called))
        assert is_closed(box.call_back(new_pass()))
        assert "no such lease" in refusal(relay, called)
        line.close()


def test_a_box_that_does_not_call_back(relay):
    given = new_pass()
    with PretendedBox(relay.port, given):
        assert refusal(relay, given) == "the box does not answer its relay"


def test_a_box_that_is_gone_is_soon_forgotten(relay):
    given = new_pass()
    with PretendedBox(relay.port, given) as box:
        client, back = met(relay, box, given)
        client.close()
        back.close()
    assert "the box" in refusal(relay, given)


def test_a_door_is_for_one_client_that_is_there(relay):
    given = new_pass()
    with PretendedBox(relay.port, given) as box:
        client_ports = []
        thread = threading.Thread(
            target=lambda: client_ports.append(show_pass("127.0.0.1", relay.port, given.text, time.monotonic() + 60))
        )
        thread.start()
        back = box.call_back(box.called())
        thread.join()
        ((line, door),) = client_ports
        line.close()  # it does not come after all
        assert is_closed(back)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", door), timeout=60)
        client, back = met(relay, box, given)
        with client, back:
            with contextlib.suppress(ConnectionRefusedError):
                assert is_closed(socket.create_connection(client.getpeername(), timeout=60))
            client.sendall(b"mine")
            assert back.recv(100) == b"mine"


def test_a_slow_reader_slows_its_sender_and_fills_nothing(relay):
    given = new_pass()
    with PretendedBox(relay.port, given) as box:
        client, back = met(relay, box, given)
        chunk = bytes(1 << 20)
        before = resident(relay.pid)
        for sender in (client, back):
            sender.settimeout(2.0)
            sent = 0
            with contextlib.suppress(TimeoutError):
                while sent < 1 << 30:
                    sent += sender.send(chunk)
            assert sent < 1 << 30, "somebody keeps all of that"
        assert resident(relay.pid) - before < 4 << 20
        other = new_pass()
        box.say(given, other)
        for end in met(relay, box, other):  # others do not wait for it
            end.close()
        client.close()
        back.close()


def test_strangers_that_say_nothing_hold_nobody_up(relay):
    given = new_pass()
    silent = [socket.create_connection(("127.0.0.1", relay.port), timeout=60) for _ in range(1100)]
    try:
        for number, stranger in enumerate(silent):
            with contextlib.suppress(OSError):
                stranger.send(b"?" * (number % ANSWER_SIZE))
        with PretendedBox(relay.port, given) as box:
            client, back = met(relay, box, given)
            client.close()
            back.close()
        assert is_closed_after_greeting(silent[0])  # the oldest had to go
    finally:
        for stranger in silent:
            stranger.close()


def is_closed_after_greeting(sock):
    with contextlib.suppress(ConnectionResetError):
        while sock.recv(1000):
            pass
    return True


def test_a_busy_port_is_told(relay):
    with pytest.raises(ServerStartError, match="in use"):
        Relay(port=relay.port, silent=True)
    with pytest.raises(ServerStartError, match=r"refusing to listen on 0\.0\.0\.0"):
        Relay("0.0.0.0", silent=True)
